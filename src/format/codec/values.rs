//! What encodings take and give: values without nulls, of one physical type.

use arrow::array::{Array, BinaryViewArray, BooleanBufferBuilder};
use arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, ScalarBuffer};
use zerocopy::{FromBytes, IntoBytes};

use super::words::{Word, with_word, words_from, words_of};
use crate::format::{Error, Result};

/// A physical type: how values lie in memory, whatever they mean. The numbers are those of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PType {
    /// A bit.
    Bool = 0,
    /// Signed, 8 bits.
    I8 = 1,
    /// Signed, 16 bits.
    I16 = 2,
    /// Signed, 32 bits.
    I32 = 3,
    /// Signed, 64 bits.
    I64 = 4,
    /// Signed, 128 bits.
    I128 = 5,
    /// Signed, 256 bits.
    I256 = 6,
    /// Unsigned, 8 bits.
    U8 = 7,
    /// Unsigned, 16 bits.
    U16 = 8,
    /// Unsigned, 32 bits.
    U32 = 9,
    /// Unsigned, 64 bits.
    U64 = 10,
    /// Half precision.
    F16 = 11,
    /// Single precision.
    F32 = 12,
    /// Double precision.
    F64 = 13,
    /// Any number of bytes per value.
    Bytes = 14,
}

impl PType {
    /// Every physical type, at the index that is its number.
    pub const ALL: [Self; 15] = [
        Self::Bool,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::I128,
        Self::I256,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::Bytes,
    ];

    /// The type of this number in a file.
    pub fn from_id(id: u8) -> Result<Self> {
        Self::ALL.get(usize::from(id)).copied().ok_or_else(|| Error::unsupported(format!("physical type {id} is not known")))
    }

    /// The type's number in a file.
    pub fn id(self) -> u8 {
        self as u8
    }

    /// Bytes of a value, where every value has as many; a bit or a string has not.
    pub fn width(self) -> Option<usize> {
        match self {
            Self::Bool | Self::Bytes => None,
            Self::I8 | Self::U8 => Some(1),
            Self::I16 | Self::U16 | Self::F16 => Some(2),
            Self::I32 | Self::U32 | Self::F32 => Some(4),
            Self::I64 | Self::U64 | Self::F64 => Some(8),
            Self::I128 => Some(16),
            Self::I256 => Some(32),
        }
    }

    /// Whether it is a signed integer.
    pub fn is_signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64 | Self::I128 | Self::I256)
    }

    /// Whether it is an integer, signed or not.
    pub fn is_integer(self) -> bool {
        self.is_signed() || matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64)
    }

    /// The type's name in the specification.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "BOOL",
            Self::I8 => "I8",
            Self::I16 => "I16",
            Self::I32 => "I32",
            Self::I64 => "I64",
            Self::I128 => "I128",
            Self::I256 => "I256",
            Self::U8 => "U8",
            Self::U16 => "U16",
            Self::U32 => "U32",
            Self::U64 => "U64",
            Self::F16 => "F16",
            Self::F32 => "F32",
            Self::F64 => "F64",
            Self::Bytes => "BYTES",
        }
    }
}

/// Values to encode. There are no nulls: the slot of one holds anything.
#[derive(Debug, Clone)]
pub enum Values {
    /// Bits.
    Bool(BooleanBuffer),
    /// Values of fixed width, in native layout.
    Fixed {
        /// Their type.
        ptype: PType,
        /// The values, one behind the other.
        bytes: Buffer,
    },
    /// Strings and binaries. The array's own nulls are not looked at.
    Bytes(BinaryViewArray),
}

impl Values {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Bool(bits) => bits.len(),
            Self::Fixed { ptype, bytes } => bytes.len() / ptype.width().unwrap_or(1),
            Self::Bytes(array) => array.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their type.
    pub fn ptype(&self) -> PType {
        match self {
            Self::Bool(_) => PType::Bool,
            Self::Fixed { ptype, .. } => *ptype,
            Self::Bytes(_) => PType::Bytes,
        }
    }

    /// Some of them, without a copy. The range must lie within `0..len()`.
    #[must_use]
    pub fn slice(&self, offset: usize, length: usize) -> Self {
        match self {
            Self::Bool(bits) => Self::Bool(bits.slice(offset, length)),
            Self::Fixed { ptype, bytes } => {
                let width = ptype.width().unwrap_or(1);
                Self::Fixed { ptype: *ptype, bytes: bytes.slice_with_length(offset * width, length * width) }
            }
            Self::Bytes(array) => Self::Bytes(array.slice(offset, length)),
        }
    }

