//! Files that are not yet whole, kept out of sight until they are.

use std::fs::{self, File, Metadata, OpenOptions};
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
    is_kept: bool,
}

impl Staging {
    /// A new one in `workplace`, which must be on the file system of the outputs for moves to be atomic.
    pub(crate) fn new(workplace: &Path) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix(".fermion-").tempdir_in(workplace);
        Ok(Self { dir: dir.doing(|| format!("cannot write in '{}'", workplace.display()))?.keep(), is_kept: false })
    }

    /// The place of file number `number`. Its name has no extension that a table could take it for.
    pub(crate) fn file(&self, number: usize) -> PathBuf {
        self.dir.join(format!("{number}.part"))
    }

    /// Moves file `n` to `outputs[n]`, for all of them. When one cannot be moved, everything is again as it was.
    pub(crate) fn publish(mut self, outputs: &[&Path], overwrite: bool) -> Result<()> {
        let mut steps = Vec::new();
        for (number, output) in outputs.iter().enumerate() {
            if let Err(error) = self.place(number, output, overwrite, &mut steps) {
                let failed = format!("cannot write '{}': {error}", output.display());
                let not_undone = steps.into_iter().rev().map(Step::undo).filter(io::Result::is_err).count();
                if not_undone == 0 {
                    return Err(Error::failed(failed));
                }
                self.is_kept = true;
                return Err(Error::failed(format!("{failed}; files that were to be replaced are in '{}'", self.dir.display())));
            }
        }
        Ok(())
    }

    fn place(&self, number: usize, output: &Path, overwrite: bool, steps: &mut Vec<Step>) -> io::Result<()> {
        if let Some(parent) = output.parent() {
            make_directories(parent, steps)?;
        }
        let file = self.file(number);
        let old = existing(output)?;
        // To the disk before it takes another's place: after a power cut there is the old file or the new one, and not an empty one.
        let opened = OpenOptions::new().write(true).open(&file)?;
        if let Some(old) = &old {
            opened.set_permissions(old.permissions())?;
        }
        opened.sync_all()?;
        if old.is_some() && overwrite {
            let aside = self.dir.join(format!("{number}.old"));
            // A second name for the old file leaves no moment without one. Some file systems know no second names.
            fs::hard_link(output, &aside).or_else(|_| fs::rename(output, &aside))?;
            steps.push(Step::Replaced { aside, output: output.into() });
            fs::rename(&file, output)?;
        } else {
            // The name was free when we began; somebody may have taken it since.
            tempfile::TempPath::try_from_path(file)?.persist_noclobber(output).map_err(|refused| refused.error)?;
            steps.push(Step::Made(output.into()));
        }
        sync_parent(output);
        Ok(())
    }
}

/// The file at `output`, if there is one. What is no file is not touched, whatever was asked.
fn existing(output: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(output) {
        Ok(found) if found.is_file() => Ok(Some(found)),
        Ok(_) => Err(io::Error::other("it is not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes `dir` and what is missing above it.
fn make_directories(dir: &Path, steps: &mut Vec<Step>) -> io::Result<()> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
    for dir in missing.into_iter().rev() {
        fs::create_dir(dir)?;
        steps.push(Step::Directory(dir.into()));
    }
    Ok(())
}

/// So that the name is on the disk, too. Not every file system can; then it is as safe as a file there can be.
fn sync_parent(output: &Path) {
    if cfg!(unix)
        && let Some(Ok(dir)) = output.parent().map(File::open)
    {
        let _ = dir.sync_all();
    }
}

/// What was done to the outputs.
#[derive(Debug)]
enum Step {
    Directory(PathBuf),
    Made(PathBuf),
    Replaced { aside: PathBuf, output: PathBuf },
}

impl Step {
    fn undo(self) -> io::Result<()> {
        match self {
            // Somebody else may have put something into it by now, and then it stays.
            Self::Directory(dir) => fs::remove_dir(dir).or(Ok(())),
            Self::Made(output) => fs::remove_file(output),
            Self::Replaced { aside, output } => fs::rename(aside, output),
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
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

    #[test]
    fn when_one_cannot_be_replaced_all_are_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let staging = Staging::new(dir.path()).unwrap();
        for number in 0..3 {
            fs::write(staging.file(number), "new").unwrap();
        }
        fs::write(path("a"), "old").unwrap();
        // A directory cannot be replaced by a file.
        fs::create_dir(path("c")).unwrap();
        let refusal = staging.publish(&[&path("a"), &path("made/here/b"), &path("c")], true).unwrap_err().to_string();
        assert_eq!(refusal, format!("cannot write '{}': it is not a regular file", path("c").display()));
        assert_eq!(names(dir.path()), ["a", "c"]);
        assert_eq!(fs::read_to_string(path("a")).unwrap(), "old");
    }

    #[cfg(unix)]
    #[test]
    fn a_replaced_file_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("a");
        fs::write(&output, "old").unwrap();
        fs::set_permissions(&output, fs::Permissions::from_mode(0o600)).unwrap();
        let staging = Staging::new(dir.path()).unwrap();
        fs::write(staging.file(0), "new").unwrap();
        staging.publish(&[&output], true).unwrap();
        assert_eq!(fs::read_to_string(&output).unwrap(), "new");
        assert_eq!(fs::metadata(&output).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
