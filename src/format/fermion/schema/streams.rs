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
    push_streams(data_type, Some(1), &mut out);
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

fn push_streams(data_type: &DataType, slots_per_row: Option<u64>, out: &mut Vec<Stream>) {
    use arrow::datatypes::UnionMode;
    let stream = |stream_type| Stream { stream_type, slots_per_row };
    match data_type {
        DataType::Null => {}
        DataType::Struct(fields) => {
            out.push(stream(StreamType::Validity));
            for field in fields {
                push_streams(field.data_type(), slots_per_row, out);
            }
        }
        DataType::List(child) | DataType::LargeList(child) | DataType::ListView(child) | DataType::LargeListView(child) | DataType::Map(child, _) => {
            out.extend([stream(StreamType::Validity), stream(StreamType::Offsets)]);
            push_streams(child.data_type(), None, out);
        }
        DataType::FixedSizeList(child, size) => {
            out.push(stream(StreamType::Validity));
            let size = u64::try_from(*size).ok();
            push_streams(child.data_type(), slots_per_row.zip(size).and_then(|(slots, size)| slots.checked_mul(size)), out);
        }
        DataType::Union(fields, mode) => {
            out.push(stream(StreamType::Data));
            let child_slots = if *mode == UnionMode::Sparse { slots_per_row } else { None };
            for (_, field) in fields.iter() {
                push_streams(field.data_type(), child_slots, out);
            }
        }
        DataType::Dictionary(_, value) => push_streams(value, slots_per_row, out),
        DataType::RunEndEncoded(_, values) => push_streams(values.data_type(), slots_per_row, out),
        _leaf => out.extend([stream(StreamType::Validity), stream(StreamType::Data)]),
    }
}
