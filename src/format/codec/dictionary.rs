//! DICTIONARY: the distinct values once, and a code per value. The values are the page's own, or those of the dictionary of its chunk.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::{BooleanBuffer, Buffer};

use super::answers::Answers;
use super::choose::Context;
use super::distinct::Distinct;
use super::node::{EncodedNode, Node, Parts};
use super::picks::{Picks, decode_wanted};
use super::plain::rebase;
use super::sample::{Cost, Sample, real};
use super::words::{Word, with_word, words_of};
use super::{BLOCK, ChunkDictionary, Codes, Decode, Decoded, Encoding, EncodingId, Output, PType, Values};
use crate::format::search::Pieces;
use crate::format::{Error, Result};

#[derive(Debug)]
pub(super) struct Dictionary;

impl Encoding for Dictionary {
    fn estimate(&self, sample: &Sample<'_>) -> Option<Cost> {
        let distinct = Distinct::of(sample.values(), sample.values().len())?;
        let count = real(sample.count());
        let entries = entries(&distinct, sample);
        if entries * 2.0 > count || sample.is_empty() {
            return None;
        }
        let code_bytes = code_cost(entries, count).bytes;
        Some(match sample.values() {
            Values::Fixed { ptype, .. } => {
                let width = real(ptype.width()?) * if ptype.is_integer() { 0.7 } else { 1.0 };
                Cost { bytes: code_bytes + entries * width + 100.0, nanos: 0.5 * count }
            }
            Values::Bytes(strings) => {
                let text = sample.text_cost(entries * distinct.mean_length(strings), entries);
                Cost { bytes: code_bytes + text.bytes + 100.0, nanos: 0.65 * count + text.nanos }
            }
            Values::Bool(_) => return None,
        })
    }

    fn encode(&self, values: &Values, context: &Context<'_>) -> Result<Option<EncodedNode>> {
        let limit = if context.is_forced() { values.len() } else { values.len() / 2 };
        let Some(Distinct { codes, firsts }) = Distinct::of(values, limit) else { return Ok(None) };
        let children = vec![
            context.child(&[EncodingId::Dictionary]).encode(&codes_of(&codes, firsts.len()))?,
            context.child_of_values(&[EncodingId::Dictionary, EncodingId::RunLength]).encode(&values.pick(&firsts)?)?,
        ];
        let (ptype, count) = (values.ptype(), values.len());
        Ok(Some(EncodedNode { encoding: EncodingId::Dictionary, ptype, count, params: [0; 2], buffers: Vec::new(), children }))
    }

    fn open(&self, mut parts: Parts) -> Result<Box<dyn Decode>> {
        let (codes, values) = if let Some(dictionary) = parts.take_dictionary() {
            let ([], [codes]) = parts.take()?;
            (codes, Entries::Chunk(dictionary))
        } else {
            let ([], [codes, values]) = parts.take()?;
            parts.check(values.count() <= parts.count, "it has more distinct values than values")?;
            (codes, Entries::Page(values))
        };
        parts.check(parts.ptype != PType::Bool, "booleans have no dictionary")?;
        parts.check(values.ptype() == parts.ptype, "its values are of another type")?;
        let are_codes = matches!(codes.ptype(), PType::U8 | PType::U16 | PType::U32);
        parts.check(are_codes && codes.count() == parts.count, "its codes are not one unsigned number per value")?;
        Ok(Box::new(Coded { codes, values, found: Answers::default(), picks: Picks::default() }))
    }
}

/// A page of encoded codes of its chunk's dictionary.
pub(super) fn coded(codes: EncodedNode, ptype: PType) -> EncodedNode {
    EncodedNode { encoding: EncodingId::Dictionary, ptype, count: codes.count, params: [0; 2], buffers: Vec::new(), children: vec![codes] }
}

/// Codes of a chunk's dictionary, to be encoded.
pub(super) fn chunk_codes(codes: &[u32]) -> Values {
    let greatest = codes.iter().max().map_or(0, |code| *code as usize);
    codes_of(codes, greatest + 1)
}

/// What codes cost in a page.
pub(super) fn estimate_codes(codes: &[u32], context: &Context<'_>) -> Result<f64> {
    Ok(context.least_cost(&chunk_codes(codes))? + code_cost(1.0, real(codes.len())).nanos)
}

