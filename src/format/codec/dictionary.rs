//! DICTIONARY: the distinct values once, and a code per value. The values are the page's own, or those of the dictionary of its chunk.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::{BooleanBuffer, Buffer};

use super::answers::Answers;
use super::choose::Context;
use super::distinct::Distinct;
use super::last_codes::LastCodes;
use super::node::{EncodedNode, Node, Parts};
use super::picks::{Picks, decode_wanted};
use super::plain::rebase;
use super::sample::{Cost, Sample, real};
use super::words::{Word, with_word, words_of};
use super::{BLOCK, ChunkDictionary, Codes, Decode, Decoded, Encoding, EncodingId, Output, PType, Values};
use crate::format::codes::looked_up;
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
        Ok(Box::new(Coded { codes, values, last: LastCodes::default(), found: Answers::default(), picks: Picks::default() }))
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
    /// A filter looks at codes, and then what passes is read.
    last: LastCodes,
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
            return dictionary.look_up(&self.all_codes(range)?, out);
        }
        with_code!(self.codes.ptype(), C => self.decode_codes::<C>(range, out))
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
        with_code!(self.codes.ptype(), C => self.pick::<C>(range, keep, out))
    }

    fn coded(&self, range: Range<usize>, most: usize, codes: &mut Codes) -> Result<Option<Decoded>> {
        if self.values.count() > most {
            return Ok(None);
        }
        with_code!(self.codes.ptype(), C => self.with_codes::<C, _>(range, |all| codes.extend(all.iter().map(|code| code.number()))))?;
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
        with_code!(self.codes.ptype(), C => self.with_codes::<C, _>(range, |codes| looked_up(codes, &found))).map(Some)
    }
}

impl Coded {
    fn kept_codes(&self, range: Range<usize>, keep: &BooleanBuffer) -> Result<Vec<u32>> {
        with_code!(self.codes.ptype(), C => self.with_kept::<C, _>(range, keep, |codes| Ok(codes.iter().map(|code| code.number()).collect())))
    }

    fn all_codes(&self, range: Range<usize>) -> Result<Vec<u32>> {
        let mut all = Vec::with_capacity(range.len());
        with_code!(self.codes.ptype(), C => self.each_block::<C>(range, self.values.count(), |codes| {
            all.extend(codes.iter().map(|code| code.number()));
            Ok(())
        }))?;
        Ok(all)
    }

    /// All codes of a range, which have been checked, and are remembered for whoever reads what passes.
    fn with_codes<C: Code, T>(&self, range: Range<usize>, look: impl FnOnce(&[C]) -> T) -> Result<T> {
        if let Some(known) = self.last.get(&range) {
            return Ok(look(known.words()?));
        }
        let mut codes = Output::new(self.codes.ptype(), range.len());
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / BLOCK + 1) * BLOCK);
            self.codes.decode(at..end, &mut codes)?;
            // As long as they are in the nearest cache.
            check_codes(codes.last::<C>(end - at)?, self.values.count())?;
            at = end;
        }
        let found = look(codes.words()?);
        self.last.set(range, codes);
        Ok(found)
    }

    /// The codes of a range that are kept, which have been checked.
    fn with_kept<C: Code, T>(&self, range: Range<usize>, keep: &BooleanBuffer, look: impl FnOnce(&[C]) -> Result<T>) -> Result<T> {
        if let Some(known) = self.last.get(&range) {
            let known = known.words::<C>()?;
            let mut kept = Vec::with_capacity(keep.count_set_bits());
            kept.extend(keep.set_indices().filter_map(|index| known.get(index)));
            return look(&kept);
        }
        let mut codes = Output::new(self.codes.ptype(), range.len());
        self.codes.decode_kept(range, keep, &mut codes)?;
        check_codes(codes.words::<C>()?, self.values.count())?;
        look(codes.words()?)
    }

    fn decode_codes<C: Code>(&self, range: Range<usize>, out: &mut Output) -> Result<()> {
        match self.values.all()? {
            Decoded::Bool(_) => Err(super::values::mixed_up()),
            Decoded::Fixed(values) => with_word!(out.ptype().width().unwrap_or(1), T => {
                let values = words_of::<T>(values)?;
                self.each_block::<C>(range, values.len(), |codes| look_up(codes, values, out.grow(codes.len())?))
            }),
            Decoded::Views { views, buffers } => {
                let (out, base) = out.views(buffers)?;
                if base > 0 && range.len() < views.len() {
                    return self.each_block::<C>(range, views.len(), |codes| {
                        out.extend(codes.iter().map(|&code| rebase(entry(views, code), base)));
                        Ok(())
                    });
                }
                // Once per entry: whether a view is a long one is a branch that nothing predicts.
                let views: Cow<'_, [u128]> = if base == 0 { views[..].into() } else { views.iter().map(|&view| rebase(view, base)).collect() };
                self.each_block::<C>(range, views.len(), |codes| {
                    out.extend(codes.iter().map(|&code| entry(&views, code)));
                    Ok(())
                })
            }
        }
    }

    /// Looks up no more than the values that are kept.
    fn pick<C: Code>(&self, range: Range<usize>, keep: &BooleanBuffer, out: &mut Output) -> Result<()> {
        self.with_kept::<C, _>(range, keep, |codes| match self.values.all()? {
            Decoded::Bool(_) => Err(super::values::mixed_up()),
            Decoded::Fixed(values) => {
                with_word!(out.ptype().width().unwrap_or(1), T => look_up(codes, words_of::<T>(values)?, out.grow(codes.len())?))
            }
            Decoded::Views { views, buffers } => {
                let (out, base) = out.views(buffers)?;
                out.extend(codes.iter().map(|&code| rebase(entry(views, code), base)));
                Ok(())
            }
        })
    }

    /// Decodes the codes block by block, so that they stay in the nearest cache, and calls back with those that have been checked: with all at once where they are known.
    fn each_block<C: Code>(&self, range: Range<usize>, entries: usize, mut each: impl FnMut(&[C]) -> Result<()>) -> Result<()> {
        if let Some(known) = self.last.get(&range) {
            return each(known.words()?);
        }
        let mut scratch = Output::new(self.codes.ptype(), range.len().min(BLOCK));
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / BLOCK + 1) * BLOCK);
            scratch.clear();
            self.codes.decode(at..end, &mut scratch)?;
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

