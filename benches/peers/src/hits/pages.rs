//! What sites are called, and what their pages are: the same text each time.

use std::fmt::Write;

use super::SEED;
use super::visits::counter;
use crate::random::Random;
use crate::words::{Script, word, words};

/// Pages of a site, as a power of two.
const PAGE_BITS: u64 = 7;

/// The page of a site that a step of a visit goes to; 0 is the first page of the site.
pub(super) fn page(visit: u64, step: u64) -> u64 {
    Random::of(&[SEED, 2, visit, step]).skewed(0, PAGE_BITS)
}

/// Adds a page's address.
pub(super) fn url(counter: i64, page: u64, text: &mut String) {
    let mut site = Random::of(&[SEED, 3, counter.cast_unsigned()]);
    text.push_str("http://");
    text.push_str(site.weighted(&[("", 6), ("www.", 3), ("m.", 1)]));
    host(&mut site, text);
    text.push('/');
    if page > 0 {
        path(site.below(3), counter, page, text);
    }
}

fn host(site: &mut Random, text: &mut String) {
    let count = 1 + site.below(2);
    words(site, count, Script::Latin, '-', text);
    text.push_str(site.weighted(&[(".ru", 12), (".com", 4), (".net", 1), (".com.tr", 1), (".ua", 2)]));
}

/// What follows the host, in one of the ways in which sites do that. The parts are the site's few sections and the page's own words.
fn path(style: u64, counter: i64, page: u64, text: &mut String) {
    let mut section = Random::of(&[SEED, 4, counter.cast_unsigned(), page % 16]);
    let mut own = Random::of(&[SEED, 5, counter.cast_unsigned(), page]);
    match style {
        0 => {
            words(&mut section, 3, Script::Latin, '/', text);
            let _ = write!(text, "/{}.html", own.below(10_000_000));
        }
        1 => {
            words(&mut section, 1, Script::Latin, '/', text);
            text.push('/');
            let count = 3 + own.below(6);
            words(&mut own, count, Script::Latin, '_', text);
            text.push('/');
        }
        _ => {
            word(section.below(64), Script::Latin, text);
            let _ = write!(text, ".php?id={}&cat={}&sort=", own.below(1_000_000), own.below(500));
            words(&mut own, 3, Script::Latin, '+', text);
        }
    }
}

/// Adds what a visitor's browser or an advertiser appends to an address. About one address in eight has something.
pub(super) fn url_end(random: &mut Random, text: &mut String) {
    // ClickBench asks for `%google%`.
    if random.chance(160) {
        text.push_str(random.pick(&["?from=google", "?q=http://www.google.ru/search", "#google_vignette"]));
    } else if random.chance(120_000) {
        let _ = match random.below(3) {
            0 => write!(text, "#page={}", random.below(40)),
            1 => write!(text, "&sid={:016x}", random.bits()),
            _ => write!(text, "?utm_campaign={}&ts={}", random.below(400), random.below(2_000_000_000)),
        };
    }
}

/// Adds a page's title. One in seven has none.
pub(super) fn title(counter: i64, page: u64, text: &mut String) {
    let mut own = Random::of(&[SEED, 6, counter.cast_unsigned(), page]);
    if own.chance(145_000) {
        return;
    }
    if own.chance(300) {
        text.push_str("Google ");
    }
    let count = 3 + own.below(8);
    words(&mut own, count, Script::Cyrillic, ' ', text);
    text.push_str(own.pick(&[" - ", " | ", " :: ", ", "]));
    let mut site = Random::of(&[SEED, 7, counter.cast_unsigned()]);
    words(&mut site, 2, Script::Cyrillic, ' ', text);
}

/// Adds an address on some other site.
pub(super) fn foreign_url(random: &mut Random, text: &mut String) {
    let (site, page) = (counter(random.skewed(0, 12)), random.skewed(0, 10));
    url(site, page, text);
}

/// Adds what somebody looked for; as part of an address it is in Latin letters.
pub(super) fn phrase(rank: u64, script: Script, between: char, text: &mut String) {
    let mut random = Random::of(&[SEED, 8, rank]);
    let count = 1 + random.below(5);
    words(&mut random, count, script, between, text);
}
