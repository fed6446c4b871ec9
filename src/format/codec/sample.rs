//! What a chooser looks at: a few runs of a page's values, and what an encoding would cost, judged by them.

use std::cell::OnceCell;

use arrow::array::Array;
use arrow::buffer::{Buffer, NullBuffer};
use zerocopy::IntoBytes;

use super::Values;
use super::buffer::{Kind, part_left};
use super::compression::{Compression, Goal};
use super::words::{with_word, words_from};
use crate::format::Result;

/// Neighbours taken together, so that a sample shows runs and slopes.
const RUN: usize = 64;
/// The least number of values in a sample; a page of fewer is its own sample.
const SAMPLE_MIN: usize = 1024;
/// Bytes compressed to guess a ratio.
const TEXT_MAX: usize = 8 << 10;

/// What ZSTD takes for a raw byte ...
const ZSTD_NANOS: f64 = 0.55;
/// ... and for a compressed one; text took 0.57 in all where 2.5 % were left, and 0.83 where half was.
const ZSTD_NANOS_LEFT: f64 = 0.8;
/// The level by which text is judged when ZSTD may not be used.
const ZSTD_LEVEL: i32 = 1;
/// Fewer bytes than this, such as those of a dictionary, are hardly worth tokens of their own.
const ONPAIR_MIN: f64 = 32_768.0;
/// What ONPAIR takes for a raw byte.
const ONPAIR_NANOS: f64 = 0.14;
/// What a value that is a string takes beside its bytes, to store its length and to make its view.
const STRING: Cost = Cost { bytes: 1.0, nanos: 2.0 };

/// What it costs to store a page and to decode it once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// Bytes stored.
    pub(super) bytes: f64,
    /// Nanoseconds to decode them, as `benches/codec.rs` finds them.
    pub(super) nanos: f64,
}

impl Cost {
    /// With the time that ZSTD takes, if it leaves only part of these raw bytes.
    pub(super) fn compressed(self, raw: f64, left: f64) -> Self {
        Self { nanos: self.nanos + if left < 1.0 { raw * (ZSTD_NANOS + left * ZSTD_NANOS_LEFT) } else { 0.0 }, ..self }
    }

    /// The one number that is compared.
    pub(super) fn total(self, compression: Compression) -> f64 {
        self.bytes * compression.nanos_per_byte() + self.nanos
    }
}

/// Values of a page, and a sample of them.
#[derive(Debug)]
pub(super) struct Sample<'a> {
    all: &'a Values,
    /// Which of all are not nulls.
    validity: Option<&'a NullBuffer>,
    values: Values,
    goal: Goal,
    text_bytes: OnceCell<f64>,
    zstd_left: OnceCell<f64>,
    text_left: OnceCell<f64>,
    packed: OnceCell<Option<Cost>>,
}

impl<'a> Sample<'a> {
    /// Takes about one value in a hundred, in evenly spread runs.
    pub(super) fn of(all: &'a Values, validity: Option<&'a NullBuffer>, goal: Goal) -> Result<Self> {
        let count = all.len();
        let values = if count <= 2 * SAMPLE_MIN {
            all.clone()
        } else {
            let runs = SAMPLE_MIN.max(count / 100).div_ceil(RUN);
            let starts = (0..runs).map(|run| run * (count - RUN) / (runs - 1));
            let indexes: Vec<u32> = starts.flat_map(|start| (start..start + RUN).map(|index| u32::try_from(index).unwrap_or(0))).collect();
            all.pick(&indexes)?
        };
        Ok(Self {
            all,
            validity,
            values,
            goal,
            text_bytes: OnceCell::new(),
            zstd_left: OnceCell::new(),
            text_left: OnceCell::new(),
            packed: OnceCell::new(),
        })
    }

    /// What the encodings are judged by.
    pub(super) fn goal(&self) -> Goal {
        self.goal
    }

    /// How many values the page has.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All values, for what is cheaper to know than to guess.
    pub(super) fn all(&self) -> &Values {
        self.all
    }

    /// The sampled values.
    pub(super) fn values(&self) -> &Values {
        &self.values
    }

    /// Whether the values at an index of the sample and before it are neighbours in the page.
    pub(super) fn is_seam(&self, index: usize) -> bool {
        self.values.len() < self.count() && index.is_multiple_of(RUN)
    }

