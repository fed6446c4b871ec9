//! The SQL tests: every `.slt` file here is one test.
//!
//! Files in `shared/` run once per format, each time in a fresh directory, against the same expected rows: that is how Parquet's answers
//! become the expectation for the others. Files in `fermion/` and `alkaid/` say things that only that format can do. In SQL text, `${FORMAT}` is the word after
//! `STORED AS`, `${EXT}` the file extension, `${DIR}` the directory and `${SMALL}` options for small pages; [`commands`] lists the few statements that are not SQL.
//!
//! `cargo test --test sql -- joins` runs the files whose names contain `joins`; `cargo test --test sql -- --complete joins` rewrites their
//! expected results: those of shared files from Parquet's answers, never from our own formats'.

mod commands;
mod engine;
mod format;
mod validate;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

use libtest_mimic::{Arguments, Failed, Trial};
use sqllogictest::{MakeConnection, Runner, parse_file, strict_column_validator};

use crate::engine::{Engine, Format};
use crate::validate::{COLUMN_SEPARATOR, normalize, validate};

fn main() -> ExitCode {
    let (complete, arguments): (Vec<String>, Vec<String>) = env::args().partition(|argument| argument == "--complete");
    let complete = !complete.is_empty();
    match cases() {
        Ok(cases) => {
            let wanted = cases.into_iter().filter(|case| !complete || case.rules_expectation());
            let trials = wanted.map(|case| Trial::test(case.name(), move || case.run(complete))).collect();
            libtest_mimic::run(&Arguments::from_iter(arguments), trials).exit_code()
        }
        Err(error) => {
            eprintln!("the .slt files cannot be listed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// One file under one format.
struct Case {
    path: PathBuf,
    format: Format,
    shared: bool,
}

/// Every case, in the order of file names.
fn cases() -> io::Result<Vec<Case>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql");
    let mut cases = Vec::new();
    for path in slt_files(&root.join("shared"))? {
        cases.extend(Format::ALL.map(|format| Case { path: path.clone(), format, shared: true }));
    }
    for format in [Format::Fermion, Format::Alkaid] {
        let own = slt_files(&root.join(format.extension()))?;
        cases.extend(own.into_iter().map(|path| Case { path, format, shared: false }));
    }
    Ok(cases)
}

fn slt_files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    files.retain(|path| path.extension() == Some(OsStr::new("slt")));
    files.sort();
    Ok(files)
}

impl Case {
    fn name(&self) -> String {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let directory = if self.shared { "shared" } else { self.format.extension() };
        format!("{directory}/{stem} [{}]", self.format.word())
    }

    /// Whether `--complete` takes this case's answers as the expected ones.
    fn rules_expectation(&self) -> bool {
        !self.shared || self.format == Format::Parquet
    }

    fn run(&self, complete: bool) -> Result<(), Failed> {
        let directory = tempfile::tempdir()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let mut runner = Runner::new(|| async { Engine::new(self.format, directory.path()).await });
        runner.with_normalizer(normalize);
        runner.with_validator(validate);
        runner.with_column_validator(strict_column_validator);
        if complete {
            let update = runner.update_test_file(&self.path, COLUMN_SEPARATOR, validate, normalize, strict_column_validator);
            return Ok(runtime.block_on(update)?);
        }
        runtime.block_on(run_records(&mut runner, &self.path))
    }
}

/// Runs every record, also those after a failure, so that one run shows all that is wrong with a file.
async fn run_records<M: MakeConnection<Conn = Engine>>(runner: &mut Runner<Engine, M>, path: &Path) -> Result<(), Failed> {
    let mut failures = Vec::new();
    for record in parse_file(path)? {
        if let Err(failure) = runner.run_async(record).await {
            failures.push(failure.to_string());
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}