    /// The bytes that the bare values take: what a page's size is counted in. A bit is an eighth, a string its bytes and four for a length.
    pub fn raw_bytes(&self) -> usize {
        match self {
            Self::Bool(bits) => bits.len().div_ceil(8),
            Self::Fixed { bytes, .. } => bytes.len(),
            Self::Bytes(array) => array.lengths().map(|length| length as usize + 4).sum(),
        }
    }

    /// The values at these indexes, each less than `len()`.
    pub(super) fn pick(&self, indexes: &[u32]) -> Result<Self> {
        let indexes = indexes.iter().map(|&index| index as usize);
        Ok(match self {
            Self::Bool(bits) => Self::Bool(indexes.map(|index| bits.value(index)).collect::<BooleanBuffer>()),
            Self::Fixed { ptype, bytes } => with_word!(ptype.width().unwrap_or(1), T => {
                let words = words_from::<T>(bytes);
                let picked: Vec<T> = indexes.map(|index| words[index]).collect();
                Self::Fixed { ptype: *ptype, bytes: Buffer::from(picked.as_bytes()) }
            }),
            Self::Bytes(array) => {
                let views: Vec<u128> = indexes.map(|index| array.views()[index]).collect();
                Self::Bytes(BinaryViewArray::try_new(views.into(), array.data_buffers().to_vec(), None)?)
            }
        })
    }
}

/// Decoded values.
#[derive(Debug, Clone)]
pub enum Decoded {
    /// Bits.
    Bool(BooleanBuffer),
    /// Values of fixed width, in native layout and aligned for their type.
    Fixed(Buffer),
    /// Strings and binaries as Arrow's views.
    Views {
        /// One view per value.
        views: ScalarBuffer<u128>,
        /// The buffers that views of more than 12 bytes point into.
        buffers: Vec<Buffer>,
    },
}

impl Decoded {
    /// Values of fixed width as words of that width.
    pub(super) fn words<T: Word>(&self) -> Result<&[T]> {
        match self {
            Self::Fixed(bytes) => words_of(bytes),
            _ => Err(mixed_up()),
        }
    }
}

/// Where values are decoded to, range after range, of one page or of many.
#[derive(Debug)]
pub struct Output {
    ptype: PType,
    store: Store,
    /// Bytes of the buffers that views point into, and the most that they may be.
    held: usize,
    held_max: usize,
}

/// What the strings of a batch may take, where each is a row: if that is more, fewer rows can be read at once.
pub(crate) const HELD_MAX: usize = 2 << 30;

#[derive(Debug)]
enum Store {
    Bool(BooleanBufferBuilder),
    Fixed { bytes: MutableBuffer, width: usize },
    Views { views: Vec<u128>, buffers: Vec<Buffer> },
}

impl Output {
    /// An empty output with room for `capacity` values.
    pub fn new(ptype: PType, capacity: usize) -> Self {
        let store = match ptype.width() {
            Some(width) => Store::Fixed { bytes: MutableBuffer::new(capacity.saturating_mul(width)), width },
            None if ptype == PType::Bool => Store::Bool(BooleanBufferBuilder::new(capacity)),
            None => Store::Views { views: Vec::with_capacity(capacity), buffers: Vec::new() },
        };
        Self { ptype, store, held: 0, held_max: usize::MAX }
    }

    /// The same, for values that are rows: those of several pages hold no more than [`HELD_MAX`] bytes.
    pub(crate) fn of_rows(ptype: PType, capacity: usize) -> Self {
        Self { held_max: HELD_MAX, ..Self::new(ptype, capacity) }
    }

    /// The type of the values.
    pub fn ptype(&self) -> PType {
        self.ptype
    }

    /// How many values have been decoded.
    pub fn len(&self) -> usize {
        match &self.store {
            Store::Bool(bits) => bits.len(),
            Store::Fixed { bytes, width } => bytes.len() / width,
            Store::Views { views, .. } => views.len(),
        }
    }

    /// Whether nothing has been decoded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values.
    pub fn finish(self) -> Decoded {
        match self.store {
            Store::Bool(mut bits) => Decoded::Bool(bits.finish()),
            Store::Fixed { bytes, .. } => Decoded::Fixed(bytes.into()),
            Store::Views { views, buffers } => Decoded::Views { views: views.into(), buffers },
        }
    }