    /// How many values of the sample are not behind their neighbour.
    pub(super) fn seams(&self) -> usize {
        if self.values.len() < self.count() { self.values.len() / RUN } else { 0 }
    }

    /// Values of the page for each of the sample.
    pub(super) fn scale(&self) -> f64 {
        real(self.count()) / real(self.values.len().max(1))
    }

    /// Bytes of all strings. A null has none, though its slot may repeat a long one.
    pub(super) fn text_bytes(&self) -> f64 {
        let is_valid = |index| self.validity.is_none_or(|validity| validity.is_valid(index));
        *self.text_bytes.get_or_init(|| match self.all {
            Values::Bytes(array) => real(array.lengths().enumerate().filter(|(index, _)| is_valid(*index)).map(|(_, length)| length as usize).sum()),
            _ => 0.0,
        })
    }

    /// The part of its size that ZSTD would leave of the values written plainly; 1 where it is not worth it.
    pub(super) fn zstd_left(&self, kind: Kind) -> f64 {
        if self.goal.zstd_level.is_none() {
            return 1.0;
        }
        *self.zstd_left.get_or_init(|| if self.text_left() <= self.goal.compression.worth(kind) { self.text_left() } else { 1.0 })
    }

    /// The part of its size that ZSTD would leave of the values written plainly, worth it or not.
    pub(super) fn text_left(&self) -> f64 {
        let kind = if matches!(self.values, Values::Bytes(_)) { Kind::Text } else { Kind::Numbers };
        *self.text_left.get_or_init(|| part_left(&self.plain_bytes(), kind, self.goal.zstd_level.unwrap_or(ZSTD_LEVEL)))
    }

    /// The part of its size that ONPAIR may leave of text.
    pub(super) fn onpair_left(&self) -> f64 {
        self.text_left() + self.goal.compression.onpair_worth()
    }

    /// What the values cost as FRAME, which `estimate` finds out once.
    pub(super) fn packed_cost(&self, estimate: impl FnOnce() -> Option<Cost>) -> Option<Cost> {
        *self.packed.get_or_init(estimate)
    }

    /// What so many strings with so many bytes cost as PLAIN, under ZSTD where that pays.
    pub(super) fn plain_text_cost(&self, raw: f64, count: f64) -> Cost {
        let left = self.zstd_left(Kind::Text);
        Cost { bytes: raw * left + count * STRING.bytes, nanos: count * STRING.nanos }.compressed(raw, left)
    }

    /// The same as ONPAIR, which is only taken where it leaves little more than ZSTD would; `None` where that is of no use.
    pub(super) fn onpair_cost(&self, raw: f64, count: f64) -> Option<Cost> {
        if !matches!(self.values, Values::Bytes(_)) || raw < ONPAIR_MIN {
            return None;
        }
        Some(Cost { bytes: raw * self.text_left() + count * STRING.bytes, nanos: raw * ONPAIR_NANOS + count * STRING.nanos })
    }

    /// The same as the cheaper of both.
    pub(super) fn text_cost(&self, raw: f64, count: f64) -> Cost {
        let plain = self.plain_text_cost(raw, count);
        self.onpair_cost(raw, count).filter(|onpair| onpair.total(self.goal.compression) < plain.total(self.goal.compression)).unwrap_or(plain)
    }

    fn plain_bytes(&self) -> Vec<u8> {
        match &self.values {
            Values::Bool(bits) => bits.sliced().to_vec(),
            Values::Fixed { bytes, .. } => bytes[..bytes.len().min(TEXT_MAX)].to_vec(),
            Values::Bytes(array) => {
                let mut text = Vec::with_capacity(TEXT_MAX);
                for index in 0..array.len() {
                    let value = array.value(index);
                    text.extend_from_slice(&value[..value.len().min(TEXT_MAX - text.len())]);
                }
                text
            }
        }
    }
}

/// A count, to be estimated with.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
pub(super) fn real(count: usize) -> f64 {
    count as f64
}

