//! Standard output, written so that a closed pipe is an error value and not a panic.

use std::fmt::Arguments;
use std::io::{self, Write};

use crate::error::{Error, Result};

/// Writes one line to standard output: `output::line(format_args!(…))`.
pub(crate) fn line(text: Arguments<'_>) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_fmt(text).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()).map_err(Error::Output)
}