    /// Forgets the values and keeps the memory.
    pub(super) fn clear(&mut self) {
        match &mut self.store {
            Store::Bool(bits) => bits.truncate(0),
            Store::Fixed { bytes, .. } => bytes.clear(),
            Store::Views { views, buffers } => {
                views.clear();
                buffers.clear();
                self.held = 0;
            }
        }
    }

    /// Appends values of fixed width as they lie in a page.
    pub(super) fn push_bytes(&mut self, values: &[u8]) -> Result<()> {
        let Store::Fixed { bytes, .. } = &mut self.store else { return Err(mixed_up()) };
        bytes.extend_from_slice(values);
        Ok(())
    }

    /// Appends `count` zeroed words and lends them, to be decoded into.
    pub(super) fn grow<T: Word>(&mut self, count: usize) -> Result<&mut [T]> {
        let Store::Fixed { bytes, width } = &mut self.store else { return Err(mixed_up()) };
        if *width != size_of::<T>() {
            return Err(mixed_up());
        }
        let start = bytes.len();
        bytes.resize(start + count * size_of::<T>(), 0);
        <[T]>::mut_from_bytes(&mut bytes.as_slice_mut()[start..]).map_err(|_| mixed_up())
    }

    /// The last `count` words, to be worked on in place.
    pub(super) fn last<T: Word>(&mut self, count: usize) -> Result<&mut [T]> {
        let Store::Fixed { bytes, .. } = &mut self.store else { return Err(mixed_up()) };
        let start = bytes.len().checked_sub(count * size_of::<T>()).ok_or_else(mixed_up)?;
        <[T]>::mut_from_bytes(&mut bytes.as_slice_mut()[start..]).map_err(|_| mixed_up())
    }

    /// Of the last values, leaves those that have a bit; there is one for each of them.
    pub(super) fn keep_last(&mut self, keep: &BooleanBuffer) -> Result<()> {
        let start = self.len().checked_sub(keep.len()).ok_or_else(mixed_up)?;
        match &mut self.store {
            Store::Bool(bits) => {
                let kept: Vec<bool> = keep.set_indices().map(|index| bits.get_bit(start + index)).collect();
                bits.truncate(start);
                bits.append_slice(&kept);
            }
            Store::Fixed { bytes, width } => with_word!(*width, T => {
                let words = <[T]>::mut_from_bytes(bytes.as_slice_mut()).map_err(|_| mixed_up())?;
                let kept = keep_words(&mut words[start..], keep);
                bytes.truncate((start + kept) * *width);
            }),
            Store::Views { views, .. } => {
                let kept = keep_words(&mut views[start..], keep);
                views.truncate(start + kept);
            }
        }
        Ok(())
    }

    /// All words so far.
    pub(super) fn words<T: Word>(&self) -> Result<&[T]> {
        match &self.store {
            Store::Fixed { bytes, .. } => words_of(bytes),
            _ => Err(mixed_up()),
        }
    }

    /// Where bits are appended.
    pub(super) fn bits(&mut self) -> Result<&mut BooleanBufferBuilder> {
        match &mut self.store {
            Store::Bool(bits) => Ok(bits),
            _ => Err(mixed_up()),
        }
    }

    /// Where views are appended that point into `buffers`, and the index that the first of these now has. Consecutive ranges of a page, which
    /// bring the same buffers again, share one entry.
    pub(super) fn views(&mut self, buffers: &[Buffer]) -> Result<(&mut Vec<u128>, u32)> {
        let Self { store: Store::Views { views, buffers: known }, held, held_max, .. } = self else { return Err(mixed_up()) };
        let tail = known.len().saturating_sub(buffers.len());
        let same = known.len() - tail == buffers.len() && known[tail..].iter().zip(buffers).all(|(a, b)| a.ptr_eq(b));
        let base = if same { tail } else { known.len() };
        if !same {
            *held = buffers.iter().map(Buffer::len).fold(*held, usize::saturating_add);
            // Few bytes of a file can stand for each of them. What one page has is what it may have.
            if *held > *held_max && !known.is_empty() {
                return Err(Error::too_many_rows(format!("the strings of a batch take {held} bytes")));
            }
            known.extend_from_slice(buffers);
        }
        Ok((views, u32::try_from(base).map_err(|_| Error::invalid_argument("too many buffers of strings in one output"))?))
    }

