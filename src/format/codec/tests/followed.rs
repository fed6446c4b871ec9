//! Pages that come behind others, whatever those were.

use bytes::Bytes;

use super::super::{EncodeOptions, EncodingTree, Memory, PType, Values, encode, encode_next};
use super::{cases, decode, expect, naive, to_list};
use crate::format::fermion::page::{Page, write_page};

struct Read {
    memory: Memory,
    size: usize,
    /// Its size without others.
    alone: usize,
}

/// Encodes a page behind those that the memory is of, and reads it back.
fn check(name: &str, values: &Values, memory: &Memory) -> Read {
    let (encoded, memory) = encode_next(values, None, &EncodeOptions::default(), memory).unwrap();
    let tree = EncodingTree::read(encoded.tree()).unwrap();
    let bytes = Bytes::from(write_page(&encoded, u32::try_from(values.len()).unwrap(), true));
    let page = Page::open(&bytes, &expect(values)).unwrap();
    let expected = to_list(values);
    assert_eq!(decode(&page, values.ptype(), std::slice::from_ref(&(0..values.len()))), expected, "{name}\n{tree}");
    assert_eq!(naive::read_page(&bytes), expected, "{name}\n{tree}");
    let alone = encode(values, None, &EncodeOptions::default()).unwrap();
    Read { memory, size: encoded.size(), alone: alone.size() }
}

/// Those of as many values: others are no example.
fn some(cases: Vec<(String, Values)>) -> Vec<(String, Values)> {
    cases.into_iter().filter(|(_, values)| values.len() == 1025).collect()
}

fn check_pairs(cases: &[(String, Values)]) {
    for (first, before) in cases {
        let alone = check(first, before, &Memory::default());
        let Read { memory, size: example, .. } = check(first, before, &alone.memory);
        for (second, values) in cases {
            let name = format!("{second} behind {first}");
            let Read { size, alone, .. } = check(&name, values, &memory);
            // Whatever it takes by itself, it is no larger than the page that it is encoded like.
            let like = example * values.len() / before.len().max(1) * 5 / 4 + 64;
            assert!(size == alone || size <= like, "{name}: {size} bytes instead of {alone}, or {like} like the other");
        }
    }
    let mut memory = Memory::default();
    for (name, values) in cases {
        memory = check(name, values, &memory).memory;
    }
}

#[test]
fn pages_come_back_whatever_came_before() {
    for ptype in [PType::I64, PType::U16, PType::F64] {
        check_pairs(&some(cases::numbers(ptype)));
    }
    check_pairs(&some(cases::booleans()));
    check_pairs(&some(cases::strings()));
}