/// What codes of so many entries cost, apart from the entries.
pub(super) fn code_cost(entries: f64, count: f64) -> Cost {
    Cost { bytes: entries.log2().ceil().max(0.1) / 8.0 * count, nanos: 0.65 * count }
}

/// A guess at the number of distinct values in the page. Those seen more than once are likely all there are of their kind; each seen only once
/// stands for the square root of the scale (the GEE estimator of Charikar et al., PODS 2000). That is far too few where most are seen once, and then
/// those seen twice say how many there are that are not seen (Chao, Scandinavian Journal of Statistics 11, 1984).
pub(super) fn entries(distinct: &Distinct, sample: &Sample<'_>) -> f64 {
    if sample.values().len() == sample.count() {
        return real(distinct.firsts.len());
    }
    let mut seen = vec![0u32; distinct.firsts.len()];
    for &code in &distinct.codes {
        seen[code as usize] += 1;
    }
    let seen_times = |wanted: u32| real(seen.iter().filter(|&&times| times == wanted).count());
    let (once, twice) = (seen_times(1), seen_times(2));
    let of_each_kind = sample.scale().sqrt() * once + real(seen.len()) - once;
    let of_all_alike = real(seen.len()) + if once > 0.0 { once * once / (2.0 * twice) } else { 0.0 };
    of_each_kind.max(of_all_alike).min(real(sample.count()))
}

/// Codes in the narrowest type.
#[expect(clippy::cast_possible_truncation, reason = "codes are less than the number of entries, which fits")]
fn codes_of(codes: &[u32], entries: usize) -> Values {
    match entries {
        0..=0x100 => Values::Fixed { ptype: PType::U8, bytes: Buffer::from_vec(codes.iter().map(|&code| code as u8).collect()) },
        0x101..=0x1_0000 => Values::Fixed { ptype: PType::U16, bytes: Buffer::from_vec(codes.iter().map(|&code| code as u16).collect()) },
        _ => Values::Fixed { ptype: PType::U32, bytes: Buffer::from_vec(codes.to_vec()) },
    }
}

#[derive(Debug)]
struct Coded {
    codes: Node,
    values: Entries,
    /// Which of the page's own values have some pieces of text; `None` where that is not known without them.
    found: Answers<Option<BooleanBuffer>>,
    picks: Picks,
}

/// What codes stand for.
#[derive(Debug)]
enum Entries {
    Page(Node),
    Chunk(Arc<ChunkDictionary>),
}

impl Entries {
    fn ptype(&self) -> PType {
        match self {
            Self::Page(values) => values.ptype(),
            Self::Chunk(dictionary) => dictionary.ptype(),
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Page(values) => values.count(),
            Self::Chunk(dictionary) => dictionary.count(),
        }
    }

    fn all(&self) -> Result<&Decoded> {
        match self {
            Self::Page(values) => values.all(),
            Self::Chunk(dictionary) => dictionary.all(),
        }
    }
}

impl Decode for Coded {
    fn decode(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        if let Entries::Chunk(dictionary) = &self.values
            && dictionary.is_better_in_part(range.len())
        {
            let mut codes = Vec::with_capacity(range.len());
            self.append_all_codes(range, &mut codes)?;
            return dictionary.look_up(&codes, out);
        }
        match self.codes.ptype() {
            PType::U8 => self.decode_codes::<u8>(range, out),
            PType::U16 => self.decode_codes::<u16>(range, out),
            _ => self.decode_codes::<u32>(range, out),
        }
    }

    fn decode_kept(&self, range: Range<usize>, keep: &BooleanBuffer, out: &mut Output) -> Result<()> {
        let kept = keep.count_set_bits();
        match &self.values {
            Entries::Chunk(dictionary) if dictionary.is_better_in_part(kept) => return dictionary.look_up(&self.kept_codes(range, keep)?, out),
            Entries::Page(values) if self.picks.are_few_of(kept, values) => {
                let codes = self.kept_codes(range, keep)?;
                return self.picks.look_up(&codes, out, |wanted, out| decode_wanted(values, 0..values.count(), wanted, out));
            }
            _ => {}
        }
        match self.codes.ptype() {
            PType::U8 => self.pick::<u8>(range, keep, out),
            PType::U16 => self.pick::<u16>(range, keep, out),
            _ => self.pick::<u32>(range, keep, out),
        }
    }