    /// The index that the first of these buffers has now, for views that come later. Buffers that come again and again, in any order, share one entry: what counts an array's memory counts
    /// each.
    pub(super) fn shared_buffers(&mut self, buffers: &[Buffer]) -> Result<u32> {
        let Store::Views { buffers: known, .. } = &self.store else { return Err(mixed_up()) };
        let is_here = |here: &[Buffer]| here.iter().zip(buffers).all(|(a, b)| a.ptr_eq(b));
        match known.windows(buffers.len().max(1)).rposition(is_here).filter(|_| !buffers.is_empty()) {
            Some(base) => u32::try_from(base).map_err(|_| mixed_up()),
            None => Ok(self.views(buffers)?.1),
        }
    }
}

/// Moves the words that have a bit to the front, and says how many they are.
fn keep_words<T: Copy>(words: &mut [T], keep: &BooleanBuffer) -> usize {
    let mut kept = 0;
    for index in keep.set_indices() {
        words[kept] = words[index];
        kept += 1;
    }
    kept
}

/// Trees are checked when they are opened so that types meet here; this is the guard behind that check.
pub(super) fn mixed_up() -> Error {
    Error::invalid_file("a node's values are not of the type that its parent needs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_specification() {
        for (id, ptype) in (0u8..).zip(PType::ALL) {
            assert_eq!((ptype.id(), PType::from_id(id).unwrap()), (id, ptype));
        }
        assert_eq!(PType::from_id(15).unwrap_err().kind(), crate::format::ErrorKind::UnsupportedVersion);
    }

    #[test]
    fn a_slice_has_its_own_size() {
        let values = Values::Fixed { ptype: PType::I32, bytes: Buffer::from_vec(vec![1i32, 2, 3, 4]) };
        assert_eq!((values.slice(1, 2).len(), values.slice(1, 2).raw_bytes()), (2, 8));
        let strings = Values::Bytes(BinaryViewArray::from_iter_values(["", "abc", "a string that is not inlined"]));
        assert_eq!((strings.len(), strings.raw_bytes()), (3, 3 + 28 + 12));
        assert_eq!(strings.slice(1, 1).raw_bytes(), 7);
    }

    #[test]
    fn what_is_not_kept_is_gone() {
        let keep = BooleanBuffer::from(vec![false, true, false, true, true]);
        let mut out = Output::new(PType::I32, 0);
        out.grow::<u32>(7).unwrap().copy_from_slice(&[0, 1, 2, 3, 4, 5, 6]);
        out.keep_last(&keep).unwrap();
        assert_eq!(out.words::<u32>().unwrap(), [0, 1, 3, 5, 6]);
        assert!(out.keep_last(&BooleanBuffer::new_set(6)).is_err());
        let mut out = Output::new(PType::Bool, 0);
        out.bits().unwrap().append_slice(&[true, false, true, true, false, false, true]);
        out.keep_last(&keep).unwrap();
        let Decoded::Bool(bits) = out.finish() else { panic!("bits") };
        assert_eq!(bits.iter().collect::<Vec<_>>(), [true, false, true, false, true]);
        let mut out = Output::new(PType::Bytes, 0);
        out.views(&[]).unwrap().0.extend([10, 11, 12, 13, 14, 15]);
        out.keep_last(&keep).unwrap();
        let Decoded::Views { views, .. } = out.finish() else { panic!("views") };
        assert_eq!(views[..], [10, 12, 14, 15]);
    }

    #[test]
    fn buffers_of_consecutive_ranges_are_shared() {
        let buffer = Buffer::from(vec![0u8; 100]);
        let other = Buffer::from(vec![0u8; 100]);
        let mut out = Output::new(PType::Bytes, 0);
        assert_eq!(out.views(std::slice::from_ref(&buffer)).unwrap().1, 0);
        assert_eq!(out.views(std::slice::from_ref(&buffer)).unwrap().1, 0);
        assert_eq!(out.views(std::slice::from_ref(&other)).unwrap().1, 1);
        assert_eq!(out.views(&[]).unwrap().1, 2);
        let Decoded::Views { buffers, .. } = out.finish() else { panic!("views") };
        assert_eq!(buffers.len(), 2);
    }

    #[test]
    fn strings_that_a_few_bytes_stand_for_do_not_take_all_memory() {
        let many = Buffer::from(vec![0u8; 64 << 20]);
        let mut out = Output::of_rows(PType::Bytes, 0);
        let pages = (0..).take_while(|page| out.views(&[many.slice(*page)]).is_ok()).count();
        assert_eq!(pages, HELD_MAX / (64 << 20));
        assert!(out.views(&[many.slice(1000)]).unwrap_err().is_splittable());
        out.clear();
        assert_eq!(out.views(std::slice::from_ref(&many)).unwrap().1, 0);
    }
}
