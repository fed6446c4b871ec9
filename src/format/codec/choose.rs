//! The chooser: every encoding bids for the values by a sample, the cheapest bid wins, and the winner's children are chosen in the same way. Where a page follows one
//! like it (`memory.rs`), what was chosen for that is taken, as far as it goes.

use std::cell::RefCell;

use arrow::buffer::NullBuffer;

use super::buffer::{EncodedBuffer, Kind};
use super::compression::Goal;
use super::memory::Guide;
use super::node::EncodedNode;
use super::onpair::Whose;
use super::sample::Sample;
use super::{EncodeOptions, EncodingId, PType, Values, onpair};
use crate::format::{Error, Result};

/// What an encoding needs to know to encode, and how it has its children encoded.
///
/// Trees stay within the format's bounds because parents rule encodings out for their children: an encoding hardly ever pays twice on a path, and
/// the deepest path there can be is NARROW, DICTIONARY, RUN_LENGTH, DELTA, FRAME and a patch, or without RUN_LENGTH, a patch that is DELTA and FRAME. The largest tree is of
/// text, ONPAIR in a DICTIONARY in a RUN_LENGTH or without it: 31 nodes. FIRST_SEEN is for codes of a chunk's dictionary, which have no values
/// beside them, or for those of their runs or patches, and for none of the trees below.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    goal: Goal,
    forced: Option<EncodingId>,
    validity: Option<&'a NullBuffer>,
    tokens: Option<&'a RefCell<onpair::Memory>>,
    guide: Option<&'a Guide<'a>>,
    is_child: bool,
    /// A bit per encoding that may not be chosen.
    ruled_out: u32,
    patched: bool,
}

impl<'a> Context<'a> {
    /// For the root. Its values are the only ones that may be null.
    pub(super) fn root(options: &EncodeOptions, validity: Option<&'a NullBuffer>) -> Self {
        let goal = Goal { compression: options.compression, zstd_level: options.zstd_level };
        Self {
            goal,
            forced: options.forced,
            validity,
            tokens: None,
            guide: None,
            is_child: false,
            ruled_out: bit(EncodingId::FirstSeen),
            patched: true,
        }
    }

    /// For a child, on whose way down some encodings are of no more use.
    pub(super) fn child(&self, without: &[EncodingId]) -> Self {
        let ruled_out = self.ruled_out_with(without) | bit(EncodingId::FirstSeen);
        Self { forced: None, validity: None, tokens: None, is_child: true, ruled_out, ..*self }
    }

    fn ruled_out_with(&self, without: &[EncodingId]) -> u32 {
        without.iter().fold(self.ruled_out, |bits, encoding| bits | bit(*encoding))
    }

    /// For a child that holds some of the values, of which what was learnt from earlier pages is true, too.
    pub(super) fn child_of_values(&self, without: &[EncodingId]) -> Self {
        Self { tokens: self.tokens, ruled_out: self.ruled_out_with(without), ..self.child(without) }
    }

    /// For codes of the dictionary of a chunk, of which a page that is the first to have a value has the next.
    pub(super) fn of_codes(&self) -> Self {
        let child = self.child(&[EncodingId::Dictionary]);
        Self { ruled_out: child.ruled_out & !bit(EncodingId::FirstSeen), ..child }
    }

    /// The same with the tokens of earlier pages, to be added to.
    pub(super) fn with_tokens(self, tokens: &'a RefCell<onpair::Memory>) -> Self {
        Self { tokens: Some(tokens), ..self }
    }

