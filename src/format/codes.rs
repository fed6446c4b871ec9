//! Which of some values each of many rows has.

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::{BooleanBuffer, Buffer};

use super::bits::{Mask, WORD};

/// A code for each row, in pieces.
#[derive(Debug, Clone, Default)]
pub struct Codes {
    pieces: Vec<CodePiece>,
}

/// Codes of consecutive rows.
#[derive(Debug, Clone)]
pub enum CodePiece {
    /// One for each row.
    Rows(Vec<u32>),
    /// One for each run of rows that have the same.
    Runs(Vec<CodeRun>),
}

/// So many consecutive rows with the same code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeRun {
    /// The code.
    pub code: u32,
    /// How many rows, at least one.
    pub rows: u32,
}

impl Codes {
    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.pieces.iter().all(|piece| match piece {
            CodePiece::Rows(rows) => rows.is_empty(),
            CodePiece::Runs(runs) => runs.is_empty(),
        })
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(CodePiece::len).sum()
    }

    /// The pieces, in the order of the rows.
    pub fn pieces(&self) -> &[CodePiece] {
        &self.pieces
    }

    /// The code of each row.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.pieces.iter().flat_map(|piece| {
            let (rows, runs) = match piece {
                CodePiece::Rows(rows) => (rows.as_slice(), [].as_slice()),
                CodePiece::Runs(runs) => ([].as_slice(), runs.as_slice()),
            };
            rows.iter().copied().chain(runs.iter().flat_map(|run| std::iter::repeat_n(run.code, run.rows as usize)))
        })
    }

    /// The code of each row, in one piece.
    #[must_use]
    pub fn into_rows(mut self) -> Vec<u32> {
        match self.pieces.as_mut_slice() {
            [CodePiece::Rows(rows)] => std::mem::take(rows),
            _ => {
                let mut rows = Vec::with_capacity(self.len());
                rows.extend(self.iter());
                rows
            }
        }
    }

    /// Appends a bit for each row: the verdict on its value.
    ///
    /// There has to be a verdict for each code.
    ///
    /// # Panics
    /// There may be one where verdicts are missing; otherwise their rows have any bit.
    pub fn append_looked_up(&self, verdicts: &BooleanBuffer, bits: &mut BooleanBufferBuilder) {
        for piece in &self.pieces {
            bits.append_buffer(&match piece {
                CodePiece::Rows(rows) => looked_up(rows, verdicts),
                CodePiece::Runs(runs) => runs_looked_up(runs, verdicts),
            });
        }
    }

    /// Appends codes of rows.
    pub fn extend(&mut self, codes: impl Iterator<Item = u32>) {
        match self.pieces.last_mut() {
            Some(CodePiece::Rows(rows)) => rows.extend(codes),
            _ => self.pieces.push(CodePiece::Rows(codes.collect())),
        }
    }

    /// Appends runs.
    pub fn extend_runs(&mut self, runs: Vec<CodeRun>) {
        match self.pieces.last_mut() {
            Some(CodePiece::Runs(before)) => before.extend(runs),
            _ => self.pieces.push(CodePiece::Runs(runs)),
        }
    }
}

impl CodePiece {
    /// How many rows it is about.
    fn len(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.len(),
            Self::Runs(runs) => runs.iter().map(|run| run.rows as usize).sum(),
        }
    }
}

impl From<Vec<u32>> for Codes {
    fn from(codes: Vec<u32>) -> Self {
        Self { pieces: vec![CodePiece::Rows(codes)] }
    }
}

/// A bit for each code: the verdict on its value, as [`Codes::append_looked_up`] has it.
pub(super) fn looked_up<C: Copy + Into<u32>>(codes: &[C], verdicts: &BooleanBuffer) -> BooleanBuffer {
    match alone(verdicts, codes.len()) {
        // Codes are compared, many at once.
        Some((value, true)) => each_looked_up(codes, |code| u8::from(code == value)),
        Some((value, false)) => each_looked_up(codes, |code| u8::from(code != value)),
        None if verdicts.len() <= TABLE_MAX.max(codes.len() / TABLE_PART) => {
            let table = table_of(verdicts);
            let last = table.len() - 1;
            each_looked_up(codes, |code| table[code as usize & last])
        }
        None => BooleanBuffer::collect_bool(codes.len(), |row| verdicts.value(codes[row].into() as usize)),
    }
}

