//! What can go wrong on the command line, always told in one line.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::Path;

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion_fermion::provider::FileError;
use futures::FutureExt;

use crate::output;

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

/// The outcome of what may panic: that is a fault of some library, and neither ends the prompt nor is told in another way than other errors.
pub(crate) async fn calmed<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
        Err(output::as_error(text).unwrap_or_else(|| Error::Failed(format!("the engine panicked: {text}"))))
    })
}

/// Says what was being done when `self` failed.
pub(crate) trait Doing<T> {
    /// Puts `what()` and a colon before the reason.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for Result<T, DataFusionError> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| {
            let what = what();
            let why = one_line_after(&what, &error);
            Error::Failed(format!("{what}: {why}"))
        })
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

/// The engine's message without backtrace, line breaks and what it says to its own developers.
pub(crate) fn one_line(error: &DataFusionError) -> String {
    one_line_after("", error)
}

/// The same for the end of a sentence that begins with `said`, which need not name the file again.
pub(crate) fn one_line_after(said: &str, error: &DataFusionError) -> String {
    if let Some(fault) = cause::<FileError>(error) {
        let path = fault.path().as_ref();
        return if said.contains(path) { fault.error().to_string() } else { format!("{}: {}", rooted(path), fault.error()) };
    }
    if let DataFusionError::Internal(text) = error.find_root() {
        // All that is left of a full disk when CSV or JSON is written.
        let is_write = text.contains("finalizing writes");
        return if is_write { "the file could not be written as a whole; is the disk full?".into() } else { format!("Internal error: {text}") };
    }
    let text = error.strip_backtrace().replace("\ncaused by\n", ": ").replace("External error: ", "");
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(" ")
}

/// The first of an error's causes that is a `T`.
pub(crate) fn cause<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| StdError::source(*error)).find_map(|error| error.downcast_ref())
}

/// Stores name a file of this machine without the root of the file system.
fn rooted(path: &str) -> String {
    let local = Path::new("/").join(path);
    if local.exists() { local.display().to_string() } else { path.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_causes_becomes_one_line() {
        let error = DataFusionError::Execution("no such\n thing".into()).context("reading 'a'");
        assert_eq!(one_line(&error), "reading 'a': Execution error: no such thing");
    }

    #[tokio::test]
    async fn a_panic_is_an_error() {
        let panics = async { if std::hint::black_box(true) { panic!("no {}", "more") } else { Ok(()) } };
        assert_eq!(calmed(panics).await.unwrap_err().to_string(), "the engine panicked: no more");
        assert_eq!(calmed(async { Ok(7) }).await.unwrap(), 7);
    }

    #[test]
    fn nobody_is_asked_to_report_a_bug() {
        let error = DataFusionError::Internal("not an Arrow file".into()).context("reading 'a'");
        assert_eq!(one_line(&error), "Internal error: not an Arrow file");
        let error = DataFusionError::Internal("Error encountered while finalizing writes!".into());
        assert_eq!(one_line(&error), "the file could not be written as a whole; is the disk full?");
        let error = DataFusionError::External("the network is down".into());
        assert_eq!(one_line(&error), "the network is down");
    }
}
