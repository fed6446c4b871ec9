//! Files made from the specification alone, byte by byte, with nothing of the writer: what another implementation would write, and what it should not.

use bytes::Bytes;

pub(crate) const BOOL: u8 = 0;
pub(crate) const I8: u8 = 1;
pub(crate) const I64: u8 = 4;
pub(crate) const I256: u8 = 6;
pub(crate) const U8: u8 = 7;
pub(crate) const U32: u8 = 9;
pub(crate) const BYTES: u8 = 14;

pub(crate) const PLAIN: u8 = 0;
pub(crate) const CONSTANT: u8 = 1;
pub(crate) const RUN_LENGTH: u8 = 2;
pub(crate) const DICTIONARY: u8 = 3;
pub(crate) const FRAME: u8 = 4;
pub(crate) const DELTA: u8 = 5;
pub(crate) const NARROW: u8 = 6;
pub(crate) const BITMAP: u8 = 7;

/// A node of an encoding tree, with the bytes of its buffers.
#[derive(Clone, Default)]
pub(crate) struct Tree {
    pub(crate) encoding: u8,
    pub(crate) ptype: u8,
    pub(crate) count: u32,
    pub(crate) params: [u64; 2],
    pub(crate) buffers: Vec<Vec<u8>>,
    pub(crate) children: Vec<Tree>,
}

impl Tree {
    pub(crate) fn new(encoding: u8, ptype: u8, count: u32) -> Self {
        Self { encoding, ptype, count, ..Self::default() }
    }

    /// One value of at most eight bytes.
    pub(crate) fn constant(ptype: u8, count: u32, value: u64) -> Self {
        Self { params: [value, 0], ..Self::new(CONSTANT, ptype, count) }
    }

    /// One value of more bytes, or of BYTES.
    pub(crate) fn constant_bytes(ptype: u8, count: u32, value: &[u8]) -> Self {
        Self { buffers: vec![value.to_vec()], ..Self::new(CONSTANT, ptype, count) }
    }

    pub(crate) fn plain<const N: usize>(ptype: u8, values: &[[u8; N]]) -> Self {
        Self { buffers: vec![values.concat()], ..Self::new(PLAIN, ptype, u32_of(values.len())) }
    }

    pub(crate) fn plain_i64(values: &[i64]) -> Self {
        Self::plain(I64, &values.iter().map(|value| value.to_le_bytes()).collect::<Vec<_>>())
    }

    pub(crate) fn plain_u32(values: &[u32]) -> Self {
        Self::plain(U32, &values.iter().map(|value| value.to_le_bytes()).collect::<Vec<_>>())
    }

    /// Values of BYTES.
    pub(crate) fn text(values: &[&[u8]]) -> Self {
        let lengths: Vec<u32> = values.iter().map(|value| u32_of(value.len())).collect();
        Self::new(PLAIN, BYTES, u32_of(values.len())).with(values.concat(), vec![Self::plain_u32(&lengths)])
    }

    /// Bits, the first one lowest.
    pub(crate) fn bits(bits: &[u8]) -> Self {
        let bytes = bits.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | bit)).collect();
        Self::new(BITMAP, BOOL, u32_of(bits.len())).with(bytes, Vec::new())
    }

    /// The same with a buffer and children.
    pub(crate) fn with(self, buffer: Vec<u8>, children: Vec<Tree>) -> Self {
        Self { buffers: vec![buffer], children, ..self }
    }

    pub(crate) fn of(self, children: Vec<Tree>) -> Self {
        Self { children, ..self }
    }

    fn write(&self, tree: &mut Vec<u8>, body: &mut Vec<u8>) {
        tree.extend([self.encoding, self.ptype, u8::try_from(self.children.len()).unwrap(), u8::try_from(self.buffers.len()).unwrap()]);
        tree.extend(self.count.to_le_bytes());
        self.params.iter().for_each(|param| tree.extend(param.to_le_bytes()));
        for buffer in &self.buffers {
            tree.extend([u32_of(body.len()), u32_of(buffer.len()), u32_of(buffer.len()), 0].iter().flat_map(|n| n.to_le_bytes()));
            body.extend(buffer);
            pad8(body);
        }
        self.children.iter().for_each(|child| child.write(tree, body));
    }

    /// A page of these values; `rows` is `count`, or one less in an OFFSETS stream.
    pub(crate) fn page(&self, rows: u32) -> Vec<u8> {
        let (mut tree, mut body) = (Vec::new(), Vec::new());
        self.write(&mut tree, &mut body);
        let tree_length = u32_of(tree.len());
        pad8(&mut tree);
        let mut page = [0, u32_of(16 + tree.len() + body.len()), rows, tree_length].iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
        page.extend(tree);
        page.extend(body);
        let crc = crc32(&page[4..]);
        page[..4].copy_from_slice(&crc.to_le_bytes());
        page
    }
}

/// A stream: its number (0 VALIDITY, 1 OFFSETS, 2 DATA), and its pages in the only stripe. Without any it is `USE_DEFAULT`.
pub(crate) struct Stream(pub(crate) u8, pub(crate) Vec<Vec<u8>>);

pub(crate) fn valid() -> Stream {
    Stream(0, Vec::new())
}

pub(crate) fn data(tree: &Tree) -> Stream {
    Stream(2, vec![tree.page(tree.count)])
}

pub(crate) fn validity(bits: &[u8]) -> Stream {
    Stream(0, vec![Tree::bits(bits).page(u32_of(bits.len()))])
}

pub(crate) fn offsets(ends: &[i64]) -> Stream {
    Stream(1, vec![Tree::plain_i64(ends).page(u32_of(ends.len() - 1))])
}

