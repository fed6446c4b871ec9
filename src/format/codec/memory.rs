//! What pages of a stream know from those before them: how they were encoded, and the tokens that their text was written in.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::Arc;

use super::choose::Context;
use super::node::EncodedNode;
use super::sample::real;
use super::{EncodingId, PType, Values, onpair};
use crate::format::Result;

/// Rounds of pages that are encoded like one before them, until encodings bid again.
const FOLLOWERS: u8 = 16;
/// A page that takes so many times the bytes of its example for each value, or less than that part of them, is encoded anew: its values are other than those were.
const LIKE: Range<f64> = 0.85..1.15;
/// A page of more than so many times the values, or of less than that part of them, is not like its example.
const OTHER_SIZE: usize = 2;

/// What was learnt from the pages before, for those behind them are often like them.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    tokens: onpair::Memory,
    example: Option<Arc<Example>>,
    /// How many rounds of pages have been encoded like it.
    followers: u8,
}

/// A page that others may be encoded like.
#[derive(Debug, PartialEq)]
struct Example {
    shape: Box<Shape>,
    count: usize,
    /// Bytes for each value.
    rate: f64,
    /// The example before it had the same shape: where pages take turns, each is better judged by itself.
    is_usual: bool,
}

/// Which encodings a node and those below it have, each node before its children.
type Shape = [Step];

#[derive(Debug, PartialEq)]
struct Step {
    encoding: EncodingId,
    ptype: PType,
    /// The first step behind its children.
    end: u8,
}

impl Memory {
    /// What pages that all knew the same know together.
    #[must_use]
    pub fn join(&self, pages: &[Self]) -> Self {
        let tokens: Vec<_> = pages.iter().map(|page| page.tokens.clone()).collect();
        // The last page may be what a round leaves over.
        let count = |page: &&Self| page.example.as_ref().map_or(0, |example| example.count);
        let largest = pages.iter().max_by_key(count).unwrap_or(self);
        Self { tokens: self.tokens.join(&tokens), example: largest.example.clone(), followers: largest.followers }
    }

    /// Bytes in memory.
    pub(crate) fn memory_size(&self) -> usize {
        let example = self.example.as_ref().map_or(0, |example| size_of::<Example>() + size_of_val(&*example.shape));
        self.tokens.memory_size() + example
    }

    /// Encodes values of a page: like the pages before, where that does. And what is to be remembered for those behind it.
    pub(super) fn encode<'a>(&'a self, values: &Values, context: Context<'a>) -> Result<(EncodedNode, Self)> {
        let mut next = self.clone();
        let tokens = RefCell::new(std::mem::take(&mut next.tokens));
        let context = context.with_tokens(&tokens);
        let guide = self.shape(values.len()).map(Guide::new);
        let like = guide.as_ref().map(|guide| context.guided_by(guide).encode(values)).transpose()?;
        let is_anew = guide.as_ref().is_some_and(|guide| guide.is_all_astray.get());
        let node = match like {
            Some(node) if is_anew => {
                next.learn(&node);
                node
            }
            Some(node) if next.follow(&node) => node,
            _ => {
                let node = context.encode(values)?;
                next.learn(&node);
                node
            }
        };
        next.tokens = tokens.take();
        Ok((node, next))
    }

    /// What a page of so many values is to be encoded like, if it is not to be found out anew.
    fn shape(&self, count: usize) -> Option<&Shape> {
        let example = self.example.as_deref().filter(|example| example.is_usual && self.followers < FOLLOWERS)?;
        let is_like = count <= example.count.saturating_mul(OTHER_SIZE) && example.count <= count.saturating_mul(OTHER_SIZE);
        is_like.then_some(&example.shape)
    }

    /// Takes note of a page that was encoded like the example as far as that went. `false` if it is not like it, and is to be encoded anew.
    fn follow(&mut self, node: &EncodedNode) -> bool {
        let Some(example) = &self.example else { return false };
        let is_like = LIKE.contains(&(rate_of(node) / example.rate));
        self.followers += u8::from(is_like);
        is_like
    }

    /// Takes note of a page for which encodings have bid.
    fn learn(&mut self, node: &EncodedNode) {
        let mut steps = Vec::new();
        add_steps(node, &mut steps);
        let is_usual = self.example.as_ref().is_some_and(|example| *example.shape == *steps);
        self.example = Some(Arc::new(Example { shape: steps.into(), count: node.count, rate: rate_of(node), is_usual }));
        self.followers = 0;
    }
}

impl Step {
    /// Text for which tokens did not pay, though they may for the next page's. In about as many bytes it takes longer to read, and its rate does not tell.
    fn is_text_as_it_is(&self) -> bool {
        self.encoding == EncodingId::Plain && self.ptype == PType::Bytes
    }
}

