//! Random numbers that no library's next version changes: a seed names the same data for ever.

/// How far the state of a [`Random`] moves with each number.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64: a number that looks random, and is the same for the same `value`.
pub(crate) fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(STEP);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A sequence of numbers.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence of these keys. What belongs to one thing, say a user, is drawn from a sequence of that user's, and so is the same in each row.
    pub(crate) fn of(keys: &[u64]) -> Self {
        Self(keys.iter().fold(0, |state, key| mix(state ^ key)))
    }

    pub(crate) fn bits(&mut self) -> u64 {
        let bits = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        bits
    }

    /// A number below `end`, each as likely as the others.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        let scaled = u128::from(self.bits()) * u128::from(end);
        u64::try_from(scaled >> 64).unwrap_or_default()
    }

    /// A number from `low` on and below `high`.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low.wrapping_add_unsigned(self.below(high.abs_diff(low)))
    }

    /// True in so many of a million cases.
    pub(crate) fn chance(&mut self, per_million: u64) -> bool {
        self.below(1_000_000) < per_million
    }

    /// A rank from 0 on, the lower the likelier, as in Zipf's law: each power of two from 2^`low` to 2^`high` is as likely as the others, and so is each
    /// rank from one power to the next.
    pub(crate) fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let power = 1 << (low + self.below(high - low + 1));
        power + self.below(power) - (1 << low)
    }

    /// One of `options`.
    pub(crate) fn pick<T: Copy + Default>(&mut self, options: &[T]) -> T {
        let index = usize::try_from(self.below(options.len() as u64)).unwrap_or_default();
        options.get(index).copied().unwrap_or_default()
    }

    /// One of `options`, each as likely as its weight says.
    pub(crate) fn weighted<T: Copy + Default>(&mut self, options: &[(T, u64)]) -> T {
        let mut left = self.below(options.iter().map(|(_, weight)| weight).sum());
        for (option, weight) in options {
            if left < *weight {
                return *option;
            }
            left -= weight;
        }
        T::default()
    }
}

/// The numbers below `count` in a random order.
pub(crate) fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let mut random = Random::of(&[seed]);
    let mut numbers: Vec<u64> = (0..count).collect();
    for index in (0..numbers.len()).rev() {
        if let Ok(other) = usize::try_from(random.below(index as u64 + 1)) {
            numbers.swap(index, other);
        }
    }
    numbers
}
