//! Where the suite is, which of its files run, and the directories that they expect around them.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use serde_json::Value;
use tempfile::TempDir;

/// Files that say nothing about tables in files or in memory, or need what is not here.
pub(crate) const SKIPPED: &[(&str, &str)] = &[
    ("encrypted_parquet.slt", "encryption of Parquet files"),
    ("parquet_cdc.slt", "chunking options of Parquet's writer"),
    ("parquet_cdc_config.slt", "chunking options of Parquet's writer"),
    ("parquet_metadata_functions.slt", "functions about Parquet's metadata"),
    ("clickbench.slt", "data that does not ship with the suite"),
    ("clickbench_extended.slt", "data that does not ship with the suite"),
    ("imdb.slt", "data that does not ship with the suite"),
    ("avro.slt", "data that does not ship with the suite"),
    ("slt_features.slt", "the runner itself"),
    ("tpch/", "data that does not ship with the suite; its queries run in the tests of the format's package"),
];

/// The suite, laid out in a scratch directory as in DataFusion's repository: `datafusion/sqllogictest` is the working directory, two levels below
/// the root that expected plans call `WORKSPACE_ROOT`.
pub(crate) struct Suite {
    test_files: PathBuf,
    root: TempDir,
}

/// One file of the suite.
pub(crate) struct SuiteFile {
    pub(crate) path: PathBuf,
    /// Its path below `test_files`, by which the suite decides what a session has registered.
    pub(crate) relative: PathBuf,
    /// The directory that plans call `WORKSPACE_ROOT`.
    pub(crate) root: PathBuf,
    name: String,
}

impl Suite {
    /// Finds the suite and changes into a fresh working directory for it.
    pub(crate) fn prepare() -> Result<Self, Box<dyn Error>> {
        let package = package_directory("datafusion-sqllogictest")?;
        let root = tempfile::tempdir()?;
        let working_directory = root.path().join("datafusion/sqllogictest");
        fs::create_dir_all(working_directory.join("test_files/scratch"))?;
        fs::create_dir_all(root.path().join("parquet-testing/data"))?;
        copy_files(&package.join("data"), &working_directory.join("data"))?;
        let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/parquet");
        if shared.is_dir() {
            copy_files(&shared, &root.path().join("parquet-testing/data"))?;
        }
        env::set_current_dir(&working_directory)?;
        for directory in ["parquet-testing/data", "datafusion/sqllogictest/data"] {
            convert_files(&root.path().join(directory))?;
        }
        Ok(Self { test_files: package.join("test_files"), root })
    }

    pub(crate) fn files(&self) -> io::Result<Vec<SuiteFile>> {
        let mut paths = Vec::new();
        slt_files(&self.test_files, &mut paths)?;
        paths.sort();
        let root = self.root.path().canonicalize()?;
        let file = |path: PathBuf| {
            let relative = path.strip_prefix(&self.test_files).unwrap_or(&path).to_path_buf();
            let name = relative.to_string_lossy().into_owned();
            SuiteFile { path, relative, root: root.clone(), name }
        };
        let is_skipped =
            |file: &SuiteFile| SKIPPED.iter().any(|(name, _)| file.name == *name || (name.ends_with('/') && file.name.starts_with(name)));
        Ok(paths.into_iter().map(file).filter(|file| !is_skipped(file)).collect())
    }
}

impl SuiteFile {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Empties the scratch directory that the records of this file write to.
    pub(crate) fn clear_scratch(&self) -> io::Result<PathBuf> {
        let scratch = self.root.join("datafusion/sqllogictest/test_files/scratch").join(self.relative.file_stem().unwrap_or_default());
        if scratch.exists() {
            fs::remove_dir_all(&scratch)?;
        }
        fs::create_dir_all(&scratch)?;
        Ok(scratch)
    }
}

/// Asks cargo where the sources of a dependency are.
fn package_directory(name: &str) -> Result<PathBuf, Box<dyn Error>> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let output = Command::new(cargo).args(["metadata", "--format-version", "1", "--manifest-path"]).arg(manifest).output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata.get("packages").and_then(Value::as_array).ok_or("cargo metadata lists no packages")?;
    let package = packages.iter().find(|package| package.get("name").and_then(Value::as_str) == Some(name));
    let manifest = package.and_then(|package| package.get("manifest_path")).and_then(Value::as_str).ok_or("the package is no dependency")?;
    Ok(Path::new(manifest).parent().ok_or("a manifest is in a directory")?.to_path_buf())
}

fn slt_files(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            slt_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            files.push(path);
        }
    }
    Ok(())
}

/// What the suite reads as Parquet it shall find as Fermion, too.
fn convert_files(directory: &Path) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "parquet") {
            runtime.block_on(crate::session::convert(&path)).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        if path.is_file() {
            fs::write(to.join(path.file_name().unwrap_or_default()), fs::read(&path)?)?;
        }
    }
    Ok(())
}
