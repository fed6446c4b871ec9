//! RUN_LENGTH: each run's value, and the index behind its last.

use std::ops::Range;

use arrow::array::{Array, BooleanBufferBuilder};
use arrow::buffer::{BooleanBuffer, Buffer};

use super::choose::Context;
use super::dictionary::{code_cost, entries};
use super::distinct::{Distinct, same};
use super::node::{EncodedNode, Node, Parts};
use super::picks::{Picks, decode_wanted};
use super::places::each_place;
use super::plain::rebase;
use super::sample::{Cost, Sample, real};
use super::words::{with_word, words_from, words_of};
use super::{Codes, Decode, Decoded, Encoding, EncodingId, Output, PType, Values};
use crate::format::codes::CodeRun;
use crate::format::search::Pieces;
use crate::format::{Error, Result};

#[derive(Debug)]
pub(super) struct RunLength;

/// Runs shorter than this on average are not worth their ends.
const RUN_MIN: usize = 3;
/// What a run's end takes beside the bits of the mean length.
const END_BITS: f64 = 3.0;
/// What a run takes, however long it is ...
const RUN_NANOS: f64 = 2.2;
/// ... and each byte that is filled with its value.
const FILL_NANOS: f64 = 0.05;
/// Values whose borders are counted in one byte.
const PIECE: usize = 255;
/// A string is a view.
const VIEW_BYTES: f64 = 16.0;

impl Encoding for RunLength {
    fn estimate(&self, sample: &Sample<'_>) -> Option<Cost> {
        let values = sample.values();
        if values.len() < RUN_MIN * count_runs(values).saturating_sub(sample.seams()).max(1) {
            return None;
        }
        // A sample is cut too short to show long runs; counting them all is cheap beside encoding them.
        let runs = count_runs(sample.all());
        if sample.count() < RUN_MIN * runs {
            return None;
        }
        let runs = real(runs);
        let (value_bytes, width) = match values {
            Values::Bool(_) => (0.125, 0.125),
            Values::Fixed { ptype, .. } => {
                let width = real(ptype.width()?);
                (if ptype.is_integer() { number_bytes(sample, width, runs) } else { width }, width)
            }
            Values::Bytes(_) => (sample.text_bytes() / real(sample.count()) * 0.6 + 1.0, VIEW_BYTES),
        };
        let end_bytes = ((real(sample.count()) / runs).log2() + END_BITS) / 8.0;
        let nanos = RUN_NANOS * runs + FILL_NANOS * width * real(sample.count());
        Some(Cost { bytes: runs * (value_bytes + end_bytes) + 150.0, nanos })
    }

    fn encode(&self, values: &Values, context: &Context<'_>) -> Result<Option<EncodedNode>> {
        if values.is_empty() {
            return Ok(None);
        }
        let ends = run_ends(values);
        let lasts: Vec<u32> = ends.iter().map(|end| end - 1).collect();
        let picked = values.pick(&lasts)?;
        let ends = Values::Fixed { ptype: PType::U32, bytes: Buffer::from_vec(ends) };
        let children = vec![
            context.child_of_values(&[EncodingId::RunLength]).encode(&picked)?,
            context.child(&[EncodingId::RunLength, EncodingId::Dictionary, EncodingId::Planes]).encode(&ends)?,
        ];
        let (ptype, count) = (values.ptype(), values.len());
        Ok(Some(EncodedNode { encoding: EncodingId::RunLength, ptype, count, params: [0; 2], buffers: Vec::new(), children }))
    }

    fn open(&self, mut parts: Parts) -> Result<Box<dyn Decode>> {
        let ([], [values, ends]) = parts.take()?;
        parts.check(values.ptype() == parts.ptype, "its runs are of another type")?;
        parts.check(ends.ptype() == PType::U32 && ends.count() == values.count(), "its ends are not one U32 per run")?;
        parts.check(values.count() <= parts.count, "it has more runs than values")?;
        Ok(Box::new(Runs { values, ends, count: parts.count, picks: Picks::default() }))
    }
}

/// What the number of a run takes: as such, or as the code of one of few.
fn number_bytes(sample: &Sample<'_>, width: f64, runs: f64) -> f64 {
    let packed = width * 0.4;
    let Some(distinct) = Distinct::of(sample.values(), sample.values().len()) else { return packed };
    let entries = entries(&distinct, sample);
    packed.min((code_cost(entries, runs).bytes + entries * width) / runs)
}

/// The index behind each run.
fn run_ends(values: &Values) -> Vec<u32> {
    match values {
        Values::Bool(bits) => {
            let borders = bits.set_slices().flat_map(|(start, end)| [start, end]).chain([bits.len()]);
            let mut ends: Vec<u32> = borders.filter(|&end| end > 0).map(|end| u32::try_from(end).unwrap_or(u32::MAX)).collect();
            ends.dedup();
            ends
        }
        Values::Fixed { ptype, bytes } => with_word!(ptype.width().unwrap_or(1), T => {
            let words = words_from::<T>(bytes);
            ends_where(words.len(), |index| words[index] != words[index - 1])
        }),
        Values::Bytes(array) => ends_where(array.len(), |index| !same(array, index - 1, index)),
    }
}

