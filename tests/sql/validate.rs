//! When an answer is the expected one: line for line, where `<slt:ignore>` in an expected line stands for any text within it.

use sqllogictest::Normalizer;

/// What stands between two cells of a row.
pub(crate) const COLUMN_SEPARATOR: &str = " ";
const ANY: &str = "<slt:ignore>";

/// Editors trim the ends of lines; nothing else may differ.
#[expect(clippy::ptr_arg, reason = "the signature is the runner's")]
pub(crate) fn normalize(line: &String) -> String {
    line.trim_end().to_owned()
}

pub(crate) fn validate(normalizer: Normalizer, actual: &[Vec<String>], expected: &[String]) -> bool {
    let line = |row: &Vec<String>| normalizer(&row.join(COLUMN_SEPARATOR));
    actual.len() == expected.len() && actual.iter().zip(expected).all(|(row, pattern)| matches(&normalizer(pattern), &line(row)))
}

fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once(ANY) else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(start) else {
        return false;
    };
    let mut pieces: Vec<&str> = rest.split(ANY).collect();
    let end = pieces.pop().unwrap_or_default();
    for piece in pieces {
        match text.find(piece) {
            Some(at) => text = text.split_at(at).1.split_at(piece.len()).1,
            None => return false,
        }
    }
    text.ends_with(end)
}
