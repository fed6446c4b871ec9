//! The streams that a type is split into, depth first.

use arrow::datatypes::DataType;

/// What a stream holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StreamType {
    /// A bit per slot: valid or null.
    Validity = 0,
    /// Where each list begins and ends.
    Offsets = 1,
    /// A value per slot.
    Data = 2,
    /// Ids or lengths of batches, of which no column has any.
    BatchMeta = 3,
}

/// A stream of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// What it holds.
    pub stream_type: StreamType,
    /// Its slots per row of the column: 1, or the product of the sizes of the fixed-size lists around it.
    /// `None` below a list, a map or a dense union, where only the data says.
    pub slots_per_row: Option<u64>,
}

/// The types of a column's streams, in their order in the file (SPEC section 4).
pub fn streams(data_type: &DataType) -> Vec<StreamType> {
    stream_layout(data_type).iter().map(|stream| stream.stream_type).collect()
}

/// How many streams a column of this type has.
pub fn stream_count(data_type: &DataType) -> usize {
    stream_layout(data_type).len()
}

/// A column's streams, in their order in the file (SPEC section 4).
pub fn stream_layout(data_type: &DataType) -> Vec<Stream> {
    let mut out = Vec::new();
    visit(data_type, Some(1), &mut |stream, _| out.push(stream));
    out
}

/// What a column's streams hold, and of streams of values, of which type those are.
pub fn stream_leaves(data_type: &DataType) -> Vec<(StreamType, Option<&DataType>)> {
    let mut out = Vec::new();
    visit(data_type, Some(1), &mut |stream, leaf| out.push((stream.stream_type, leaf)));
    out
}

/// The type of the values of a column that is a plain sequence of values: itself, or what a dictionary or run-end encoding holds.
/// Such a column has exactly the streams `VALIDITY` and `DATA`. `None` for null and nested types.
pub fn leaf_type(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::Dictionary(_, value) => leaf_type(value),
        DataType::RunEndEncoded(_, values) => leaf_type(values.data_type()),
        DataType::Null => None,
        nested if nested.is_nested() => None,
        leaf => Some(leaf),
    }
}

fn visit<'a>(data_type: &'a DataType, slots_per_row: Option<u64>, see: &mut impl FnMut(Stream, Option<&'a DataType>)) {
    use arrow::datatypes::UnionMode;
    let stream = |stream_type| Stream { stream_type, slots_per_row };
    match data_type {
        DataType::Null => {}
        DataType::Struct(fields) => {
            see(stream(StreamType::Validity), None);
            for field in fields {
                visit(field.data_type(), slots_per_row, see);
            }
        }
        DataType::List(child) | DataType::LargeList(child) | DataType::ListView(child) | DataType::LargeListView(child) | DataType::Map(child, _) => {
            see(stream(StreamType::Validity), None);
            see(stream(StreamType::Offsets), None);
            visit(child.data_type(), None, see);
        }
        DataType::FixedSizeList(child, size) => {
            see(stream(StreamType::Validity), None);
            let size = u64::try_from(*size).ok();
            visit(child.data_type(), slots_per_row.zip(size).and_then(|(slots, size)| slots.checked_mul(size)), see);
        }
        DataType::Union(fields, mode) => {
            see(stream(StreamType::Data), None);
            let child_slots = if *mode == UnionMode::Sparse { slots_per_row } else { None };
            for (_, field) in fields.iter() {
                visit(field.data_type(), child_slots, see);
            }
        }
        DataType::Dictionary(_, value) => visit(value, slots_per_row, see),
        DataType::RunEndEncoded(_, values) => visit(values.data_type(), slots_per_row, see),
        leaf => {
            see(stream(StreamType::Validity), None);
            see(stream(StreamType::Data), Some(leaf));
        }
    }
}