/// A node of the schema.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) name: &'static str,
    pub(crate) id: u16,
    pub(crate) nullable: bool,
    pub(crate) params: [i32; 2],
    pub(crate) tag: i32,
    pub(crate) children: Vec<Node>,
}

impl Node {
    pub(crate) fn new(name: &'static str, id: u16, children: Vec<Node>) -> Self {
        Self { name, id, nullable: true, params: [0; 2], tag: 0, children }
    }

    pub(crate) fn params(self, param0: i32, param1: i32) -> Self {
        Self { params: [param0, param1], ..self }
    }

    pub(crate) fn required(self) -> Self {
        Self { nullable: false, ..self }
    }

    pub(crate) fn tag(self, tag: i32) -> Self {
        Self { tag, ..self }
    }
}

/// A column; without streams it is null in every row and has no CMB.
pub(crate) struct Column(pub(crate) Node, pub(crate) Vec<Stream>);

/// A file of one stripe.
pub(crate) fn file(rows: u32, columns: Vec<Column>) -> Bytes {
    file_with(rows, columns, true)
}

/// The same with a CIT or without.
pub(crate) fn file_with(rows: u32, columns: Vec<Column>, has_cit: bool) -> Bytes {
    let mut out = b"FERMION1".to_vec();
    let mut chunks: Vec<Vec<(u64, u32)>> = Vec::new();
    for Column(_, streams) in &columns {
        let place = |Stream(_, pages): &Stream| {
            let start = out.len() as u64;
            pages.iter().for_each(|page| out.extend(page));
            (start, u32_of(out.len()) - u32::try_from(start).unwrap())
        };
        chunks.push(streams.iter().map(place).collect());
    }
    let data_end = out.len() as u64;
    let mut cit = Vec::new();
    for (Column(_, streams), chunks) in columns.iter().zip(&chunks) {
        cit.extend((out.len() as u64).to_le_bytes());
        let mut cmb = cmb(rows, streams, chunks);
        if !has_cit {
            let length = cmb.len().max(8);
            cmb.truncate(length - 4);
            cmb.resize(length - 4, 0);
            cmb.extend(u32_of(length).to_le_bytes());
        }
        out.extend(cmb);
    }
    let schema_start = out.len() as u64;
    let nodes: Vec<Node> = columns.into_iter().map(|column| column.0).collect();
    let schema = schema(nodes.clone());
    let stripes: Vec<u8> = [8, data_end - 8, u64::from(rows)].iter().flat_map(|n| n.to_le_bytes()).collect();
    out.extend(&schema);
    let cit_start = if has_cit { out.len() as u64 } else { data_end };
    out.extend(if has_cit { cit.as_slice() } else { &[] });
    let stripes_start = out.len() as u64;
    out.extend(&stripes);
    let mut footer: Vec<u8> = [schema_start, cit_start, data_end, stripes_start, u64::from(rows), 1 << 32 | u64::from(!has_cit) << 1]
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    let numbers = [u32_of(nodes.len()), 1, crc32(&schema), crc32(&cit), crc32(&stripes), 1];
    footer.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    footer.resize(116, 0);
    footer.extend(crc32(&footer).to_le_bytes());
    footer.extend(b"FERMION1");
    out.extend(footer);
    Bytes::from(out)
}

fn cmb(rows: u32, streams: &[Stream], chunks: &[(u64, u32)]) -> Vec<u8> {
    if streams.is_empty() {
        return Vec::new();
    }
    let mut out: Vec<u8> = [u32_of(streams.len()), 1, rows, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
    let mut descriptor = 16 + 8 * u32_of(streams.len());
    for Stream(kind, pages) in streams {
        let (desc_type, place) = if pages.is_empty() { (2, 0) } else { (0, descriptor) };
        out.extend([desc_type, *kind, 0, 0]);
        out.extend(place.to_le_bytes());
        descriptor += if pages.is_empty() { 0 } else { 16 };
    }
    for (Stream(_, pages), (start, length)) in streams.iter().zip(chunks) {
        if !pages.is_empty() {
            out.extend(start.to_le_bytes());
            out.extend(u64::from(*length).to_le_bytes());
        }
    }
    out.extend(u64::from(crc32(&out)).to_le_bytes());
    out
}

fn schema(columns: Vec<Node>) -> Vec<u8> {
    let field_count = u32_of(columns.len());
    let (mut queue, mut index) = (columns, 0);
    let (mut nodes, mut strings) = (Vec::<u8>::new(), Vec::<u8>::new());
    while let Some(node) = queue.get(index).cloned() {
        let child_start = if node.children.is_empty() { 0 } else { u32_of(queue.len()) };
        let numbers = [u32_of(strings.len()), u32_of(node.name.len()), child_start, u32_of(node.children.len()), 0, 0];
        nodes.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
        nodes.extend([node.id, u16::from(node.nullable)].iter().flat_map(|n| n.to_le_bytes()));
        nodes.extend([node.params[0], node.params[1], node.tag].iter().flat_map(|n| n.to_le_bytes()));
        strings.extend(node.name.as_bytes());
        queue.extend(node.children);
        index += 1;
    }
    let mut out: Vec<u8> = [field_count, u32_of(queue.len()), 0, 0, u32_of(strings.len()), 0, 0, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
    out.extend(nodes);
    out.extend(strings);
    pad8(&mut out);
    out
}

/// IEEE 802.3, a bit at a time.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0_u32, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

fn pad8(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(8), 0);
}

fn u32_of(n: usize) -> u32 {
    u32::try_from(n).unwrap()
}