/// How many runs there are.
fn count_runs(values: &Values) -> usize {
    let borders = match values {
        Values::Bool(_) => return run_ends(values).len(),
        Values::Fixed { ptype, bytes } => with_word!(ptype.width().unwrap_or(1), T => {
            let words = words_from::<T>(bytes);
            // Pieces within which a short counter does not overflow, so that many are compared at once.
            let pieces = words.chunks(PIECE).zip(words.get(1..).unwrap_or_default().chunks(PIECE));
            pieces.map(|(before, after)| before.iter().zip(after).map(|(a, b)| u8::from(a != b)).fold(0_u8, u8::wrapping_add)).map(usize::from).sum()
        }),
        Values::Bytes(array) => (1..array.len()).filter(|index| !same(array, index - 1, *index)).count(),
    };
    borders + usize::from(!values.is_empty())
}

/// The indexes where a value differs from the one before it, and the number of values.
fn ends_where(count: usize, differs: impl Fn(usize) -> bool) -> Vec<u32> {
    let end = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    let mut ends = Vec::new();
    each_place(1..count, differs, |places| ends.extend(places.iter().map(|&place| end(place))));
    if count > 0 {
        ends.push(end(count));
    }
    ends
}

#[derive(Debug)]
struct Runs {
    values: Node,
    ends: Node,
    count: usize,
    picks: Picks,
}

impl Runs {
    fn ends(&self) -> Result<&[u32]> {
        let ends = self.ends.all()?.words::<u32>()?;
        match ends.last() {
            Some(&end) if end as usize == self.count => Ok(ends),
            _ => Err(Error::invalid_file("the last run does not end with the values")),
        }
    }
}

impl Decode for Runs {
    fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        let ends = self.ends()?;
        match self.values.all()? {
            Decoded::Bool(bits) => {
                let out = out.bits()?;
                each_run(ends, range, |run, length| out.append_n(length, bits.value(run)))
            }
            Decoded::Fixed(bytes) => with_word!(out.ptype().width().unwrap_or(1), T => {
                let words = words_of::<T>(bytes)?;
                let out = out.grow(range.len())?;
                fill_runs(|run| words[run], ends, range, out)
            }),
            Decoded::Views { views, buffers } => {
                let (out, base) = out.views(buffers)?;
                let before = out.len();
                out.resize(before + range.len(), 0);
                fill_runs(|run| rebase(views[run], base), ends, range, &mut out[before..])
            }
        }
    }

    fn decode_kept(&self, range: Range<usize>, keep: &BooleanBuffer, out: &mut Output) -> Result<()> {
        let ends = self.ends()?;
        if self.picks.are_few_of(keep.count_set_bits(), &self.values) {
            let mut runs = Vec::new();
            each_kept(ends, range.start, keep, |run| runs.push(u32::try_from(run).unwrap_or(u32::MAX)))?;
            return self.picks.look_up(&runs, out, |wanted, out| decode_wanted(&self.values, 0..self.values.count(), wanted, out));
        }
        match self.values.all()? {
            Decoded::Bool(_) => {
                self.decode(range, out)?;
                out.keep_last(keep)
            }
            Decoded::Fixed(bytes) => with_word!(out.ptype().width().unwrap_or(1), T => {
                let words = words_of::<T>(bytes)?;
                let out = out.grow(keep.count_set_bits())?;
                let mut at = 0;
                each_kept(ends, range.start, keep, |run| {
                    out[at] = words[run];
                    at += 1;
                })
            }),
            Decoded::Views { views, buffers } => {
                let (out, base) = out.views(buffers)?;
                each_kept(ends, range.start, keep, |run| out.push(rebase(views[run], base)))
            }
        }
    }

    fn coded(&self, range: Range<usize>, most: usize, codes: &mut Codes) -> Result<Option<Decoded>> {
        let mut runs = Vec::new();
        let mut first = None;
        each_run(self.ends()?, range, |run, rows| {
            first.get_or_insert(run);
            runs.push(CodeRun { code: u32::try_from(run).unwrap_or(u32::MAX), rows: u32::try_from(rows).unwrap_or(u32::MAX) });
        })?;
        let first = first.unwrap_or_default();
        // The values of the runs may have codes themselves.
        let mut of_runs = Codes::default();
        if let Some(values) = self.values.coded(first..first + runs.len(), most, &mut of_runs)? {
            runs.iter_mut().zip(of_runs.iter()).for_each(|(run, code)| run.code = code);
            codes.extend_runs(runs);
            return Ok(Some(values));
        }
        if self.values.count() > most {
            return Ok(None);
        }
        codes.extend_runs(runs);
        self.values.all().cloned().map(Some)
    }

    fn find(&self, range: Range<usize>, most: usize, pieces: &Pieces) -> Result<Option<BooleanBuffer>> {
        if self.values.is_decoded() {
            return Ok(None);
        }
        let mut runs = Vec::new();
        each_run(self.ends()?, range, |run, rows| runs.push((run, rows)))?;
        let Some((first, _)) = runs.first() else { return Ok(None) };
        let Some(found) = self.values.find(*first..first + runs.len(), most, pieces)? else { return Ok(None) };
        let mut mask = BooleanBufferBuilder::new(runs.iter().map(|(_, rows)| rows).sum());
        found.iter().zip(&runs).for_each(|(found, (_, rows))| mask.append_n(*rows, found));
        Ok(Some(mask.finish()))
    }
}

