//! Reading the schema.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow_ipc as fb;

use super::shape::{DictionaryShapes, Positions, Shape};
use super::types;
use crate::format::alkaid::flat::key_values;
use crate::format::array::check_null;
use crate::format::error::{Error, Result};

/// The schema of a file.
#[derive(Debug)]
pub(crate) struct FileSchema {
    pub(crate) arrow: SchemaRef,
    /// The same for whoever asks which rows are null: a column may have nulls among the values of its dictionary, its runs or its union, and a schema that says that it is never null
    /// says nothing about those.
    pub(crate) logical: SchemaRef,
    pub(crate) columns: Vec<Shape>,
    /// The values of dictionaries.
    pub(crate) dictionaries: DictionaryShapes,
    pub(crate) positions: Positions,
    pub(crate) big_endian: bool,
}

impl FileSchema {
    pub(crate) fn read(schema: &fb::Schema<'_>) -> Result<Self> {
        let big_endian = match schema.endianness() {
            fb::Endianness::Little => false,
            fb::Endianness::Big => true,
            other => return Err(Error::unsupported(format!("byte order {} is neither little nor big", other.0))),
        };
        let mut reader = Reader { dictionaries: HashMap::new() };
        let mut fields: Vec<FieldRef> = Vec::new();
        let mut columns = Vec::new();
        for field in schema.fields().into_iter().flatten() {
            let read = reader.field(&field, Place::Column).and_then(|(field, shape)| check_null(field.data_type()).map(|()| (field, shape)));
            let (field, shape) = read.map_err(|error| error.in_column(field.name().unwrap_or_default()))?;
            fields.push(field);
            columns.push(shape);
        }
        let metadata = key_values(schema.custom_metadata()).collect();
        let arrow = Arc::new(Schema::new_with_metadata(fields, metadata));
        Ok(Self {
            logical: logical(&arrow),
            arrow,
            positions: Positions::new(columns.iter()),
            columns,
            dictionaries: reader.dictionaries,
            big_endian,
        })
    }

    /// The dictionaries that a column needs, those of their values among them, each before those that need it.
    pub(crate) fn dictionaries_of(&self, shape: &Shape) -> Vec<i64> {
        let mut found = Found::default();
        self.visit(shape, &mut found);
        found.order
    }

    fn visit(&self, shape: &Shape, found: &mut Found) {
        let mut own = Vec::new();
        shape.dictionaries(&mut own);
        for id in own {
            // None contains itself, so that those on the way here are not met again.
            if let Some(values) = self.dictionaries.get(&id).filter(|_| found.known.insert(id)) {
                self.visit(values, found);
                found.order.push(id);
            }
        }
    }
}

/// Dictionaries in the order in which they were found.
#[derive(Default)]
struct Found {
    known: HashSet<i64>,
    order: Vec<i64>,
}

/// Whether there may be nulls among the values of its dictionary, its runs or its children, of which a field that is never null says nothing.
fn has_inner_nulls(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(..) | DataType::RunEndEncoded(..) | DataType::Union(..))
}

fn logical(schema: &SchemaRef) -> SchemaRef {
    let is_wrong = |field: &FieldRef| !field.is_nullable() && has_inner_nulls(field.data_type());
    if !schema.fields().iter().any(is_wrong) {
        return Arc::clone(schema);
    }
    let mended = |field: &FieldRef| if is_wrong(field) { Arc::new(field.as_ref().clone().with_nullable(true)) } else { Arc::clone(field) };
    let fields: Vec<FieldRef> = schema.fields().iter().map(mended).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Where a field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Column,
    /// The entries of a map.
    Entries,
    /// The keys of a map, which are never null.
    Keys,
    Below,
}

impl Place {
    fn of_child(self, own_type: fb::Type, index: usize) -> Self {
        match (self, own_type) {
            (_, fb::Type::Map) => Self::Entries,
            (Self::Entries, _) if index == 0 => Self::Keys,
            _ => Self::Below,
        }
    }
}

struct Reader {
    dictionaries: DictionaryShapes,
}

impl Reader {
    fn field(&mut self, field: &fb::Field<'_>, place: Place) -> Result<(FieldRef, Shape)> {
        let mut fields = Vec::new();
        let mut children = Vec::new();
        for (index, child) in field.children().into_iter().flatten().enumerate() {
            let (field, shape) = self.field(&child, place.of_child(field.type_type(), index))?;
            fields.push(field);
            children.push(shape);
        }
        let values = types::data_type(field, fields)?;
        adopt_types(&values, &mut children);
        let shape = Shape { data_type: values, dictionary: None, children, is_counted: false };
        let (shape, ordered) = match field.dictionary() {
            None => (shape, false),
            Some(encoding) => (self.dictionary(&encoding, shape)?, encoding.isOrdered()),
        };
        let metadata: HashMap<String, String> = key_values(field.custom_metadata()).collect();
        let name = field.name().unwrap_or_default();
        // Below a column there is no second schema for whoever asks which rows are null.
        let is_nullable = field.nullable() || place == Place::Below && has_inner_nulls(&shape.data_type);
        let arrow = Field::new(name, shape.data_type.clone(), is_nullable).with_dict_is_ordered(ordered).with_metadata(metadata);
        Ok((Arc::new(arrow), shape))
    }

    /// Notes what the values of a dictionary are. Fields may share a dictionary; as all of them have to agree on its values, none contains itself.
    fn dictionary(&mut self, encoding: &fb::DictionaryEncoding<'_>, values: Shape) -> Result<Shape> {
        let keys = encoding.indexType().map_or(Ok(DataType::Int32), |int| types::integer(&int))?;
        let id = encoding.id();
        let data_type = DataType::Dictionary(Box::new(keys), Box::new(values.data_type.clone()));
        match self.dictionaries.get(&id) {
            Some(known) if *known != values => {
                let message = format!("dictionary {id} has values of {} for one field and of {} for another", known.data_type, values.data_type);
                return Err(Error::invalid_file(message));
            }
            Some(_) => {}
            None => {
                self.dictionaries.insert(id, values);
            }
        }
        Ok(Shape { data_type, dictionary: Some(id), children: Vec::new(), is_counted: false })
    }
}

/// A map may have changed the types below it.
fn adopt_types(data_type: &DataType, children: &mut [Shape]) {
    if let (DataType::Map(entries, _), [child]) = (data_type, children) {
        child.data_type = entries.data_type().clone();
    }
}
