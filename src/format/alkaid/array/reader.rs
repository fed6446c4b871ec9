//! Walks a type depth first, and the nodes and buffers of a column with it.

use std::slice::Iter;
use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{
    Array, ArrayData, ArrayRef, BooleanArray, ByteView, FixedSizeBinaryArray, FixedSizeListArray, MAX_INLINE_VIEW_LEN, NullArray, StructArray,
    make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::compute::nullif;
use arrow::datatypes::{ArrowNativeType, DataType, FieldRef, Fields};
use bytes::Bytes;

use super::{binary, encoded, list, union};
use crate::format::alkaid::batch::{Node, ROWS_MAX};
use crate::format::alkaid::compress::Codec;
use crate::format::alkaid::schema::Shape;
use crate::format::alkaid::swap;
use crate::format::array::ROW_SLOTS_MAX;
use crate::format::error::{Error, Result};

/// The part of a record batch that is one column's, as it was fetched.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Slots that the batch says it has.
    pub(crate) rows: usize,
    pub(crate) nodes: Vec<Node>,
    /// And where each is in the file.
    pub(crate) buffers: Vec<(u64, Bytes)>,
    pub(crate) variadic: Vec<usize>,
}

/// How buffers are to be understood.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Encoding {
    pub(crate) codec: Option<Codec>,
    pub(crate) big_endian: bool,
    pub(crate) old_bitmaps: bool,
}

/// The values of dictionaries.
pub(crate) trait Dictionaries {
    /// Those of a dictionary; `None` where there are none, and codes of nulls only.
    fn values(&self, id: i64) -> Result<Option<ArrayRef>>;
}

/// The array of a column.
pub(crate) fn decode(loaded: &Loaded, encoding: Encoding, shape: &Shape, dictionaries: &dyn Dictionaries) -> Result<ArrayRef> {
    let Loaded { rows, nodes, buffers, variadic } = loaded;
    if let Some(column) = nodes.first() {
        column.check_rows(*rows)?;
    }
    let (nodes, buffers, variadic) = (nodes.iter(), buffers.iter(), variadic.iter());
    let mut reader = Reader { nodes, buffers, variadic, rows: *rows, encoding, dictionaries, place: None };
    let array = reader.array(shape);
    array.map_err(reader.here())
}

pub(super) struct Reader<'a> {
    nodes: Iter<'a, Node>,
    buffers: Iter<'a, (u64, Bytes)>,
    variadic: Iter<'a, usize>,
    rows: usize,
    encoding: Encoding,
    pub(super) dictionaries: &'a dyn Dictionaries,
    /// Where the last buffer is that was looked at.
    place: Option<u64>,
}

