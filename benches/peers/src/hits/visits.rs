//! Who looked at what, and when.

use super::SEED;
use crate::random::{Random, mix};

/// The site that ClickBench's last queries ask about. About 1 % of all hits are its, as in the real table.
pub(super) const COUNTER: i64 = 62;
const COUNTER_RANK: u64 = 9;
/// Sites are numbered below this, and used up to 2^[`COUNTER_BITS`].
const COUNTERS: i64 = 1 << 18;
const COUNTER_BITS: u64 = 12;

/// The user whom ClickBench looks up.
const USER: i64 = 435_090_932_899_640_449;
const USER_RANK: u64 = 3000;

/// 2013-07-02, in days since 1970.
const FIRST_DAY: i64 = 15_888;
const DAYS: i64 = 30;
const DAY_SECONDS: i64 = 86_400;

/// One page that one user opened. Declared in the order that the table is sorted by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hit {
    pub(super) counter: i64,
    /// Days since 1970.
    pub(super) date: i64,
    pub(super) user: i64,
    /// Seconds since 1970.
    pub(super) time: i64,
    pub(super) visit: u64,
    /// The number of the hit within its visit.
    pub(super) step: u64,
}

/// So many hits, sorted.
pub(super) fn hits(rows: usize) -> Vec<Hit> {
    let mut hits = Vec::with_capacity(rows);
    let mut visit = 0;
    while hits.len() < rows {
        add_visit(visit, rows, &mut hits);
        visit += 1;
    }
    hits.truncate(rows);
    hits.sort_unstable();
    hits
}

fn add_visit(visit: u64, rows: usize, hits: &mut Vec<Hit>) {
    let mut random = Random::of(&[SEED, 1, visit]);
    let counter = counter(random.skewed(0, COUNTER_BITS));
    let user = user(&mut random, rows);
    let date = random.between(FIRST_DAY, FIRST_DAY + DAYS);
    let mut time = date * DAY_SECONDS + second_of_day(&mut random);
    for step in 0..=random.skewed(0, 3) {
        hits.push(Hit { counter, date: time.div_euclid(DAY_SECONDS), user, time, visit, step });
        time += random.between(3, 180);
    }
}

/// The number of a site by how much it is visited: neighbours in the table have nothing to do with each other.
pub(super) fn counter(rank: u64) -> i64 {
    let rank = i64::try_from(rank).unwrap_or_default();
    ((rank - COUNTER_RANK.cast_signed()) * 40_503 + COUNTER).rem_euclid(COUNTERS)
}

/// Half of all visits are of users who come rarely, the others of those who come more or less often.
fn user(random: &mut Random, rows: usize) -> i64 {
    let bits = u64::from((rows / 4).max(1 << 10).ilog2());
    let rank = if random.chance(500_000) { random.below(2 << bits) } else { random.skewed(bits.min(10), bits) };
    if rank == USER_RANK { USER } else { mix(SEED ^ rank).cast_signed() }
}

/// Few are awake at four in the morning.
fn second_of_day(random: &mut Random) -> i64 {
    let hour = random.weighted(&[(0, 4), (3, 1), (6, 4), (9, 11), (12, 12), (15, 13), (18, 14), (21, 9)]);
    hour * 3600 + random.between(0, 3 * 3600)
}