/// The value whose verdict no other has, as an empty text's where others are asked for, and the verdict. It is not looked for where that takes longer than to look up the rows.
fn alone(verdicts: &BooleanBuffer, rows: usize) -> Option<(u32, bool)> {
    if verdicts.len() / WORD > rows {
        return None;
    }
    match verdicts.count_set_bits() {
        1 => verdicts.set_indices_u32().next().map(|value| (value, true)),
        passing if passing + 1 == verdicts.len() => (!verdicts).set_indices_u32().next().map(|value| (value, false)),
        _ => None,
    }
}

/// A table for more values than the rows divided by this takes longer to make than it saves, unless it is small.
const TABLE_PART: usize = 2;
const TABLE_MAX: usize = 1 << 8;

/// A byte for each verdict, and no fewer than a power of two: the lower bits of a code cannot lie outside, and nothing has to be compared for each row.
fn table_of(verdicts: &BooleanBuffer) -> Vec<u8> {
    let mut table = Vec::with_capacity(verdicts.len().next_power_of_two() + WORD);
    for word in verdicts.bit_chunks().iter_padded() {
        table.extend((0..WORD).map(|bit| u8::from(word >> bit & 1 == 1)));
    }
    table.resize(verdicts.len().next_power_of_two(), 0);
    table
}

/// A bit for each code.
fn each_looked_up<C: Copy + Into<u32>>(codes: &[C], verdict: impl Fn(u32) -> u8) -> BooleanBuffer {
    let (whole, rest) = codes.as_chunks::<8>();
    let byte = |codes: &[C]| codes.iter().zip(0..).fold(0, |byte, (code, bit)| byte | verdict((*code).into()) << bit);
    let bytes = whole.iter().map(|codes| byte(codes)).chain((!rest.is_empty()).then(|| byte(rest)));
    BooleanBuffer::new(Buffer::from(bytes.collect::<Vec<u8>>()), 0, codes.len())
}

/// A run costs no branch but for its length: of most columns nobody could foretell which runs pass.
fn runs_looked_up(runs: &[CodeRun], verdicts: &BooleanBuffer) -> BooleanBuffer {
    let mut mask = Mask::with_room(runs.iter().map(|run| run.rows as usize).sum());
    for run in runs {
        let verdict = if verdicts.value(run.code as usize) { u64::MAX } else { 0 };
        let mut left = run.rows as usize;
        while left > 0 {
            let length = left.min(WORD);
            mask.push(verdict & (u64::MAX >> (WORD - length)), length);
            left -= length;
        }
    }
    mask.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked_up(codes: &Codes, values: u32, verdict: fn(u32, u32) -> bool) -> (Vec<bool>, Vec<bool>) {
        let verdicts: BooleanBuffer = (0..values).map(|value| verdict(value, values)).collect();
        let mut bits = BooleanBufferBuilder::new(0);
        codes.append_looked_up(&verdicts, &mut bits);
        (bits.finish().iter().collect(), codes.iter().map(|code| verdict(code, values)).collect())
    }

    /// A third of all values, one of them, all others, all and none.
    const VERDICTS: [fn(u32, u32) -> bool; 5] =
        [|value, _| value.is_multiple_of(3), |value, values| value == values / 2, |value, values| value != values / 2, |_, _| true, |_, _| false];

    #[test]
    fn codes_are_looked_up_in_small_tables_and_large_ones() {
        for values in [1, 2, 255, 256, 257, 1000, 1025_u32] {
            for rows in [0, 1, 63, 64, 65, 1000, 1024, 2050] {
                let codes = Codes::from((0..rows).map(|row| row * 7919 % values).collect::<Vec<_>>());
                for (verdict, index) in VERDICTS.into_iter().zip(0..) {
                    let (actual, expected) = looked_up(&codes, values, verdict);
                    assert_eq!((codes.len(), actual), (rows as usize, expected), "{values} values, {rows} rows, {index}");
                }
            }
        }
    }

    #[test]
    fn runs_are_looked_up_as_their_rows_are() {
        let mut codes = Codes::default();
        let lengths = [1, 2, 3, 64, 1, 63, 65, 127, 1000, 5, 128, 1, 1, 60];
        for (piece, count) in (0_u32..).zip([0, 1, 3, 14, 40]) {
            let rows = lengths.iter().cycle().skip(piece as usize);
            let runs = (0..count).zip(rows).map(|(run, rows)| CodeRun { code: (run * 7 + piece) % 9, rows: *rows });
            codes.extend_runs(runs.collect());
            codes.extend((0..piece).map(|row| row % 9));
            let (actual, expected) = looked_up(&codes, 9, VERDICTS[0]);
            assert_eq!((codes.len(), actual), (expected.len(), expected), "{piece}");
        }
        assert_eq!((codes.pieces().len(), codes.is_empty(), Codes::default().is_empty()), (10, false, true));
    }
}
