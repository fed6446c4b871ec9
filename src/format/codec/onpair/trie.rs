//! Parsing text into the longest tokens, several stretches of it in turn.
//!
//! The tokens are a trie in a double array (Aoe, IEEE TSE 15(9), 1989): one load tells whether there is a child by a byte, which child, and what to do
//! if the next byte has none. No two states have the same base, so that the byte which leads to a cell tells whose child it is (Yata et al., Information Processing & Management 43(1), 2007).
//! Nothing branches on the text: a branch on whether a token ends is mispredicted at most tokens, and costs more than
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
/// Whole rows of as many cells as there are numbers for.
const ROWS_MAX: usize = (1 << 16) / ROW;
/// Codes that a lane keeps before they are put behind its others.
const ROOM: usize = 1024;

#[derive(Debug, Clone)]
pub(super) struct Trie {
    cells: Vec<Cell>,
}

/// A state is the number of its cell. In one word, from the lowest bits on:
///
/// - 16 bits, the byte that leads to it
/// - 16 bits, its base: the cell of the child by a byte is this number, exclusive or that byte
/// - 16 bits, the code of the longest token on the way to here
/// - how many bytes ago that ended
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell(u64);

impl Cell {
    /// No byte leads to it.
    const FREE: Self = Self(u16::MAX as u64);
    /// The state in which no byte of a token has been read. It has no cell, and the first row of cells is its children.
    const ROOT: Self = Self(0);

    /// Without children: by this base each byte leads to a cell of the first row that is another byte's.
    fn new(byte: u8, code: u16, back: u64) -> Self {
        Self(u64::from(byte) | 1 << 16 | u64::from(code) << 32 | back << 48)
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

    #[expect(clippy::cast_possible_truncation, reason = "the bits that it is in")]
    fn byte(self) -> u16 {
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
        let mut trie = Self { cells: (0..=u8::MAX).map(|byte| Cell::new(byte, u16::from(byte), 0)).collect() };
        let mut free = FreeCells { rows: vec![Row::NONE] };
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
                trie.cells[usize::from(state)] = Cell::new(byte, code, back);
                if !tokens.is_empty() {
                    nodes.push_back(Node { state, depth: node.depth + 1, tokens });
                }
            }
        }
        trie
    }

    /// The codes of stretches of a text. No token reaches from one stretch into the next if the last byte of each is in no token with others.
    pub(super) fn parse(&self, text: &[u8], stretches: &[Range<usize>; LANES]) -> [Vec<u16>; LANES] {
        let [mut a, mut b, mut c, mut d] = stretches.each_ref().map(|stretch| Lane::at(stretch.start));
        loop {
            // A step goes forward by no more than a byte, and writes no more than a code.
            let room = |(lane, stretch): (&Lane, &Range<usize>)| (stretch.end - lane.at).min(ROOM - lane.count);
            let rounds = [&a, &b, &c, &d].into_iter().zip(stretches).map(room).min().unwrap_or(0);
            if rounds < ROUNDS_MIN {
                // Few are left because a lane has no room, or because a stretch ends.
                let was_short = [&mut a, &mut b, &mut c, &mut d].into_iter().fold(false, |was_short, lane| lane.make_room() | was_short);
                if !was_short {
                    break;
                }
                continue;
            }
            for _ in 0..rounds {
                a.step(&self.cells, text);
                b.step(&self.cells, text);
                c.step(&self.cells, text);
                d.step(&self.cells, text);
            }
        }
        let mut ends = stretches.iter().map(|stretch| stretch.end);
        [a, b, c, d].map(|lane| lane.finish(ends.next().unwrap_or(0), &self.cells, text))
    }
}

/// Which cells of a row are free, and which of its numbers are the base of no state, a bit for each.
#[derive(Clone, Copy)]
struct Row {
    cells: [u64; ROW / 64],
    bases: [u64; ROW / 64],
}

impl Row {
    const ALL: Self = Self { cells: [u64::MAX; ROW / 64], bases: [u64::MAX; ROW / 64] };
    const NONE: Self = Self { cells: [0; ROW / 64], bases: [0; ROW / 64] };

    fn has(bits: &[u64; ROW / 64], number: u8) -> bool {
        bits[usize::from(number / 64)] >> (number % 64) & 1 == 1
    }

