//! Standard output, written so that a closed pipe is an error value and not a panic, and standard error, which nobody need read.

use std::fmt::Arguments;
use std::io::{self, Write};

use crate::error::{Error, Result};

/// Writes one line to standard output: `output::line(format_args!(…))`.
pub(crate) fn line(text: Arguments<'_>) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_fmt(text).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()).map_err(Error::Output)
}

/// Writes one line to standard error, if that is possible: there is nowhere else to tell that it is not.
pub(crate) fn tell(text: Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// What `print!` panics with, and then the cause, where standard output cannot be written: some of datafusion-cli does so.
const PANIC: &str = "failed printing to stdout: ";

/// The error for a panic of this text, if standard output could not be written.
pub(crate) fn as_error(panic: &str) -> Option<Error> {
    let cause = panic.strip_prefix(PANIC)?;
    let broken_pipe = io::Error::from(io::ErrorKind::BrokenPipe);
    let is_broken_pipe = cause.to_lowercase().contains(&broken_pipe.to_string());
    Some(Error::Output(if is_broken_pipe { broken_pipe } else { io::Error::other(cause.to_owned()) }))
}

/// Says nothing of panics that [`as_error`] makes errors of: they are told as such.
pub(crate) fn keep_panics_quiet() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload_as_str().is_none_or(|text| !text.starts_with(PANIC)) {
            told(panic);
        }
    }));
}