impl Reader<'_> {
    pub(super) fn array(&mut self, shape: &Shape) -> Result<ArrayRef> {
        use DataType::{
            Binary, BinaryView, Boolean, Dictionary, FixedSizeBinary, FixedSizeList, LargeBinary, LargeList, LargeListView, LargeUtf8, List,
            ListView, Map, Null, RunEndEncoded, Struct, Union, Utf8, Utf8View,
        };
        let node = *self.nodes.next().ok_or_else(|| Error::invalid_file("a batch has too few fields"))?;
        if shape.is_counted {
            // Nobody asks which of them are null.
            return Ok(Arc::new(NullArray::new(node.length)));
        }
        self.check_slots(node, &shape.data_type)?;
        match &shape.data_type {
            Null => Ok(Arc::new(NullArray::new(node.length))),
            Boolean => self.booleans(node),
            FixedSizeBinary(width) => self.fixed_size_binary(node, *width),
            Utf8 | LargeUtf8 | Binary | LargeBinary => binary::with_offsets(self, node, &shape.data_type),
            Utf8View | BinaryView => binary::views(self, node, &shape.data_type),
            List(item) => list::list::<i32>(self, node, item, only_child(shape)?),
            LargeList(item) => list::list::<i64>(self, node, item, only_child(shape)?),
            ListView(item) => list::list_view::<i32>(self, node, item, only_child(shape)?),
            LargeListView(item) => list::list_view::<i64>(self, node, item, only_child(shape)?),
            Map(entries, sorted) => list::map(self, node, entries, *sorted, only_child(shape)?),
            FixedSizeList(item, size) => {
                let child = only_child(shape)?;
                if child.is_counted {
                    // Without values, no byte stands for the lists either.
                    self.check_slots(node, &Null)?;
                }
                self.fixed_size_list(node, item, *size, child)
            }
            Struct(fields) => self.structure(node, fields, shape),
            Union(fields, mode) => union::union(self, node, fields, *mode, shape),
            Dictionary(keys, values) => encoded::dictionary(self, node, shape, keys, values),
            RunEndEncoded(..) => encoded::runs(self, node, shape),
            fixed => self.fixed(node, fixed),
        }
    }

    /// Refuses slots that no byte stands for where there are more of them than rows: below a list they can be any number, and whoever asks which of them are null takes memory for all.
    fn check_slots(&self, node: Node, data_type: &DataType) -> Result<()> {
        let takes_bytes = match data_type {
            DataType::Null | DataType::RunEndEncoded(..) | DataType::FixedSizeBinary(0) | DataType::FixedSizeList(_, 0) => false,
            DataType::Struct(fields) => !fields.is_empty(),
            _ => true,
        };
        let most = ROW_SLOTS_MAX.max(self.rows.min(ROWS_MAX));
        if takes_bytes || node.length <= most {
            return Ok(());
        }
        Err(Error::invalid_file(format!("a field of {} slots that take no bytes; {most} are the most", node.length)))
    }

    /// Values of a width of their own.
    pub(super) fn fixed(&mut self, node: Node, data_type: &DataType) -> Result<ArrayRef> {
        let nulls = self.nulls(node)?;
        let width = data_type.primitive_width().ok_or_else(|| Error::unsupported(format!("values of {data_type} are not known")))?;
        let values = self.values(node.length, width, swap::units(data_type), "values")?;
        // Of the alignment that the widest of them asks for.
        let values = aligned(values, width.min(size_of::<i128>()));
        let data = ArrayData::builder(data_type.clone()).len(node.length).add_buffer(values).nulls(nulls);
        Ok(make_array(data.build()?))
    }

    fn booleans(&mut self, node: Node) -> Result<ArrayRef> {
        let nulls = self.nulls(node)?;
        Ok(Arc::new(BooleanArray::new(self.bits(node.length, "values")?, nulls)))
    }

    fn fixed_size_binary(&mut self, node: Node, width: i32) -> Result<ArrayRef> {
        let nulls = self.nulls(node)?;
        let bytes = usize::try_from(width).map_err(|_| Error::invalid_file("a width is negative"))?;
        let values = self.values(node.length, bytes, &[1], "values")?;
        Ok(Arc::new(FixedSizeBinaryArray::try_new_with_len(width, values, nulls, node.length)?))
    }

    fn fixed_size_list(&mut self, node: Node, item: &FieldRef, size: i32, child: &Shape) -> Result<ArrayRef> {
        let nulls = self.nulls(node)?;
        let wanted = usize::try_from(size).ok().and_then(|size| size.checked_mul(node.length));
        let values = first(self.array(child)?, wanted.unwrap_or(usize::MAX), "a fixed-size list")?;
        Ok(Arc::new(FixedSizeListArray::try_new_with_length(Arc::clone(item), size, values, nulls, node.length)?))
    }

    fn structure(&mut self, node: Node, fields: &Fields, shape: &Shape) -> Result<ArrayRef> {
        let nulls = self.nulls(node)?;
        let children = shape.children.iter().map(|child| below(first(self.array(child)?, node.length, "a struct")?, nulls.as_ref()));
        let children = children.collect::<Result<_>>()?;
        Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), children, nulls, node.length)?))
    }

    /// Which slots are null. Who counted none need not have written which.
    pub(super) fn nulls(&mut self, node: Node) -> Result<Option<NullBuffer>> {
        if node.null_count == Some(0) {
            self.next_buffer()?;
            return Ok(None);
        }
        if node.null_count.is_none() && self.buffers.as_slice().first().is_some_and(|(_, bytes)| bytes.is_empty()) {
            self.next_buffer()?;
            return Ok(None);
        }
        let nulls = NullBuffer::new(self.bits(node.length, "validity")?);
        match node.null_count {
            Some(count) if count != nulls.null_count() => {
                Err(Error::invalid_file(format!("{count} nulls were counted and {} are there", nulls.null_count())))
            }
            _ => Ok(Some(nulls).filter(|nulls| nulls.null_count() > 0)),
        }
    }

    fn bits(&mut self, length: usize, what: &str) -> Result<BooleanBuffer> {
        let bytes = self.sized(length.div_ceil(8), what)?;
        Ok(BooleanBuffer::new(bytes, 0, length))
    }

    /// So many values of a width, little-endian.
    pub(super) fn values(&mut self, length: usize, width: usize, units: &[usize], what: &str) -> Result<Buffer> {
        let bytes = length.checked_mul(width).ok_or_else(|| Error::invalid_file(format!("{length} {what} of {width} bytes are too many")))?;
        let buffer = self.sized(bytes, what)?;
        Ok(if self.encoding.big_endian { swap::swapped(&buffer, units) } else { buffer })
    }

    /// So many numbers, in their place.
    pub(super) fn numbers<T: ArrowNativeType>(&mut self, length: usize, what: &str) -> Result<ScalarBuffer<T>> {
        let buffer = self.values(length, size_of::<T>(), &[size_of::<T>()], what)?;
        Ok(aligned(buffer, align_of::<T>()).into())
    }

    /// The n + 1 offsets of n slots; of none, there may be none, or one into a child that was cut off.
    pub(super) fn offsets<T: ArrowNativeType>(&mut self, length: usize) -> Result<ScalarBuffer<T>> {
        if length == 0 {
            self.next_buffer()?;
            return Ok(vec![T::default()].into());
        }
        let count = length.checked_add(1).ok_or_else(|| Error::invalid_file("a field has too many slots"))?;
        self.numbers(count, "offsets")
    }

    /// Views, which are numbers and bytes.
    pub(super) fn raw_views(&mut self, length: usize) -> Result<ScalarBuffer<u128>> {
        const VIEW: usize = size_of::<u128>();
        let bytes = length.checked_mul(VIEW).ok_or_else(|| Error::invalid_file(format!("{length} views are too many")))?;
        let buffer = self.sized(bytes, "views")?;
        let buffer = if self.encoding.big_endian { swap::swapped_views(&buffer) } else { buffer };
        Ok(aligned(buffer, align_of::<u128>()).into())
    }

    /// The buffers behind the views of a field.
    pub(super) fn variadic(&mut self, views: &[u128]) -> Result<Vec<Buffer>> {
        let count = *self.variadic.next().ok_or_else(|| Error::invalid_file("a field has no count of buffers"))?;
        // Which parts of them are used, is only worth knowing where the others would take memory.
        let ends = if self.encoding.codec.is_some() { view_ends(views, count) } else { Vec::new() };
        (0..count).map(|index| self.buffer(ends.get(index).copied().unwrap_or(usize::MAX))).collect()
    }

    /// The first `bytes` bytes of the next buffer.
    fn sized(&mut self, bytes: usize, what: &str) -> Result<Buffer> {
        let buffer = self.buffer(bytes)?;
        if buffer.len() < bytes {
            return Err(Error::invalid_file(format!("{bytes} bytes of {what} are needed, and there are only {}", buffer.len())));
        }
        Ok(buffer.slice_with_length(0, bytes))
    }

    /// The next buffer, decompressed as far as it is needed at least.
    pub(super) fn buffer(&mut self, needed: usize) -> Result<Buffer> {
        let codec = self.encoding.codec;
        let bytes = self.next_buffer()?;
        match codec {
            None => Ok(Buffer::from(bytes.clone())),
            Some(codec) => codec.decompress(bytes, needed),
        }
    }

    fn next_buffer(&mut self) -> Result<&Bytes> {
        let (place, bytes) = self.buffers.next().ok_or_else(|| Error::invalid_file("a batch has too few buffers"))?;
        self.place = Some(*place);
        Ok(bytes)
    }

    /// Says of an error, unless that is said, that it is in the buffer that was looked at last.
    pub(super) fn here(&self) -> impl Fn(Error) -> Error + use<> {
        let place = self.place;
        move |error| match place {
            Some(place) => error.at(place),
            None => error,
        }
    }

    pub(super) fn old_bitmaps(&self) -> bool {
        self.encoding.old_bitmaps
    }
}

