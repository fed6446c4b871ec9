//! What can go wrong on the command line, always told in one line.

use std::fmt;
use std::io;

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;

/// The outcome of everything here.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a command ends early.
#[derive(Debug)]
pub(crate) enum Error {
    /// The command cannot be done; the text says why.
    Failed(String),
    /// Standard output cannot be written.
    Output(io::Error),
    /// The person asked to stop.
    Interrupted,
}

impl Error {
    /// A failure told by `text`.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(text) => f.write_str(text),
            Self::Output(cause) => write!(f, "cannot write to standard output: {cause}"),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        Self::Failed(one_line(&error))
    }
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Says what was being done when `self` failed.
pub(crate) trait Doing<T> {
    /// Puts `what()` and a colon before the reason.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for Result<T, DataFusionError> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::Failed(format!("{}: {}", what(), one_line(&error))))
    }
}

impl<T> Doing<T> for Result<T, io::Error> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::Failed(format!("{}: {error}", what())))
    }
}

impl<T> Doing<T> for Result<T, object_store::Error> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::Failed(format!("{}: {error}", what())))
    }
}

/// The engine's message without backtrace and line breaks.
pub(crate) fn one_line(error: &DataFusionError) -> String {
    let text = error.strip_backtrace().replace("\ncaused by\n", ": ");
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_causes_becomes_one_line() {
        let error = DataFusionError::Execution("no such\n thing".into()).context("reading 'a'");
        assert_eq!(one_line(&error), "reading 'a': Execution error: no such thing");
    }
}
