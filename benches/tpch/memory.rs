//! The process's peak of resident memory, as Linux counts it. Elsewhere nothing is known.

use std::fs;

/// Starts a new peak and gives the memory in use now.
pub(crate) fn reset_peak() -> Option<u64> {
    fs::write("/proc/self/clear_refs", "5").ok()?;
    status("VmRSS:")
}

/// The peak since the last [`reset_peak`].
pub(crate) fn peak() -> Option<u64> {
    status("VmHWM:")
}

fn status(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