/// The values with each null's slot holding the valid value before it, or, if there is none, the first there is: nothing compresses better.
pub(super) fn fill_forward(values: &Values, validity: &NullBuffer) -> Result<Values> {
    let Some(first) = validity.inner().set_indices().next() else { return zeros(values) };
    Ok(match values {
        Values::Bool(bits) => {
            let mut last = bits.value(first);
            let filled = bits.iter().zip(validity).map(|(bit, valid)| {
                last = if valid { bit } else { last };
                last
            });
            Values::Bool(filled.collect())
        }
        Values::Fixed { ptype, bytes } => with_word!(ptype.width().unwrap_or(1), T => {
            let mut words = words_from::<T>(bytes).into_owned();
            fill_gaps(&mut words, validity, first);
            Values::Fixed { ptype: *ptype, bytes: Buffer::from(words.as_bytes()) }
        }),
        Values::Bytes(array) => {
            let mut views = array.views().to_vec();
            fill_gaps(&mut views, validity, first);
            Values::Bytes(arrow::array::BinaryViewArray::try_new(views.into(), array.data_buffers().to_vec(), None)?)
        }
    })
}

fn fill_gaps<T: Copy>(slots: &mut [T], validity: &NullBuffer, first: usize) {
    let mut last = slots[first];
    let mut at = 0;
    for (start, end) in validity.valid_slices() {
        slots[at..start].fill(last);
        last = slots[end - 1];
        at = end;
    }
    slots[at..].fill(last);
}

/// As many values, all zero or empty.
fn zeros(values: &Values) -> Result<Values> {
    Ok(match values {
        Values::Bool(bits) => Values::Bool(arrow::buffer::BooleanBuffer::new_unset(bits.len())),
        Values::Fixed { ptype, bytes } => Values::Fixed { ptype: *ptype, bytes: Buffer::from(vec![0u8; bytes.len()]) },
        Values::Bytes(array) => Values::Bytes(arrow::array::BinaryViewArray::try_new(vec![0; array.len()].into(), Vec::new(), None)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::codec::PType;

    fn fixed(values: &[i32]) -> Values {
        Values::Fixed { ptype: PType::I32, bytes: Buffer::from(values.as_bytes()) }
    }

    const GOAL: Goal = Goal { compression: Compression::Balanced, zstd_level: None };

    #[test]
    fn a_sample_is_spread_over_the_page_in_runs() {
        let numbers: Vec<i32> = (0..200_000).collect();
        let values = fixed(&numbers);
        let sample = Sample::of(&values, None, GOAL).unwrap();
        let Values::Fixed { bytes, .. } = sample.values() else { panic!("numbers") };
        let sampled = words_from::<u32>(bytes);
        assert_eq!((sampled.len(), sampled[0], sampled[sampled.len() - 1]), (2048, 0, 199_999));
        assert!((1..2048).all(|index| sample.is_seam(index) || sampled[index] == sampled[index - 1] + 1));
        assert_eq!(sample.seams(), 32);
    }

    #[test]
    fn nulls_have_no_bytes_of_text() {
        let text = "a string that is not inlined".repeat(100);
        let validity: NullBuffer = (0..1000).map(|index| index == 7).collect();
        let strings = Values::Bytes(arrow::array::BinaryViewArray::from_iter_values((0..1000).map(|_| text.as_bytes())));
        let strings = fill_forward(&strings, &validity).unwrap();
        let bytes = |validity| Sample::of(&strings, validity, GOAL).unwrap().text_bytes();
        assert_eq!((bytes(None), bytes(Some(&validity))), (2_800_000.0, 2800.0));
    }

    #[test]
    fn nulls_repeat_the_value_before_them() {
        let validity = NullBuffer::from(vec![false, true, false, false, true, false]);
        let Values::Fixed { bytes, .. } = fill_forward(&fixed(&[9, 1, 9, 9, 2, 9]), &validity).unwrap() else { panic!("numbers") };
        assert_eq!(&*words_from::<u32>(&bytes), [1, 1, 1, 1, 2, 2]);
        let Values::Fixed { bytes, .. } = fill_forward(&fixed(&[9, 8]), &NullBuffer::new_null(2)).unwrap() else { panic!("numbers") };
        assert_eq!(&*words_from::<u32>(&bytes), [0, 0]);
        let bits = Values::Bool(vec![false, true, false, false, false, true].into());
        let Values::Bool(bits) = fill_forward(&bits, &validity).unwrap() else { panic!("bits") };
        assert_eq!(bits.iter().collect::<Vec<_>>(), [true, true, true, true, false, false]);
    }
}