    fn coded(&self, range: Range<usize>, most: usize, codes: &mut Codes) -> Result<Option<Decoded>> {
        if self.values.count() > most {
            return Ok(None);
        }
        let mut all = Vec::with_capacity(range.len());
        self.append_all_codes(range, &mut all)?;
        codes.extend(all.into_iter());
        self.values.all().cloned().map(Some)
    }

    fn find(&self, range: Range<usize>, most: usize, pieces: &Pieces) -> Result<Option<BooleanBuffer>> {
        if self.values.count() > most {
            return Ok(None);
        }
        let found = match &self.values {
            Entries::Page(values) if values.is_decoded() || values.count() == 0 => None,
            Entries::Page(values) => self.found.get(pieces, || values.find(0..values.count(), most, pieces))?,
            Entries::Chunk(dictionary) => Some(dictionary.find(pieces)?),
        };
        let Some(found) = found else { return Ok(None) };
        let mut codes = Vec::with_capacity(range.len());
        self.append_all_codes(range, &mut codes)?;
        let mut bits = BooleanBufferBuilder::new(codes.len());
        Codes::from(codes).append_looked_up(&found, &mut bits);
        Ok(Some(bits.finish()))
    }
}

impl Coded {
    fn kept_codes(&self, range: Range<usize>, keep: &BooleanBuffer) -> Result<Vec<u32>> {
        match self.codes.ptype() {
            PType::U8 => self.kept_codes_of::<u8>(range, keep),
            PType::U16 => self.kept_codes_of::<u16>(range, keep),
            _ => self.kept_codes_of::<u32>(range, keep),
        }
    }

    fn kept_codes_of<C: Code>(&self, range: Range<usize>, keep: &BooleanBuffer) -> Result<Vec<u32>> {
        let mut codes = Output::new(self.codes.ptype(), range.len());
        self.codes.decode_kept(range, keep, &mut codes)?;
        let codes = codes.words::<C>()?;
        check_codes(codes, self.values.count())?;
        Ok(codes.iter().map(|&code| code.into()).collect())
    }

    fn append_all_codes(&self, range: Range<usize>, codes: &mut Vec<u32>) -> Result<()> {
        match self.codes.ptype() {
            PType::U8 => self.append_codes::<u8>(range, codes),
            PType::U16 => self.append_codes::<u16>(range, codes),
            _ => self.append_codes::<u32>(range, codes),
        }
    }

    fn decode_codes<C: Code>(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        let mut codes = Output::new(self.codes.ptype(), range.len().min(BLOCK));
        match self.values.all()? {
            Decoded::Bool(_) => Err(super::values::mixed_up()),
            Decoded::Fixed(values) => with_word!(out.ptype().width().unwrap_or(1), T => {
                let values = words_of::<T>(values)?;
                self.each_block::<C>(range, &mut codes, values.len(), |codes| look_up(codes, values, out.grow(codes.len())?))
            }),
            Decoded::Views { views, buffers } => {
                let (out, base) = out.views(buffers)?;
                if base > 0 && range.len() < views.len() {
                    return self.each_block::<C>(range, &mut codes, views.len(), |codes| {
                        out.extend(codes.iter().map(|&code| rebase(entry(views, code), base)));
                        Ok(())
                    });
                }
                // Once per entry: whether a view is a long one is a branch that nothing predicts.
                let views: Cow<'_, [u128]> = if base == 0 { views[..].into() } else { views.iter().map(|&view| rebase(view, base)).collect() };
                self.each_block::<C>(range, &mut codes, views.len(), |codes| {
                    out.extend(codes.iter().map(|&code| entry(&views, code)));
                    Ok(())
                })
            }
        }
    }