fn only_child(shape: &Shape) -> Result<&Shape> {
    match shape.children.as_slice() {
        [child] => Ok(child),
        children => Err(Error::invalid_file(format!("a list has {} children", children.len()))),
    }
}

/// A field of structs, some of which are null: what others have put there is no value. The engine would take it for one when it is asked for the field alone.
/// Unions and runs have no nulls of their own, and stay.
fn below(child: ArrayRef, nulls: Option<&NullBuffer>) -> Result<ArrayRef> {
    let Some(nulls) = nulls else { return Ok(child) };
    match child.data_type() {
        DataType::Null | DataType::Union(..) | DataType::RunEndEncoded(..) => Ok(child),
        DataType::Struct(fields) => {
            let all = NullBuffer::union(Some(nulls), child.nulls());
            let children = child.as_struct().columns().iter().map(|child| below(Arc::clone(child), Some(nulls)));
            Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), children.collect::<Result<_>>()?, all, child.len())?))
        }
        _ => Ok(nullif(&child, &BooleanArray::new(!nulls.inner(), None))?),
    }
}

/// The first slots of a child, which may have more.
pub(super) fn first(child: ArrayRef, length: usize, parent: &str) -> Result<ArrayRef> {
    match child.len() {
        same if same == length => Ok(child),
        more if more > length => Ok(child.slice(0, length)),
        less => Err(Error::invalid_file(format!("a child of {parent} has {less} slots; {length} are needed"))),
    }
}

