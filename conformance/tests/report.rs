//! The table at the end of a run.

use std::fmt;

use crate::run::Mode;
use crate::suite::SKIPPED;

/// How many records must be equal at least when all files run. A suite that is not found, or records that no longer take part, would else be no
/// difference at all.
const EQUAL_MIN: [(Mode, usize); 2] = [(Mode::Format, 4_800), (Mode::Memory, 17_500)];

/// What became of the records of one file in one mode.
pub(crate) struct Tally {
    pub(crate) file: String,
    pub(crate) mode: Mode,
    pub(crate) records: usize,
    pub(crate) equal: usize,
    pub(crate) same_plans: usize,
    pub(crate) other_plans: usize,
    pub(crate) known: usize,
    /// The baseline itself is not what the suite expects.
    pub(crate) not_applicable: usize,
    pub(crate) differences: Vec<String>,
}

impl Tally {
    pub(crate) fn new(file: &str, mode: Mode) -> Self {
        Self {
            file: file.to_owned(),
            mode,
            records: 0,
            equal: 0,
            same_plans: 0,
            other_plans: 0,
            known: 0,
            not_applicable: 0,
            differences: Vec::new(),
        }
    }

    fn counts(&self) -> [usize; 7] {
        [self.records, self.equal, self.same_plans, self.other_plans, self.known, self.not_applicable, self.differences.len()]
    }
}

/// The tallies of all files that ran.
#[derive(Default)]
pub(crate) struct Report {
    tallies: Vec<Tally>,
}

impl Report {
    pub(crate) fn add(&mut self, tallies: Vec<Tally>) {
        self.tallies.extend(tallies);
    }

    /// The modes in which too few records were equal for a run of the whole suite.
    pub(crate) fn shortfalls(&self) -> Vec<String> {
        let equal = |mode: Mode| self.tallies.iter().filter(|tally| tally.mode == mode).map(|tally| tally.equal).sum::<usize>();
        let short = EQUAL_MIN.into_iter().filter(|(mode, min)| equal(*mode) < *min);
        short.map(|(mode, min)| format!("{}: {} records are equal, and {min} should be", mode.name(), equal(mode))).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tallies: Vec<&Tally> = self.tallies.iter().collect();
        tallies.sort_by(|a, b| (a.mode.name(), &a.file).cmp(&(b.mode.name(), &b.file)));
        writeln!(
            f,
            "{:<8}{:<45}{:>8}{:>8}{:>12}{:>12}{:>7}{:>6}{:>11}",
            "mode", "file", "records", "equal", "same plans", "other plans", "known", "n/a", "different"
        )?;
        let line =
            |f: &mut fmt::Formatter<'_>, mode: &str, file: &str, [records, equal, same, other, known, not_applicable, different]: [usize; 7]| {
                writeln!(f, "{mode:<8}{file:<45}{records:>8}{equal:>8}{same:>12}{other:>12}{known:>7}{not_applicable:>6}{different:>11}")
            };
        for tally in &tallies {
            line(f, tally.mode.name(), &tally.file, tally.counts())?;
        }
        for mode in [Mode::Format, Mode::Memory] {
            let mut total = [0_usize; 7];
            for tally in tallies.iter().filter(|tally| tally.mode == mode) {
                for (sum, count) in total.iter_mut().zip(tally.counts()) {
                    *sum = sum.saturating_add(count);
                }
            }
            line(f, mode.name(), "all", total)?;
        }
        for (file, reason) in SKIPPED {
            writeln!(f, "skipped {file:<45}{reason}")?;
        }
        Ok(())
    }
}
