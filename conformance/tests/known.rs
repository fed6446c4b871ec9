//! Differences that are right, each with its reason.

use crate::run::Mode;

const KNOWN: &str = include_str!("known.txt");

/// How the reason begins where it is left to chance whether the answers differ.
pub(crate) const SOMETIMES: &str = "sometimes";

/// Why the record at a line of a file may differ in this mode. A line of `known.txt` is: mode, file, lines, reason.
pub(crate) fn known_reason(file: &str, mode: Mode, line: u32) -> Option<&'static str> {
    KNOWN.lines().filter(|entry| !entry.starts_with('#')).find_map(|entry| {
        let mut words = entry.splitn(4, ' ');
        let applies = words.next()? == mode.name() && words.next()? == file;
        let covers = words.next()?.split(',').any(|number| number.parse() == Ok(line));
        (applies && covers).then(|| words.next().unwrap_or_default())
    })
}
