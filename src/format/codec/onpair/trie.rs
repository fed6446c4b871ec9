//! Parsing text into the longest tokens, several stretches of it in turn.
//!
//! The tokens are a trie in a double array (Aoe, IEEE TSE 15(9), 1989): one load tells whether there is a child by a byte, which child, and what to do
//! if the next byte has none. Nothing branches on the text: a branch on whether a token ends is mispredicted at most tokens, and costs more than
//! the steps to the end of it. What remains is the time that a load takes, during which the other stretches take their steps.

use std::collections::VecDeque;
use std::hint::select_unpredictable;
use std::iter::successors;
use std::ops::Range;

/// Stretches parsed in turn: as many as a processor has registers for.
pub(super) const LANES: usize = 4;
/// Fewer steps than this are not worth doing in turn.
const ROUNDS_MIN: usize = 32;
/// Cells that children may be in differ in the low bits that a byte has.
const ROW: usize = 256;
/// In how many of the last rows free cells are looked for, so that building takes time in proportion to the tokens.
const ROWS_SEARCHED: usize = 4;
/// The state in which no byte of a token has been read. It has no cell, and the first row of cells is its children.
const ROOT: u16 = u16::MAX;
/// The parent of a cell that is not used.
const NOBODY: u16 = u16::MAX - 1;
/// Whole rows, and none of them with the cells of the two numbers above.
const ROWS_MAX: usize = (1 << 16) / ROW - 1;

#[derive(Debug, Clone)]
pub(super) struct Trie {
    cells: Vec<Cell>,
}

/// A state is the number of its cell. In one word, from the lowest bits on:
///
/// - 16 bits, the state's parent; in a lane, the state itself
/// - 16 bits, its base: the cell of the child by a byte is this number, exclusive or that byte
/// - 16 bits, the code of the longest token on the way to here
/// - how many bytes ago that ended
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell(u64);

impl Cell {
    const FREE: Self = Self::new(NOBODY, 0, 0);
    const ROOT: Self = Self::new(ROOT, 0, 0);

    const fn new(parent: u16, code: u16, back: u64) -> Self {
        Self(parent as u64 | (code as u64) << 32 | back << 48)
    }

    fn with_base(self, base: u16) -> Self {
        Self(self.0 & !0xFFFF_0000 | u64::from(base) << 16)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the bits that it is in")]
    fn code(self) -> u16 {
        (self.0 >> 32) as u16
    }

    fn back(self) -> u64 {
        self.0 >> 48
    }

    /// Of a cell, its parent; of a lane, its state.
    #[expect(clippy::cast_possible_truncation, reason = "the bits that it is in")]
    fn parent(self) -> u16 {
        self.0 as u16
    }

    #[expect(clippy::cast_possible_truncation, reason = "the bits that it is in")]
    fn child(self, byte: u8) -> u16 {
        (self.0 >> 16) as u16 ^ u16::from(byte)
    }
}

/// A state, and the tokens that are behind it.
struct Node<'a> {
    state: u16,
    depth: usize,
    tokens: &'a [(&'a [u8], u16)],
}

impl Trie {
    /// Bytes in memory.
    pub(super) fn memory_size(&self) -> usize {
        size_of_val(self.cells.as_slice())
    }

    /// Of tokens of two bytes and more in order, no two of them equal, with their codes. The code of a single byte is the byte.
    pub(super) fn new(tokens: &[(&[u8], u16)]) -> Self {
        let mut trie = Self { cells: (0..=u8::MAX).map(|byte| Cell::new(ROOT, u16::from(byte), 0)).collect() };
        let mut free = FreeCells { rows: vec![NONE_FREE] };
        let by_first = tokens.chunk_by(|a, b| a.0[0] == b.0[0]);
        let mut nodes: VecDeque<_> = by_first.map(|tokens| Node { state: u16::from(tokens[0].0[0]), depth: 1, tokens }).collect();
        while let Some(node) = nodes.pop_front() {
            let groups: Vec<_> = node.tokens.chunk_by(|a, b| a.0[node.depth] == b.0[node.depth]).collect();
            let bytes: Vec<u8> = groups.iter().map(|tokens| tokens[0].0[node.depth]).collect();
            // Without room for more cells, the tokens behind this state are not used.
            let Some(base) = free.take(&bytes) else { continue };
            trie.cells.resize(free.rows.len() * ROW, Cell::FREE);
            let parent = trie.cells[usize::from(node.state)].with_base(base);
            trie.cells[usize::from(node.state)] = parent;
            for (byte, tokens) in bytes.into_iter().zip(groups) {
                let state = parent.child(byte);
                let ((first, code), longer) = (tokens[0], &tokens[1..]);
                let ends_here = first.len() == node.depth + 1;
                let (code, back, tokens) = if ends_here { (code, 0, longer) } else { (parent.code(), parent.back() + 1, tokens) };
                trie.cells[usize::from(state)] = Cell::new(node.state, code, back);
                if !tokens.is_empty() {
                    nodes.push_back(Node { state, depth: node.depth + 1, tokens });
                }
            }
        }
        trie
    }