/// Runs the body with `$C` as the type of codes.
macro_rules! with_code {
    ($ptype:expr, $C:ident => $body:expr) => {
        match $ptype {
            PType::U8 => {
                type $C = u8;
                $body
            }
            PType::U16 => {
                type $C = u16;
                $body
            }
            _ => {
                type $C = u32;
                $body
            }
        }
    };
}
use with_code;

trait Code: Word + Ord + Into<u32> {
    fn index(self) -> usize;

    fn number(self) -> u32 {
        self.into()
    }
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

    use super::super::{EncodeOptions, Encoded, EncodingTree, encode};
    use super::*;
    use crate::format::ErrorKind;

    fn open(encoded: &Encoded) -> Node {
        let mut page = Vec::new();
        encoded.write(&mut page);
        let body = Bytes::from(page).slice(encoded.tree().len().next_multiple_of(8)..);
        Node::open(&EncodingTree::read(encoded.tree()).unwrap(), &body, true, None).unwrap()
    }

    fn list(out: Output) -> Vec<String> {
        let Decoded::Views { views, buffers } = out.finish() else { panic!("views") };
        let array = arrow::array::StringViewArray::try_new(views, buffers, None).unwrap();
        array.iter().map(|value| value.unwrap().to_owned()).collect()
    }

    #[test]
    fn rows_whose_codes_have_been_looked_at_are_read_as_others_are() {
        // Codes of each width.
        for (entries, count) in [(200, 5000), (1000, 5000), (70_000, 70_000)] {
            let value = |row: usize| match row * 7919 % entries {
                5 => String::new(),
                number => format!("the value {number:05} of some"),
            };
            let values = Values::Bytes(BinaryViewArray::from_iter_values((0..count).map(value)));
            let encoded = encode(&values, None, &EncodeOptions { forced: Some(EncodingId::Dictionary), ..Default::default() }).unwrap();
            for looked_at in [1000..3000, 1500..1501, 0..count] {
                let node = open(&encoded);
                let found = node.find(looked_at.clone(), usize::MAX, &Pieces::of_text("")).unwrap();
                let expected: BooleanBuffer = looked_at.clone().map(|row| value(row).is_empty()).collect();
                assert_eq!(found, Some(expected), "{looked_at:?} of {entries}");
                for read in [looked_at.clone(), 990..1010, 1023..2100, 1500..1501, 2990..3010] {
                    let message = format!("{read:?} behind {looked_at:?} of {entries}");
                    let mut all = Output::new(PType::Bytes, 0);
                    node.decode(read.clone(), &mut all).unwrap();
                    assert_eq!(list(all), read.clone().map(value).collect::<Vec<_>>(), "{message}");
                    let keep = BooleanBuffer::collect_bool(read.len(), |row| row % 3 == 0);
                    let mut kept = Output::new(PType::Bytes, 0);
                    node.decode_kept(read.clone(), &keep, &mut kept).unwrap();
                    assert_eq!(list(kept), read.clone().step_by(3).map(value).collect::<Vec<_>>(), "{message}");
                }
            }
            let (node, mut codes) = (open(&encoded), Codes::default());
            node.coded(10..20, usize::MAX, &mut codes).unwrap().unwrap();
            node.coded(30..32, usize::MAX, &mut codes).unwrap().unwrap();
            node.coded(31..32, usize::MAX, &mut codes).unwrap().unwrap();
            // Values are numbered in the order in which they come first.
            assert!(codes.iter().eq([(10..20), (30..32), (31..32)].into_iter().flatten()), "{entries}");
        }
    }

    #[test]
    fn codes_of_no_values_are_refused_by_whoever_reads_them() {
        let context = Context::root(&EncodeOptions::default(), None);
        let codes = Values::Fixed { ptype: PType::U8, bytes: Buffer::from_vec(vec![0_u8]) };
        let none = Values::Bytes(BinaryViewArray::from_iter_values([""; 0]));
        let children = vec![context.encode(&codes).unwrap(), context.encode(&none).unwrap()];
        let root = EncodedNode { encoding: EncodingId::Dictionary, ptype: PType::Bytes, count: 1, params: [0; 2], buffers: Vec::new(), children };
        let node = open(&Encoded::new(root).unwrap());
        assert_eq!(node.find(0..1, usize::MAX, &Pieces::of_like("%a%").unwrap()).unwrap(), None);
        let mut out = Output::new(PType::Bytes, 1);
        let keep = BooleanBuffer::new_set(1);
        // To look at them does not make them known.
        for _ in 0..2 {
            let errors =
                [node.coded(0..1, usize::MAX, &mut Codes::default()).map(drop), node.decode(0..1, &mut out), node.decode_kept(0..1, &keep, &mut out)];
            assert!(errors.into_iter().all(|error| error.unwrap_err().kind() == ErrorKind::InvalidFile));
        }
    }
}