    /// Looks up no more than the values that are kept.
    fn pick<C: Code>(&self, range: Range<usize>, keep: &BooleanBuffer, out: &mut Output) -> Result<()> {
        let mut codes = Output::new(self.codes.ptype(), range.len());
        self.codes.decode_kept(range, keep, &mut codes)?;
        let codes = codes.words::<C>()?;
        match self.values.all()? {
            Decoded::Bool(_) => Err(super::values::mixed_up()),
            Decoded::Fixed(values) => with_word!(out.ptype().width().unwrap_or(1), T => {
                let values = words_of::<T>(values)?;
                check_codes(codes, values.len())?;
                look_up(codes, values, out.grow(codes.len())?)
            }),
            Decoded::Views { views, buffers } => {
                check_codes(codes, views.len())?;
                let (out, base) = out.views(buffers)?;
                out.extend(codes.iter().map(|&code| rebase(entry(views, code), base)));
                Ok(())
            }
        }
    }

    fn append_codes<C: Code>(&self, range: Range<usize>, out: &mut Vec<u32>) -> Result<()> {
        let mut codes = Output::new(self.codes.ptype(), range.len().min(BLOCK));
        self.each_block::<C>(range, &mut codes, self.values.count(), |codes| {
            out.extend(codes.iter().map(|&code| code.into()));
            Ok(())
        })
    }

    /// Decodes the codes block by block, so that they stay in the nearest cache, and calls back with those that have been checked.
    fn each_block<C: Code>(&self, range: Range<usize>, scratch: &mut Output, entries: usize, mut each: impl FnMut(&[C]) -> Result<()>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / BLOCK + 1) * BLOCK);
            scratch.clear();
            self.codes.decode(at..end, scratch)?;
            let codes = scratch.words::<C>()?;
            check_codes(codes, entries)?;
            each(codes)?;
            at = end;
        }
        Ok(())
    }
}

fn check_codes<C: Code>(codes: &[C], entries: usize) -> Result<()> {
    // `max` compares one by one, a fold many at once.
    let greatest = codes.iter().fold(C::default(), |greatest, &code| if code > greatest { code } else { greatest }).index();
    if greatest >= entries { Err(Error::invalid_file(format!("code {greatest} of a dictionary of {entries} values"))) } else { Ok(()) }
}

fn look_up<C: Code, T: Word>(codes: &[C], values: &[T], out: &mut [T]) -> Result<()> {
    for (slot, &code) in out.iter_mut().zip(codes) {
        *slot = entry(values, code);
    }
    Ok(())
}

/// The entry of a code that has been checked.
fn entry<C: Code, T: Word>(values: &[T], code: C) -> T {
    values.get(code.index()).copied().unwrap_or_default()
}

trait Code: Word + Ord + Into<u32> {
    fn index(self) -> usize;
}

macro_rules! codes {
    ($($C:ty)*) => {$(
        impl Code for $C {
            fn index(self) -> usize {
                self as usize
            }
        }
    )*};
}
codes!(u8 u16 u32);

#[cfg(test)]
mod tests {
    use arrow::array::BinaryViewArray;
    use bytes::Bytes;

    use super::super::{EncodeOptions, Encoded, EncodingTree};
    use super::*;
    use crate::format::ErrorKind;

    #[test]
    fn codes_of_no_values_are_refused_by_whoever_reads_them() {
        let context = Context::root(&EncodeOptions::default(), None);
        let codes = Values::Fixed { ptype: PType::U8, bytes: Buffer::from_vec(vec![0_u8]) };
        let none = Values::Bytes(BinaryViewArray::from_iter_values([""; 0]));
        let children = vec![context.encode(&codes).unwrap(), context.encode(&none).unwrap()];
        let root = EncodedNode { encoding: EncodingId::Dictionary, ptype: PType::Bytes, count: 1, params: [0; 2], buffers: Vec::new(), children };
        let encoded = Encoded::new(root).unwrap();
        let mut page = Vec::new();
        encoded.write(&mut page);
        let body = Bytes::from(page).slice(encoded.tree().len().next_multiple_of(8)..);
        let node = Node::open(&EncodingTree::read(encoded.tree()).unwrap(), &body, true, None).unwrap();
        assert_eq!(node.find(0..1, usize::MAX, &Pieces::of_like("%a%").unwrap()).unwrap(), None);
        assert_eq!(node.decode(0..1, &mut Output::new(PType::Bytes, 1)).unwrap_err().kind(), ErrorKind::InvalidFile);
    }
}