/// Where the last value ends that views have in each of their buffers. What is no view of any is found later.
fn view_ends(views: &[u128], buffers: usize) -> Vec<usize> {
    let mut ends = vec![0; buffers];
    for view in views.iter().map(|view| ByteView::from(*view)).filter(|view| view.length > MAX_INLINE_VIEW_LEN) {
        if let Some(end) = ends.get_mut(view.buffer_index as usize) {
            *end = (*end).max(view.offset as usize + view.length as usize);
        }
    }
    ends
}

/// The buffer itself if it begins where values of that alignment may; a copy otherwise.
fn aligned(buffer: Buffer, alignment: usize) -> Buffer {
    if buffer.as_ptr().align_offset(alignment.next_power_of_two()) == 0 { buffer } else { Buffer::from_slice_ref(buffer.as_slice()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NoDictionaries;

    impl Dictionaries for NoDictionaries {
        fn values(&self, _id: i64) -> Result<Option<ArrayRef>> {
            Ok(None)
        }
    }

    fn offsets(buffer: &'static [u8], length: usize) -> Result<Vec<i32>> {
        let buffers = [(0, Bytes::from_static(buffer))];
        let encoding = Encoding { codec: None, big_endian: false, old_bitmaps: false };
        let (buffers, dictionaries) = (buffers.iter(), &NoDictionaries);
        let mut reader = Reader { nodes: [].iter(), buffers, variadic: [].iter(), rows: length, encoding, dictionaries, place: None };
        reader.offsets::<i32>(length).map(|offsets| offsets.to_vec())
    }

    #[test]
    fn offsets_of_no_slots_mean_nothing() {
        assert_eq!(offsets(&[], 0).unwrap(), [0]);
        // Of a child that was cut off; pyarrow writes such.
        assert_eq!(offsets(&[1, 0, 0, 0, 0, 0, 0, 0], 0).unwrap(), [0]);
        assert_eq!(offsets(&[1, 0, 0, 0, 2, 0, 0, 0], 1).unwrap(), [1, 2]);
        assert!(offsets(&[], 1).is_err());
    }
}
