//! A reader of pages written from the specification alone: every value by itself, no type but bytes, as slow as it is plain.

use super::Value;

struct Node {
    encoding: u8,
    ptype: u8,
    count: usize,
    params: [u64; 2],
    buffers: Vec<Vec<u8>>,
    children: Vec<Node>,
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn index(bytes: &[u8]) -> usize {
    usize::try_from(number(bytes)).unwrap()
}

/// All values of a page.
pub(super) fn read_page(page: &[u8]) -> Vec<Value> {
    let tree_end = 16 + index(&page[12..16]);
    let mut at = 16;
    let root = read_node(page, &mut at, tree_end.next_multiple_of(8));
    assert_eq!(at, tree_end);
    values(&root)
}

fn read_node(page: &[u8], at: &mut usize, body: usize) -> Node {
    let header = &page[*at..*at + 24];
    *at += 24;
    let mut buffers = Vec::new();
    for _ in 0..header[3] {
        let descriptor = &page[*at..*at + 16];
        *at += 16;
        let start = body + index(&descriptor[..4]);
        let stored = &page[start..start + index(&descriptor[4..8])];
        let raw = if descriptor[12] == 1 { zstd::stream::decode_all(stored).unwrap() } else { stored.to_vec() };
        assert_eq!(raw.len(), index(&descriptor[8..12]));
        buffers.push(raw);
    }
    let children = (0..header[2]).map(|_| read_node(page, at, body)).collect();
    let params = [number(&header[8..16]), number(&header[16..24])];
    Node { encoding: header[0], ptype: header[1], count: index(&header[4..8]), params, buffers, children }
}

/// Bytes of a value; none for BOOL, which is one byte here, and BYTES.
fn width(ptype: u8) -> usize {
    [1, 1, 2, 4, 8, 16, 32, 1, 2, 4, 8, 2, 4, 8, 0][usize::from(ptype)]
}

fn values(node: &Node) -> Vec<Value> {
    let width = width(node.ptype);
    let found = match node.encoding {
        0 if width > 0 => node.buffers[0].chunks(width).map(<[u8]>::to_vec).collect(),
        0 => {
            let mut rest = node.buffers[0].as_slice();
            let mut next = |length: Value| rest.split_off(..index(&length)).unwrap().to_vec();
            values(&node.children[0]).into_iter().map(&mut next).collect()
        }
        1 if (1..=8).contains(&width) => vec![node.params[0].to_le_bytes()[..width].to_vec(); node.count],
        1 => vec![node.buffers[0].clone(); node.count],
        2 => {
            let (runs, ends) = (values(&node.children[0]), values(&node.children[1]));
            let ends: Vec<usize> = ends.iter().map(|end| index(end)).collect();
            (0..node.count).map(|at| runs[ends.iter().position(|&end| at < end).unwrap()].clone()).collect()
        }
        3 => {
            let entries = values(&node.children[1]);
            values(&node.children[0]).iter().map(|code| entries[index(code)].clone()).collect()
        }
        4 => frame(node, width),
        5 => {
            let (firsts, differences) = (values(&node.children[0]), values(&node.children[1]));
            let mut found: Vec<Value> = Vec::new();
            for (at, difference) in differences.iter().enumerate() {
                found.push(if at % 1024 == 0 { firsts[at / 1024].clone() } else { add(&found[at - 1], difference) });
            }
            found
        }
        6 => values(&node.children[0]).into_iter().map(|value| widen(value, node.children[0].ptype, width)).collect(),
        7 => (0..node.count).map(|at| vec![node.buffers[0][at / 8] >> (at % 8) & 1]).collect(),
        8 => alp(node),
        9 => {
            let (fronts, rests) = (values(&node.children[0]), values(&node.children[1]));
            let join = |(front, rest): (&Value, &Value)| (number(front) << node.params[0] | number(rest)).to_le_bytes()[..width].to_vec();
            fronts.iter().zip(&rests).map(join).collect()
        }
        11 => {
            let reference = node.params[0].to_le_bytes()[..width].to_vec();
            let difference = |at: usize| (0..width).map(|place| node.buffers.get(place).map_or(0, |plane| plane[at])).collect::<Value>();
            (0..node.count).map(|at| add(&reference, &difference(at))).collect()
        }
        12 => {
            let (marks, mut others) = (values(&node.children[0]), values(&node.children[1]).into_iter());
            let numbers = std::iter::successors(Some(node.params[0]), |number| Some(number.wrapping_add(1)));
            let mut new = numbers.map(|number| number.to_le_bytes()[..width].to_vec());
            let found = marks.iter().map(|mark| if mark[0] == 1 { new.next() } else { others.next() }.unwrap()).collect();
            assert_eq!(others.next(), None);
            found
        }
        10 => onpair_lengths(node),
        13 => onpair(node),
        other => unreachable!("encoding {other}"),
    };
    assert_eq!(found.len(), node.count);
    found
}

/// Bit by bit, from the formula of section 7.
fn frame(node: &Node, width: usize) -> Vec<Value> {
    const O: [usize; 8] = [0, 4, 2, 6, 1, 5, 3, 7];
    let t = width * 8;
    let lanes = 1024 / t;
    let w = usize::try_from(node.params[1] & 255).unwrap();
    let reference = &node.params[0].to_le_bytes()[..width];
    let mut found = vec![Vec::new(); node.count.next_multiple_of(1024)];
    for (block, packed) in found.chunks_mut(1024).enumerate().map(|(at, block)| (block, &node.buffers[0][at * 128 * w..(at + 1) * 128 * w])) {
        for (r, l) in (0..t).flat_map(|r| (0..lanes).map(move |l| (r, l))) {
            let mut value = 0u64;
            for bit in 0..w {
                let (word, shift) = ((r * w + bit) / t, (r * w + bit) % t);
                let byte = packed[(word * lanes + l) * width + shift / 8];
                value |= u64::from(byte >> (shift % 8) & 1) << bit;
            }
            block[O[r / 8] * 16 + (r % 8) * 128 + l] = add(&value.to_le_bytes()[..width], reference);
        }
    }
    found.truncate(node.count);
    patch(&mut found, node, 0);
    found
}

/// Puts the patches that begin with the child of this index over the values.
fn patch(found: &mut [Value], node: &Node, child: usize) {
    if node.params[1] >> 32 > 0 {
        for (position, value) in values(&node.children[child]).iter().zip(values(&node.children[child + 1])) {
            found[index(position)] = value;
        }
    }
}

/// Powers of ten by way of their text.
fn alp(node: &Node) -> Vec<Value> {
    let (exponent, factor) = (node.params[0] & 255, node.params[0] >> 8);
    let (up, down) = (format!("1e{factor}"), format!("1e-{exponent}"));
    let single = |n: &Value| i32::from_le_bytes(n[..].try_into().unwrap()) as f32 * up.parse::<f32>().unwrap() * down.parse::<f32>().unwrap();
    let double = |n: &Value| i64::from_le_bytes(n[..].try_into().unwrap()) as f64 * up.parse::<f64>().unwrap() * down.parse::<f64>().unwrap();
    let value = |n: &Value| if n.len() == 4 { single(n).to_le_bytes().to_vec() } else { double(n).to_le_bytes().to_vec() };
    let mut found: Vec<Value> = values(&node.children[0]).iter().map(value).collect();
    patch(&mut found, node, 1);
    found
}

fn tokens(node: &Node) -> Vec<&[u8]> {
    let mut rest = node.buffers[0].as_slice();
    let tokens: Vec<&[u8]> = values(&node.children[0]).iter().map(|length| rest.split_off(..index(length)).unwrap()).collect();
    assert!(rest.is_empty() && tokens.iter().all(|token| (1..=16).contains(&token.len())));
    tokens
}

/// All text, and then value by value; blocks matter only to who skips some.
fn onpair_lengths(node: &Node) -> Vec<Value> {
    let tokens = tokens(node);
    let mut text = values(&node.children[1]).iter().flat_map(|code| tokens[index(code)].to_vec()).collect::<Vec<_>>();
    let found = values(&node.children[2]).iter().map(|length| text.drain(..index(length)).collect()).collect();
    assert!(text.is_empty());
    found
}

/// Value by value; blocks matter only to who skips some.
fn onpair(node: &Node) -> Vec<Value> {
    let tokens = tokens(node);
    let codes = values(&node.children[1]);
    let starts = values(&node.children[3]);
    let mut next = 0;
    let value_of = |(number, count): (usize, &Value)| {
        if number % 1024 == 0 {
            assert_eq!(index(&starts[number / 1024]), next);
        }
        next += index(count);
        codes[next - index(count)..next].iter().flat_map(|code| tokens[index(code)].to_vec()).collect()
    };
    let found = values(&node.children[2]).iter().enumerate().map(value_of).collect();
    assert_eq!(next, codes.len());
    found
}

/// The sum, wrapping in the width of both.
fn add(a: &[u8], b: &[u8]) -> Value {
    number(a).wrapping_add(number(b)).to_le_bytes()[..a.len()].to_vec()
}

fn widen(mut value: Value, ptype: u8, width: usize) -> Value {
    let is_negative = (1..=6).contains(&ptype) && value.last().unwrap() & 0x80 != 0;
    value.resize(width, if is_negative { 0xFF } else { 0 });
    value
}
