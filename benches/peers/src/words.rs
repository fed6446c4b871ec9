//! Words of a language that does not exist: as long, as repetitive and as skewed as those of one that does.

use crate::random::{Random, mix};

const LATIN: [&str; 48] = [
    "ka", "ro", "vi", "ste", "po", "na", "li", "ko", "ra", "pre", "no", "va", "to", "ni", "ta", "ti", "go", "le", "re", "do", "sa", "de", "mo", "ma",
    "si", "bo", "la", "me", "lo", "pa", "so", "da", "zhi", "ch", "shka", "nost", "tel", "kij", "naya", "ov", "er", "in", "ob", "iz", "kra", "mir",
    "gla", "dru",
];

/// The same syllables in a script that takes two bytes for a letter, as most of what ClickBench's table holds does.
const CYRILLIC: [&str; 48] = [
    "ка",
    "ро",
    "ви",
    "сте",
    "по",
    "на",
    "ли",
    "ко",
    "ра",
    "пре",
    "но",
    "ва",
    "то",
    "ни",
    "та",
    "ти",
    "го",
    "ле",
    "ре",
    "до",
    "са",
    "де",
    "мо",
    "ма",
    "си",
    "бо",
    "ла",
    "ме",
    "ло",
    "па",
    "со",
    "да",
    "жи",
    "ч",
    "шка",
    "ность",
    "тель",
    "кий",
    "ная",
    "ов",
    "ер",
    "ин",
    "об",
    "из",
    "кра",
    "мир",
    "гла",
    "дру",
];

#[derive(Debug, Clone, Copy)]
pub(crate) enum Script {
    Latin,
    Cyrillic,
}

/// Adds the word of a rank: the lower the rank, the more often the word is used, and the shorter it is.
pub(crate) fn word(rank: u64, script: Script, text: &mut String) {
    let mut random = Random::of(&[rank]);
    let syllables = 1 + u64::from((rank + 1).ilog2()) / 5 + random.below(2);
    for _ in 0..syllables {
        text.push_str(random.pick(match script {
            Script::Latin => &LATIN,
            Script::Cyrillic => &CYRILLIC,
        }));
    }
}

/// Adds so many words out of the first 2^16, with `between` between them.
pub(crate) fn words(random: &mut Random, count: u64, script: Script, between: char, text: &mut String) {
    for index in 0..count {
        if index > 0 {
            text.push(between);
        }
        word(random.skewed(0, 15), script, text);
    }
}

/// A hash of a text that is the same on every machine.
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes().fold(0, |state, byte| mix(state ^ u64::from(byte)))
}