    /// The codes of stretches of a text: those of each from where it begins, and how many. No token reaches from one stretch into the next if the
    /// last byte of each is in no token with others.
    pub(super) fn parse(&self, text: &[u8], stretches: [Range<usize>; LANES]) -> (Vec<u16>, [Range<usize>; LANES]) {
        let mut codes = vec![0; text.len()];
        let begin = |stretch: &Range<usize>| Lane { at: stretch.start, written: stretch.start, cell: Cell::ROOT };
        let [mut a, mut b, mut c, mut d] = stretches.each_ref().map(begin);
        loop {
            // A step goes forward by no more than a byte.
            let left = [&a, &b, &c, &d].into_iter().zip(&stretches).map(|(lane, stretch)| stretch.end - lane.at);
            let rounds = left.min().unwrap_or(0);
            if rounds < ROUNDS_MIN {
                break;
            }
            for _ in 0..rounds {
                a.step(&self.cells, text, &mut codes);
                b.step(&self.cells, text, &mut codes);
                c.step(&self.cells, text, &mut codes);
                d.step(&self.cells, text, &mut codes);
            }
        }
        let mut lanes = [a, b, c, d].into_iter();
        let written = stretches.map(|stretch| {
            let Some(mut lane) = lanes.next() else { return stretch };
            lane.finish(stretch.end, &self.cells, text, &mut codes);
            stretch.start..lane.written
        });
        (codes, written)
    }
}

/// Which cells of a row are free, a bit for each.
type FreeRow = [u64; ROW / 64];
const ALL_FREE: FreeRow = [u64::MAX; ROW / 64];
const NONE_FREE: FreeRow = [0; ROW / 64];

/// Which cells are free while a trie is built.
struct FreeCells {
    rows: Vec<FreeRow>,
}

impl FreeCells {
    /// Takes the cells of all these bytes by some base, in a new row if there are none elsewhere. Gives the base.
    fn take(&mut self, bytes: &[u8]) -> Option<u16> {
        let (row, low) = self.find(bytes).or_else(|| self.new_row())?;
        for byte in bytes {
            let cell = low ^ byte;
            self.rows[row][usize::from(cell / 64)] &= !(1 << (cell % 64));
        }
        u16::try_from(row * ROW + usize::from(low)).ok()
    }

    fn find(&self, bytes: &[u8]) -> Option<(usize, u8)> {
        let first = bytes.first()?;
        let fits = |row: &FreeRow, low: u8| bytes.iter().all(|byte| row[usize::from((low ^ byte) / 64)] >> ((low ^ byte) % 64) & 1 == 1);
        let searched = self.rows.iter().enumerate().skip(self.rows.len().saturating_sub(ROWS_SEARCHED));
        searched.into_iter().find_map(|(number, row)| free_in(row).map(|cell| cell ^ first).find(|low| fits(row, *low)).map(|low| (number, low)))
    }

    fn new_row(&mut self) -> Option<(usize, u8)> {
        (self.rows.len() < ROWS_MAX).then(|| {
            self.rows.push(ALL_FREE);
            (self.rows.len() - 1, 0)
        })
    }
}

/// The cells of a row that are free.
fn free_in(row: &FreeRow) -> impl Iterator<Item = u8> {
    row.iter().zip((0_u8..).step_by(64)).flat_map(|(&bits, start)| {
        let some = |bits: u64| Some(bits).filter(|bits| *bits != 0);
        let rests = successors(some(bits), move |bits| some(bits & (bits - 1)));
        rests.filter_map(move |bits| u8::try_from(bits.trailing_zeros()).ok()).map(move |bit| start + bit)
    })
}

/// A stretch that is being parsed.
struct Lane {
    at: usize,
    written: usize,
    cell: Cell,
}

impl Lane {
    /// Reads a byte of a token, or writes the code of the longest that was read and goes back to its end.
    #[expect(clippy::cast_possible_truncation, reason = "no further back than a token is long")]
    #[inline]
    fn step(&mut self, cells: &[Cell], text: &[u8], codes: &mut [u16]) {
        let state = self.cell.child(text[self.at]);
        let cell = cells[usize::from(state)];
        let goes_on = cell.parent() == self.cell.parent();
        codes[self.written] = self.cell.code();
        self.written += usize::from(!goes_on);
        let back = self.at - self.cell.back() as usize;
        self.at = select_unpredictable(goes_on, self.at + 1, back);
        self.cell = Cell(select_unpredictable(goes_on, cell.0 & !0xFFFF | u64::from(state), Cell::ROOT.0));
    }

    #[expect(clippy::cast_possible_truncation, reason = "no further back than a token is long")]
    fn finish(&mut self, end: usize, cells: &[Cell], text: &[u8], codes: &mut [u16]) {
        loop {
            while self.at < end {
                self.step(cells, text, codes);
            }
            if self.cell == Cell::ROOT {
                return;
            }
            codes[self.written] = self.cell.code();
            self.written += 1;
            self.at -= self.cell.back() as usize;
            self.cell = Cell::ROOT;
        }
    }
}
