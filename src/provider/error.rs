//! The one conversion from errors of the formats to errors of the engine.

use std::fmt;

use datafusion::error::DataFusionError;
use object_store::path::Path;

use crate::format::{Error, ErrorKind};

/// An error of a format with the object it was found in: `dir/x.fermion: checksum mismatch: …`.
#[derive(Debug)]
pub struct FileError {
    path: Path,
    error: Error,
}

impl FileError {
    /// The object.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is wrong with it.
    pub fn error(&self) -> &Error {
        &self.error
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.error)
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// The engine's form of an error that a format found in an object. A fault of the caller is a fault of the plan; everything else is the file's.
pub(super) fn in_file(path: &Path, error: Error) -> DataFusionError {
    match error.kind() {
        ErrorKind::InvalidArgument => DataFusionError::Plan(format!("{path}: {error}")),
        _ => DataFusionError::External(Box::new(FileError { path: path.clone(), error })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::scan::Section;

    #[test]
    fn a_fault_of_the_file_names_the_object() {
        let path = Path::from("dir/x.fermion");
        let error = in_file(&path, Error::checksum("page does not match").in_section(Section::Data).in_column("a").at(40));
        assert_eq!(error.to_string(), "External error: dir/x.fermion: checksum mismatch: page does not match (data, column \"a\", offset 40)");
    }

    #[test]
    fn a_fault_of_the_caller_is_a_fault_of_the_plan() {
        let error = in_file(&Path::from("x.fermion"), Error::invalid_argument("no column 7"));
        assert!(matches!(&error, DataFusionError::Plan(message) if message == "x.fermion: invalid argument: no column 7"), "{error:?}");
    }
}