/// Short runs are written so many values at a time, 64 bytes or more: what is too much is overwritten by the next run, and the length decides no branch.
fn fill_runs<T: Copy>(value: impl Fn(usize) -> T, ends: &[u32], range: Range<usize>, out: &mut [T]) -> Result<()> {
    match size_of::<T>() {
        1 => fill_strides::<T, 64>(value, ends, range, out),
        2 => fill_strides::<T, 32>(value, ends, range, out),
        4 => fill_strides::<T, 16>(value, ends, range, out),
        _ => fill_strides::<T, 8>(value, ends, range, out),
    }
}

fn fill_strides<T: Copy, const STRIDE: usize>(value: impl Fn(usize) -> T, ends: &[u32], range: Range<usize>, out: &mut [T]) -> Result<()> {
    let mut at = 0;
    each_run(ends, range, |run, length| {
        match out[at..].first_chunk_mut::<STRIDE>() {
            Some(stride) if length <= STRIDE => *stride = [value(run); STRIDE],
            _ => out[at..at + length].fill(value(run)),
        }
        at += length;
    })
}

/// Calls back with the index of the run of each value that has a bit in `keep`, which begins with the value `start`. As of [`each_run`], an index is less than
/// `ends.len()`, and it is an error if the ends do not ascend as far as they are looked at, or are too few.
fn each_kept(ends: &[u32], start: usize, keep: &BooleanBuffer, mut each: impl FnMut(usize)) -> Result<()> {
    let wrong = || Error::invalid_file("the ends of runs do not ascend to the number of values");
    let mut run = ends.partition_point(|&end| end as usize <= start);
    let mut end = *ends.get(run).ok_or_else(wrong)?;
    for index in keep.set_indices() {
        while end as usize <= start + index {
            run += 1;
            let next = *ends.get(run).ok_or_else(wrong)?;
            if next <= end {
                return Err(wrong());
            }
            end = next;
        }
        each(run);
    }
    Ok(())
}

/// Calls back with each run's index and its length within the range. A run index is less than `ends.len()`, and lengths add up to no more than
/// the range; when the ends do not ascend or end too soon, it is an error.
fn each_run(ends: &[u32], range: Range<usize>, mut each: impl FnMut(usize, usize)) -> Result<()> {
    let mut at = range.start;
    let mut run = ends.partition_point(|&end| end as usize <= at);
    while at < range.end {
        let end = ends.get(run).map_or(0, |&end| end as usize);
        if end <= at {
            return Err(Error::invalid_file("the ends of runs do not ascend to the number of values"));
        }
        let stop = end.min(range.end);
        each(run, stop - at);
        at = stop;
        run += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow::array::BinaryViewArray;

    use super::*;

    #[test]
    fn runs_are_as_many_as_their_ends() {
        let check = |values: &Values, expected: usize| assert_eq!((count_runs(values), run_ends(values).len()), (expected, expected), "{values:?}");
        for length in [0_usize, 1, 2, 254, 255, 256, 257, 1000, 1021] {
            for run in [1, 2, 7, 300, 2000] {
                let numbers: Vec<u64> = (0..length).map(|index| (index / run) as u64 % 3).collect();
                let expected = length.div_ceil(run);
                check(&Values::Fixed { ptype: PType::U64, bytes: Buffer::from_slice_ref(&numbers) }, expected);
                let bytes: Vec<u8> = numbers.iter().map(|number| number.to_le_bytes()[0]).collect();
                check(&Values::Fixed { ptype: PType::U8, bytes: Buffer::from_vec(bytes) }, expected);
                check(&Values::Bool((0..length).map(|index| index / run % 2 == 0).collect()), expected);
                for text in ["", "a text that is in no view: "] {
                    check(&Values::Bytes(BinaryViewArray::from_iter_values(numbers.iter().map(|number| format!("{text}{number}")))), expected);
                }
            }
        }
    }
}
