//! `fermion verify`: checksums, counts, bounds and sums of files.

use std::path::PathBuf;

use clap::Args;
use datafusion::arrow::array::AsArray;

use super::{File, counted, number};
use crate::error::{Error, Result};
use crate::output::line;
use crate::units::size;

/// Which files.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Fermion files
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// Names each fault, and fails if there is one.
pub(crate) async fn run(args: VerifyArgs) -> Result<()> {
    let (mut faults, mut damaged) = (0, 0);
    for path in &args.files {
        let name = path.display();
        let found = match File::open(path) {
            Ok(file) => faults_of(&file).await.map(|faults| (faults, Some(file))),
            Err(error) => Err(error),
        };
        // What cannot be read does not keep the others from being looked at.
        let (found, file) = found.unwrap_or_else(|error| (vec![error.to_string()], None));
        for fault in &found {
            line(format_args!("{name}: {fault}"))?;
        }
        if let Some(file) = file.filter(|_| found.is_empty()) {
            let metadata = file.metadata().await?;
            let [rows, columns, bytes] = ["rows", "columns", "bytes"].map(|name| number(&metadata, name));
            line(format_args!("{name}: whole ({}, {}, {})", counted(rows, "row"), counted(columns, "column"), size(bytes)))?;
        }
        faults += found.len() as u64;
        damaged += u64::from(!found.is_empty());
    }
    match (faults, args.files.len()) {
        (0, _) => Ok(()),
        (_, 1) => Err(Error::failed(counted(faults, "fault"))),
        (_, files) => Err(Error::failed(format!("{} in {damaged} of {files} files", counted(faults, "fault")))),
    }
}

async fn faults_of(file: &File) -> Result<Vec<String>> {
    let batches = file.query(&format!("SELECT fault FROM fermion_verify({})", file.quoted)).await?;
    let texts = batches.iter().filter_map(|batch| batch.column(0).as_string_opt::<i32>());
    Ok(texts.flat_map(|column| column.iter().flatten().map(str::to_owned).collect::<Vec<_>>()).collect())
}