fn add_steps(node: &EncodedNode, steps: &mut Vec<Step>) {
    let index = steps.len();
    steps.push(Step { encoding: node.encoding, ptype: node.ptype, end: 0 });
    node.children.iter().for_each(|child| add_steps(child, steps));
    // A tree has far fewer nodes.
    steps[index].end = u8::try_from(steps.len()).unwrap_or(u8::MAX);
}

fn rate_of(node: &EncodedNode) -> f64 {
    real(node.size()) / real(node.count.max(1))
}

/// The way through a shape while values are encoded. A node's children are encoded in the order in which it has them.
#[derive(Debug)]
pub(super) struct Guide<'a> {
    shape: &'a Shape,
    /// The nodes that are being encoded, those on top first: the steps of the children that each still has. `None` for one that the shape does not have.
    path: RefCell<Vec<Option<Range<usize>>>>,
    /// The root was encoded in something else, and so was all below it.
    is_all_astray: Cell<bool>,
}

impl<'a> Guide<'a> {
    fn new(shape: &'a Shape) -> Self {
        Self { shape, path: RefCell::default(), is_all_astray: Cell::new(false) }
    }

    /// Goes to the next child of the node that is being encoded, or to the root: what it is encoded in, if the shape has one of that type there.
    pub(super) fn enter(&self, ptype: PType) -> Option<EncodingId> {
        let mut path = self.path.borrow_mut();
        let mut root = Some(0..self.shape.len());
        let left = path.last_mut().unwrap_or(&mut root);
        let (mut encoding, mut children) = (None, None);
        if let Some((left, step)) = left.as_mut().and_then(|left| self.shape.get(left.clone())?.first().map(|step| (left, step))) {
            if step.ptype == ptype && !step.is_text_as_it_is() {
                (encoding, children) = (Some(step.encoding), Some(left.start + 1..usize::from(step.end)));
            }
            left.start = usize::from(step.end);
        }
        path.push(children);
        encoding
    }

    /// The node is encoded in something else, and so are those below it.
    pub(super) fn stray(&self) {
        let mut path = self.path.borrow_mut();
        self.is_all_astray.set(self.is_all_astray.get() || path.len() == 1);
        if let Some(last) = path.last_mut() {
            *last = None;
        }
    }