    fn take(bits: &mut [u64; ROW / 64], number: u8) {
        bits[usize::from(number / 64)] &= !(1 << (number % 64));
    }
}

/// Which cells are free while a trie is built.
struct FreeCells {
    rows: Vec<Row>,
}

impl FreeCells {
    /// Takes the cells of all these bytes by some base, in a new row if there are none elsewhere. Gives the base.
    fn take(&mut self, bytes: &[u8]) -> Option<u16> {
        let (number, low) = self.find(bytes).or_else(|| self.new_row())?;
        let row = &mut self.rows[number];
        Row::take(&mut row.bases, low);
        bytes.iter().for_each(|byte| Row::take(&mut row.cells, low ^ byte));
        u16::try_from(number * ROW + usize::from(low)).ok()
    }

    /// In the last row alone, so that building takes time in proportion to the tokens: what is left of those before it is given up.
    fn find(&self, bytes: &[u8]) -> Option<(usize, u8)> {
        let (first, row) = (bytes.first()?, self.rows.last()?);
        let fits = |low: &u8| Row::has(&row.bases, *low) && bytes.iter().all(|byte| Row::has(&row.cells, low ^ byte));
        free_in(row).map(|cell| cell ^ first).find(fits).map(|low| (self.rows.len() - 1, low))
    }

    fn new_row(&mut self) -> Option<(usize, u8)> {
        (self.rows.len() < ROWS_MAX).then(|| {
            self.rows.push(Row::ALL);
            (self.rows.len() - 1, 0)
        })
    }
}

/// The cells of a row that are free.
fn free_in(row: &Row) -> impl Iterator<Item = u8> {
    row.cells.iter().zip((0_u8..).step_by(64)).flat_map(|(&bits, start)| {
        let some = |bits: u64| Some(bits).filter(|bits| *bits != 0);
        let rests = successors(some(bits), move |bits| some(bits & (bits - 1)));
        rests.filter_map(move |bits| u8::try_from(bits.trailing_zeros()).ok()).map(move |bit| start + bit)
    })
}

/// A stretch that is being parsed.
struct Lane {
    at: usize,
    cell: Cell,
    codes: Vec<u16>,
    /// How many codes there are behind those, and what they are.
    count: usize,
    last: [u16; ROOM],
}

impl Lane {
    fn at(start: usize) -> Self {
        Self { at: start, cell: Cell::ROOT, codes: Vec::new(), count: 0, last: [0; ROOM] }
    }

    /// Reads a byte of a token, or writes the code of the longest that was read and goes back to its end.
    #[expect(clippy::cast_possible_truncation, reason = "no further back than a token is long")]
    #[inline]
    fn step(&mut self, cells: &[Cell], text: &[u8]) {
        let byte = text[self.at];
        let cell = cells[usize::from(self.cell.child(byte))];
        let goes_on = cell.byte() == u16::from(byte);
        // Whoever calls has seen that there is room, and this is less than a comparison.
        self.last[self.count % ROOM] = self.cell.code();
        self.count += usize::from(!goes_on);
        let back = self.at - self.cell.back() as usize;
        self.at = select_unpredictable(goes_on, self.at + 1, back);
        self.cell = Cell(select_unpredictable(goes_on, cell.0, Cell::ROOT.0));
    }

    /// Makes room for codes, and tells whether more than half of it was taken.
    fn make_room(&mut self) -> bool {
        self.codes.extend_from_slice(&self.last[..self.count]);
        std::mem::take(&mut self.count) > ROOM / 2
    }

    /// The codes up to the end of the stretch.
    #[expect(clippy::cast_possible_truncation, reason = "no further back than a token is long")]
    fn finish(mut self, end: usize, cells: &[Cell], text: &[u8]) -> Vec<u16> {
        loop {
            while self.at < end {
                for _ in 0..(end - self.at).min(ROOM) {
                    self.step(cells, text);
                }
                self.make_room();
            }
            if self.cell == Cell::ROOT {
                return self.codes;
            }
            self.codes.push(self.cell.code());
            self.at -= self.cell.back() as usize;
            self.cell = Cell::ROOT;
        }
    }
}
