//! An array to nodes and buffers, depth first.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, GenericByteArray, GenericByteViewArray, OffsetSizeTrait, PrimitiveArray, make_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::{ArrowPrimitiveType, ByteArrayType, ByteViewType, DataType, Int16Type, Int32Type, Int64Type, UnionMode};
use arrow_ipc as fb;

use super::dictionary::Dictionaries;
use super::slices;
use crate::format::error::{Error, Result};

/// Views may keep so many times the bytes that they show.
const UNUSED_MAX: usize = 2;

/// The contents of a message, before they are compressed.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) nodes: Vec<fb::FieldNode>,
    pub(super) buffers: Vec<Buffer>,
    pub(super) variadic: Vec<i64>,
}

/// Takes arrays apart. Dictionaries are handed over in the order in which the schema numbers them.
pub(super) struct Encoder<'a> {
    pub(super) parts: Parts,
    pub(super) dictionaries: &'a mut Dictionaries,
    /// The next dictionary.
    pub(super) id: usize,
}

impl Encoder<'_> {
    pub(super) fn array(&mut self, array: &ArrayRef) -> Result<()> {
        match array.data_type() {
            DataType::Null => self.node(array.len(), array.len()),
            DataType::Boolean => {
                self.nullable(array)?;
                self.parts.buffers.push(array.as_boolean().values().sliced());
                Ok(())
            }
            DataType::Utf8 => self.bytes(array.as_string::<i32>()),
            DataType::LargeUtf8 => self.bytes(array.as_string::<i64>()),
            DataType::Binary => self.bytes(array.as_binary::<i32>()),
            DataType::LargeBinary => self.bytes(array.as_binary::<i64>()),
            DataType::Utf8View => self.views(array.as_string_view()),
            DataType::BinaryView => self.views(array.as_binary_view()),
            DataType::List(_) => self.list(array, array.as_list::<i32>().value_offsets(), array.as_list::<i32>().values()),
            DataType::LargeList(_) => self.list(array, array.as_list::<i64>().value_offsets(), array.as_list::<i64>().values()),
            DataType::Map(..) => {
                let entries: ArrayRef = Arc::new(array.as_map().entries().clone());
                self.list(array, array.as_map().value_offsets(), &entries)
            }
            DataType::ListView(_) => {
                let list = array.as_list_view::<i32>();
                self.list_view(array, list.value_offsets(), list.value_sizes(), list.values())
            }
            DataType::LargeListView(_) => {
                let list = array.as_list_view::<i64>();
                self.list_view(array, list.value_offsets(), list.value_sizes(), list.values())
            }
            DataType::FixedSizeList(..) => {
                self.nullable(array)?;
                self.array(array.as_fixed_size_list().values())
            }
            DataType::Struct(_) => {
                self.nullable(array)?;
                array.as_struct().columns().iter().try_for_each(|column| self.array(column))
            }
            DataType::Union(_, mode) => self.union(array, *mode),
            DataType::Dictionary(..) => self.dictionary(array),
            DataType::RunEndEncoded(ends, _) => match ends.data_type() {
                DataType::Int16 => self.runs::<Int16Type>(array),
                DataType::Int32 => self.runs::<Int32Type>(array),
                _ => self.runs::<Int64Type>(array),
            },
            _ => self.fixed(array),
        }
    }

    fn node(&mut self, length: usize, null_count: usize) -> Result<()> {
        let signed = |count: usize| i64::try_from(count).map_err(|_| Error::invalid_argument("an array is too long"));
        self.parts.nodes.push(fb::FieldNode::new(signed(length)?, signed(null_count)?));
        Ok(())
    }

    /// The node of an array, and its validity.
    fn nullable(&mut self, array: &dyn Array) -> Result<()> {
        self.node(array.len(), array.null_count())?;
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        self.parts.buffers.push(nulls.map_or_else(Buffer::default, |nulls: &NullBuffer| nulls.inner().sliced()));
        Ok(())
    }

    fn fixed(&mut self, array: &ArrayRef) -> Result<()> {
        self.nullable(array)?;
        let data = array.to_data();
        let width = match array.data_type() {
            DataType::FixedSizeBinary(width) => usize::try_from(*width).unwrap_or(0),
            other => other.primitive_width().ok_or_else(|| Error::invalid_argument(format!("{other} cannot be written")))?,
        };
        let values = data.buffers().first().map(|values| values.slice_with_length(data.offset() * width, data.len() * width));
        self.parts.buffers.push(values.unwrap_or_default());
        Ok(())
    }

    fn bytes<T: ByteArrayType>(&mut self, array: &GenericByteArray<T>) -> Result<()>
    where
        T::Offset: OffsetSizeTrait,
    {
        self.nullable(array)?;
        let (offsets, first, last) = slices::offsets(array.value_offsets());
        self.parts.buffers.push(offsets);
        self.parts.buffers.push(array.values().slice_with_length(first, last - first));
        Ok(())
    }

    fn views<T: ByteViewType>(&mut self, array: &GenericByteViewArray<T>) -> Result<()> {
        let used = array.total_buffer_bytes_used();
        let kept: usize = array.data_buffers().iter().map(Buffer::len).sum();
        let packed = (kept / UNUSED_MAX > used).then(|| array.gc());
        let array = packed.as_ref().unwrap_or(array);
        self.nullable(array)?;
        self.parts.buffers.push(array.views().inner().clone());
        let count = array.data_buffers().len();
        self.parts.variadic.push(i64::try_from(count).map_err(|_| Error::invalid_argument("views have too many buffers"))?);
        self.parts.buffers.extend(array.data_buffers().iter().cloned());
        Ok(())
    }

    fn list<O: OffsetSizeTrait>(&mut self, array: &ArrayRef, offsets: &[O], values: &ArrayRef) -> Result<()> {
        self.nullable(array)?;
        let (offsets, first, last) = slices::offsets(offsets);
        self.parts.buffers.push(offsets);
        self.array(&values.slice(first, last - first))
    }

    fn list_view<O: OffsetSizeTrait>(&mut self, array: &ArrayRef, offsets: &[O], sizes: &[O], values: &ArrayRef) -> Result<()> {
        self.nullable(array)?;
        let (offsets, first, last) = slices::list_view(offsets, sizes);
        self.parts.buffers.push(Buffer::from_vec(offsets));
        self.parts.buffers.push(Buffer::from_vec(sizes.to_vec()));
        self.array(&values.slice(first, last - first))
    }

    fn union(&mut self, array: &ArrayRef, mode: UnionMode) -> Result<()> {
        let union = array.as_union();
        self.node(array.len(), 0)?;
        self.parts.buffers.push(union.type_ids().inner().clone());
        let children: Vec<ArrayRef> = match (mode, array.data_type()) {
            (UnionMode::Sparse, DataType::Union(fields, _)) => fields.iter().map(|(id, _)| Arc::clone(union.child(id))).collect(),
            _ => {
                let (offsets, children) = slices::dense_union(union)?;
                self.parts.buffers.push(Buffer::from_vec(offsets));
                children
            }
        };
        children.iter().try_for_each(|child| self.array(child))
    }

    fn runs<R: ArrowPrimitiveType + arrow::array::types::RunEndIndexType>(&mut self, array: &ArrayRef) -> Result<()> {
        self.node(array.len(), 0)?;
        let (ends, values) = slices::runs::<R>(array)?;
        self.fixed(&(Arc::new(PrimitiveArray::<R>::from_iter_values(ends)) as ArrayRef))?;
        self.array(&values)
    }

    fn dictionary(&mut self, array: &ArrayRef) -> Result<()> {
        let id = self.id;
        self.id += self.dictionaries.width(id);
        let codes = self.dictionaries.codes(id, array)?;
        self.fixed(&codes)
    }
}

/// The codes of a dictionary array, as numbers.
pub(super) fn codes_of(array: &ArrayRef) -> Result<ArrayRef> {
    let DataType::Dictionary(keys, _) = array.data_type() else {
        return Err(Error::invalid_argument(format!("{} is no dictionary", array.data_type())));
    };
    let data = array.to_data().into_builder().data_type(keys.as_ref().clone()).child_data(Vec::new());
    Ok(make_array(data.build()?))
}