    /// Goes back to the node above.
    pub(super) fn leave(&self) {
        self.path.borrow_mut().pop();
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;
    use arrow::buffer::Buffer;

    use super::*;
    use crate::format::codec::{EncodeOptions, Encoded, EncodingTree};

    fn numbers(numbers: Vec<u32>) -> Values {
        Values::Fixed { ptype: PType::U32, bytes: Buffer::from_vec(numbers) }
    }

    /// Numbers below a power of two, in no order.
    fn noise(count: u32, bits: u32, seed: u32) -> Values {
        numbers((0..count).map(|index| (index + seed).wrapping_mul(0x9E37_79B9) >> (32 - bits)).collect())
    }

    fn next(memory: &Memory, values: &Values) -> (EncodingTree, Memory) {
        let (node, memory) = memory.encode(values, Context::root(&EncodeOptions::default(), None)).unwrap();
        assert_eq!(Encoded::new(node.clone()).unwrap().size().next_multiple_of(8), node.size().next_multiple_of(8));
        (EncodingTree::read(Encoded::new(node).unwrap().tree()).unwrap(), memory)
    }

    /// What two such pages leave behind.
    fn usual(values: &Values) -> Memory {
        next(&next(&Memory::default(), values).1, values).1
    }

    /// Takes a page, and says whether it was encoded like one before.
    fn follows(memory: &mut Memory, values: &Values) -> bool {
        let before = memory.followers;
        *memory = next(memory, values).1;
        memory.followers > before
    }

    #[test]
    fn pages_follow_their_example_for_a_while() {
        let mut memory = Memory::default();
        let followed: Vec<bool> = (0..40).map(|seed| follows(&mut memory, &noise(4096, 9, seed))).collect();
        // Not the second, which shows that the first was no exception.
        let expected: Vec<bool> = (0..40).map(|page| page > 1 && page % 17 != 1).collect();
        assert_eq!(followed, expected);
    }

    #[test]
    fn pages_unlike_their_example_are_encoded_anew() {
        let example = usual(&noise(4096, 9, 0));
        let after = |values: &Values| {
            let mut memory = example.clone();
            (follows(&mut memory, values), memory.followers)
        };
        // Numbers as wide as these.
        assert_eq!([7, 9, 10, 11].map(|bits| after(&noise(4096, bits, 1))), [(false, 0), (true, 1), (true, 1), (false, 0)]);
        assert_eq!([2047, 2048, 8192, 8193].map(|count| after(&noise(count, 9, 1)).0), [false, true, true, false]);
        let (tree, memory) = next(&example, &numbers(vec![7; 4096]));
        assert_eq!((tree.encoding, memory.followers), (EncodingId::Constant, 0));
        let runs = numbers((0..4096).map(|row: u32| (row / 100).wrapping_mul(0x9E37_79B9)).collect());
        let (tree, memory) = next(&example, &runs);
        assert_eq!((&tree, memory.followers), (&next(&Memory::default(), &runs).0, 0));
        assert_eq!(tree.encoding, EncodingId::RunLength);
    }

    #[test]
    fn a_full_page_of_a_round_is_the_example() {
        let memory = usual(&noise(4096, 9, 0));
        let [near, far] = [9, 20].map(|bits| next(&memory, &noise(4096, bits, 1)).1);
        let joined = memory.join(&[far.clone(), near.clone()]);
        assert_eq!((&joined.example, joined.followers), (&memory.example, 1));
        let rest = next(&memory, &noise(500, 9, 2)).1;
        let joined = memory.join(&[near.clone(), near.clone(), rest]);
        assert_eq!((&joined.example, joined.followers), (&memory.example, 1));
        let joined = memory.join(&[near, far.clone()]);
        assert_eq!((&joined.example, joined.followers), (&far.example, 0));
        assert_ne!(joined.example, memory.example);
        assert_eq!(memory.join(&[]).example, memory.example);
        assert!(memory.memory_size() > 0 && Memory::default().memory_size() == 0);
    }

    #[test]
    fn pages_that_take_turns_follow_none() {
        let mut memory = Memory::default();
        let runs = numbers((0..4096).map(|row: u32| (row / 100).wrapping_mul(0x9E37_79B9)).collect());
        for page in 0..6 {
            assert!(!follows(&mut memory, &if page % 2 == 0 { noise(4096, 9, page) } else { runs.clone() }));
        }
    }

    #[test]
    fn a_page_of_another_type_is_the_next_example() {
        let memory = usual(&noise(4096, 9, 0));
        let texts = (0..4096).map(|row| format!("{row:05}: the same sentence, again and again"));
        let values = Values::Bytes(StringViewArray::from_iter_values(texts).to_binary_view());
        let (tree, after) = next(&memory, &values);
        assert_eq!(tree, next(&Memory::default(), &values).0);
        let example = after.example.as_ref().unwrap();
        assert_eq!((example.shape[0].ptype, after.followers), (PType::Bytes, 0));
        let guide = Guide::new(&example.shape);
        Context::root(&EncodeOptions::default(), None).guided_by(&guide).encode(&noise(4096, 9, 1)).unwrap();
        assert!(guide.is_all_astray.get());
    }

    #[test]
    fn a_guide_knows_the_way() {
        let step = |encoding, ptype, end| Step { encoding, ptype, end };
        let shape = [
            step(EncodingId::Dictionary, PType::Bytes, 5),
            step(EncodingId::RunLength, PType::U8, 4),
            step(EncodingId::Frame, PType::U8, 3),
            step(EncodingId::Delta, PType::U32, 4),
            step(EncodingId::OnPair, PType::Bytes, 5),
        ];
        let guide = Guide::new(&shape);
        assert_eq!(guide.enter(PType::Bytes), Some(EncodingId::Dictionary));
        assert_eq!(guide.enter(PType::U8), Some(EncodingId::RunLength));
        // A child of another type, and what is below it.
        assert_eq!((guide.enter(PType::U16), guide.enter(PType::U8)), (None, None));
        guide.leave();
        guide.leave();
        assert_eq!(guide.enter(PType::U32), Some(EncodingId::Delta));
        guide.leave();
        // One more than there was.
        assert_eq!(guide.enter(PType::U32), None);
        guide.leave();
        guide.leave();
        assert_eq!(guide.enter(PType::Bytes), Some(EncodingId::OnPair));
        guide.leave();
        guide.leave();

        let text = [step(EncodingId::Plain, PType::Bytes, 2), step(EncodingId::Frame, PType::U32, 2)];
        let guide = Guide::new(&text);
        assert_eq!((guide.enter(PType::Bytes), guide.enter(PType::U32)), (None, None));

        let guide = Guide::new(&shape);
        assert_eq!(guide.enter(PType::Bytes), Some(EncodingId::Dictionary));
        guide.stray();
        assert_eq!(guide.enter(PType::U8), None);
    }
}
