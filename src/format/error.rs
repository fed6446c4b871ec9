//! The one error type of the formats: few kinds, a place, and a sentence.

use std::fmt;
use std::sync::Arc;

use super::scan::Section;

/// What went wrong, in the design document's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are not a file of this format, or contradict each other.
    InvalidFile,
    /// Something lies beyond the end of the file.
    Eof,
    /// A CRC32 does not match the bytes it covers.
    Checksum,
    /// A version, required setting, type, encoding or compression that this reader does not know.
    UnsupportedVersion,
    /// The caller asked for something that cannot be.
    InvalidArgument,
}

/// An error of a format, with the place in the file where it was found.
#[derive(Debug, Clone)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    section: Option<Section>,
    column: Option<Arc<str>>,
    offset: Option<u64>,
    /// Fewer rows at once would not have met this error.
    splittable: bool,
}

/// A result of a format.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), section: None, column: None, offset: None, splittable: false }))
    }

    /// The bytes are not a file of this format, or contradict each other.
    pub fn invalid_file(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidFile, message)
    }

    /// Something lies beyond the end of the file.
    pub fn eof(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Eof, message)
    }

    /// A CRC32 does not match.
    pub fn checksum(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Checksum, message)
    }

    /// The file needs a newer reader.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::UnsupportedVersion, message)
    }

    /// The caller asked for something that cannot be.
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// A batch of fewer rows would fit.
    pub(crate) fn too_many_rows(message: impl Into<String>) -> Self {
        let mut error = Self::new(ErrorKind::InvalidArgument, message);
        error.0.splittable = true;
        error
    }

    /// Whether reading fewer rows at once can help.
    pub(crate) fn is_splittable(&self) -> bool {
        self.0.splittable
    }

    /// Names the section of the file, unless a deeper place has already been named.
    #[must_use]
    pub fn in_section(mut self, section: Section) -> Self {
        self.0.section.get_or_insert(section);
        self
    }

    /// Names the column, unless a deeper place has already named one.
    #[must_use]
    pub fn in_column(mut self, column: &str) -> Self {
        self.0.column.get_or_insert_with(|| column.into());
        self
    }

    /// Names the offset in the file, unless a deeper place has already named one.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// The same as the caller's fault: what no file can hold, nobody can write.
    pub(crate) fn of_argument(mut self) -> Self {
        self.0.kind = ErrorKind::InvalidArgument;
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The section of the file, where known.
    pub fn section(&self) -> Option<Section> {
        self.0.section
    }

    /// The column's name, where known.
    pub fn column(&self) -> Option<&str> {
        self.0.column.as_deref()
    }

    /// The offset in the file, where known.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidFile => "invalid file",
            Self::Eof => "end of file",
            Self::Checksum => "checksum mismatch",
            Self::UnsupportedVersion => "unsupported",
            Self::InvalidArgument => "invalid argument",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, message, section, column, offset, .. } = &*self.0;
        write!(f, "{kind}: {message}")?;
        let mut separator = " (";
        if let Some(section) = section {
            write!(f, "{separator}{section}")?;
            separator = ", ";
        }
        if let Some(column) = column {
            write!(f, "{separator}column {column:?}")?;
            separator = ", ";
        }
        if let Some(offset) = offset {
            write!(f, "{separator}offset {offset}")?;
            separator = ", ";
        }
        if separator == ", " { f.write_str(")") } else { Ok(()) }
    }
}

impl std::error::Error for Error {}

impl From<arrow::error::ArrowError> for Error {
    /// Arrow refuses to build an array only from parts that do not fit together.
    fn from(error: arrow::error::ArrowError) -> Self {
        Self::invalid_file(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_place_wins_and_is_shown() {
        let error = Error::checksum("page does not match").at(40).in_column("a").in_section(Section::Data).at(0).in_column("b");
        assert_eq!(error.to_string(), "checksum mismatch: page does not match (data, column \"a\", offset 40)");
        assert_eq!(Error::eof("short").to_string(), "end of file: short");
    }
}