    /// The tokens of earlier pages, if these values are a page's or what another encoding leaves of one.
    pub(super) fn tokens(&self) -> Option<&'a RefCell<onpair::Memory>> {
        self.tokens
    }

    /// The same like an earlier page, as far as that goes.
    pub(super) fn guided_by(self, guide: &'a Guide<'a>) -> Self {
        Self { guide: Some(guide), ..self }
    }

    /// Whose values these are in that.
    pub(super) fn whose(&self) -> Whose {
        if self.is_child { Whose::Rest } else { Whose::Page }
    }

    /// The same without patches in frames: for patches.
    pub(super) fn unpatched(self) -> Self {
        Self { patched: false, ..self }
    }

    /// For the positions of patches, which ascend in small steps. Trees without runs have room for that.
    pub(super) fn of_positions(&self) -> Self {
        let has_room = self.ruled_out & bit(EncodingId::RunLength) == 0;
        let child = self.child(&[EncodingId::Dictionary, EncodingId::RunLength, EncodingId::Delta, EncodingId::Planes]).unpatched();
        Self { ruled_out: if has_room { child.ruled_out & !bit(EncodingId::Delta) } else { child.ruled_out }, ..child }
    }

    /// Whether a frame may have patches.
    pub(super) fn may_patch(&self) -> bool {
        self.patched
    }

    /// Whether the encoding has to do what it can, useful or not.
    pub(super) fn is_forced(&self) -> bool {
        self.forced.is_some()
    }

    /// Whether a value is a null's, and may be anything.
    pub(super) fn is_null(&self, index: usize) -> bool {
        self.validity.is_some_and(|validity| validity.is_null(index))
    }

    /// A buffer of these bytes, compressed if that pays.
    pub(super) fn buffer(&self, raw: Vec<u8>, kind: Kind) -> EncodedBuffer {
        EncodedBuffer::new(raw, kind, self.goal)
    }

    /// Encodes in what an earlier page was encoded in, if there is one that suits, or in what is cheapest.
    pub(super) fn encode(&self, values: &Values) -> Result<EncodedNode> {
        let Some(guide) = self.guide else { return self.encode_anew(values) };
        let node = match guide.enter(values.ptype()) {
            Some(encoding) if self.suits(encoding, values) => encoding.implementation().encode(values, self)?,
            _ => None,
        };
        let node = node.map_or_else(
            || {
                guide.stray();
                self.encode_anew(values)
            },
            Ok,
        );
        guide.leave();
        node
    }

    /// Whether an encoding may be taken without a look at the others. Nothing beats saying values that are all the same once.
    fn suits(&self, encoding: EncodingId, values: &Values) -> bool {
        let is_allowed = self.ruled_out & bit(encoding) == 0;
        is_allowed && (encoding == EncodingId::Constant || self.ruled_out & bit(EncodingId::Constant) != 0 || !super::constant::is_constant(values))
    }

    /// Encodes in what is cheapest.
    fn encode_anew(&self, values: &Values) -> Result<EncodedNode> {
        if let Some(forced) = self.forced {
            let node = forced.implementation().encode(values, self)?;
            return node.ok_or_else(|| Error::invalid_argument(format!("{} cannot encode these values", forced.name())));
        }
        for (_, encoding) in self.bids(values)? {
            if let Some(node) = encoding.implementation().encode(values, self)? {
                return Ok(node);
            }
        }
        let last = if values.ptype() == PType::Bool { EncodingId::Bitmap } else { EncodingId::Plain };
        let node = last.implementation().encode(values, self)?;
        node.ok_or_else(|| Error::invalid_argument("these values have no encoding"))
    }

    /// What the cost of encodings is judged by.
    pub(super) fn sample<'v>(&self, values: &'v Values) -> Result<Sample<'v>>
    where
        'a: 'v,
    {
        Sample::of(values, self.validity, self.goal)
    }

    /// What the cheapest encoding would cost.
    pub(super) fn least_cost(&self, values: &Values) -> Result<f64> {
        Ok(self.bids(values)?.first().map_or(0.0, |(cost, _)| *cost))
    }

    /// What the encodings that are of use would cost, the cheapest first.
    fn bids(&self, values: &Values) -> Result<Vec<(f64, EncodingId)>> {
        let sample = self.sample(values)?;
        // Nothing beats saying it once, and then nothing else has to be looked at.
        if EncodingId::Constant.implementation().estimate(&sample).is_some() && super::constant::is_constant(values) {
            return Ok(vec![(0.0, EncodingId::Constant)]);
        }
        let allowed = EncodingId::ALL.iter().filter(|encoding| self.ruled_out & bit(**encoding) == 0);
        let bids = allowed.filter_map(|&encoding| Some((encoding.implementation().estimate(&sample)?.total(self.goal.compression), encoding)));
        let mut bids: Vec<_> = bids.collect();
        bids.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        Ok(bids)
    }
}

fn bit(encoding: EncodingId) -> u32 {
    1 << encoding.id()
}
