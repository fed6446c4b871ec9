//! Files that are not yet whole, kept out of sight until they are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::error::{Doing, Error, Result};

/// A hidden directory beside the outputs. Files are written in it and moved to their places when all are whole; what is left in it
/// when it goes, on any failure, goes with it.
#[derive(Debug)]
pub(crate) struct Staging {
    dir: PathBuf,
}

impl Staging {
    /// A new one in `workplace`, which must be on the file system of the outputs for moves to be atomic.
    pub(crate) fn new(workplace: &Path) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix(".fermion-").tempdir_in(workplace);
        Ok(Self { dir: dir.doing(|| format!("cannot write in '{}'", workplace.display()))?.keep() })
    }

    /// The place of file number `number`. Its name has no extension that a table could take it for.
    pub(crate) fn file(&self, number: usize) -> PathBuf {
        self.dir.join(format!("{number}.part"))
    }

    /// Moves file `n` to `outputs[n]`, for all of them. When one cannot be moved, those before it that are new are removed again.
    pub(crate) fn publish(self, outputs: &[&Path], overwrite: bool) -> Result<()> {
        let mut fresh: Vec<&Path> = Vec::new();
        for (number, output) in outputs.iter().enumerate() {
            let existed = output.exists();
            if let Err(error) = place(&self.file(number), output, overwrite) {
                fresh.iter().for_each(|output| drop(fs::remove_file(output)));
                return Err(Error::failed(format!("cannot write '{}': {error}", output.display())));
            }
            if !existed {
                fresh.push(output);
            }
        }
        Ok(())
    }
}

fn place(file: &Path, output: &Path, overwrite: bool) -> io::Result<()> {
    if let Some(parent) = output.parent() {
        fs::create_dir_all(parent)?;
    }
    if overwrite {
        return fs::rename(file, output);
    }
    // The name was free when we began; somebody may have taken it since.
    tempfile::TempPath::try_from_path(file)?.persist_noclobber(output).map_err(|refused| refused.error)
}

impl Drop for Staging {
    fn drop(&mut self) {
        // A cancelled writer may still be creating its file in another thread, so one attempt can find the directory not empty.
        for _ in 0..10 {
            match fs::remove_dir_all(&self.dir) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => thread::sleep(Duration::from_millis(10)),
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn published_files_are_all_that_remains() {
        let dir = tempfile::tempdir().unwrap();
        let staging = Staging::new(dir.path()).unwrap();
        fs::write(staging.file(0), "zero").unwrap();
        fs::write(staging.file(1), "one").unwrap();
        staging.publish(&[&dir.path().join("a"), &dir.path().join("sub/b")], false).unwrap();
        assert_eq!(names(dir.path()), ["a", "sub"]);
        assert_eq!(fs::read_to_string(dir.path().join("sub/b")).unwrap(), "one");
    }

    #[test]
    fn a_name_taken_meanwhile_undoes_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let staging = Staging::new(dir.path()).unwrap();
        fs::write(staging.file(0), "zero").unwrap();
        fs::write(staging.file(1), "one").unwrap();
        fs::write(dir.path().join("b"), "somebody's").unwrap();
        assert!(staging.publish(&[&dir.path().join("a"), &dir.path().join("b")], false).is_err());
        assert_eq!(names(dir.path()), ["b"]);
        assert_eq!(fs::read_to_string(dir.path().join("b")).unwrap(), "somebody's");
    }
}
