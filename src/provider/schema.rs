//! The schema of a table from the schemas of its files, and how far a file's column is the table's.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;

use super::io::ObjectReader;
use crate::format::file::Metadata;

/// The schema with strings and binaries as views, as DataFusion's Parquet tables have them.
pub(super) fn with_view_types(schema: SchemaRef) -> SchemaRef {
    if schema.fields().iter().all(|field| view_type(field.data_type()).is_none()) {
        return schema;
    }
    let fields: Vec<FieldRef> = schema
        .fields()
        .iter()
        .map(|field| match view_type(field.data_type()) {
            Some(view) => Arc::new(field.as_ref().clone().with_data_type(view)),
            None => Arc::clone(field),
        })
        .collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn view_type(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => Some(DataType::Utf8View),
        DataType::Binary | DataType::LargeBinary => Some(DataType::BinaryView),
        _ => None,
    }
}

/// The schema of a table of these files: the fields of the first, then those that only later ones have.
///
/// Like Arrow's `Schema::try_merge`, but in time linear in the fields, and in no time for files that agree; a column that a file does not have is nullable, and neither notes about
/// a column nor how its strings are laid out, or their dictionaries, keep files from being read together (of fields within it, they do).
pub(super) fn merge(schemas: impl IntoIterator<Item = SchemaRef>) -> Result<SchemaRef> {
    let mut schemas = schemas.into_iter();
    let Some(first) = schemas.next() else {
        return Ok(Arc::new(Schema::empty()));
    };
    let different: Vec<_> = schemas.filter(|schema| *schema != first).collect();
    if different.is_empty() {
        return Ok(first);
    }
    let mut metadata = HashMap::new();
    let mut fields: Vec<Field> = Vec::new();
    // Files that have the field, and the last one of them.
    let mut seen: Vec<(usize, usize)> = Vec::new();
    let mut positions: HashMap<String, usize> = HashMap::new();
    for (file, schema) in std::iter::once(&first).chain(&different).enumerate() {
        // Metadata that files disagree about is no reason not to read them together; the first file's stands.
        for (key, value) in schema.metadata() {
            metadata.entry(key.clone()).or_insert_with(|| value.clone());
        }
        for field in schema.fields() {
            match positions.get(field.name()).and_then(|position| fields.get_mut(*position)) {
                Some(known) => merge_field(known, field)?,
                None => {
                    positions.insert(field.name().clone(), fields.len());
                    fields.push(field.as_ref().clone());
                    seen.push((0, usize::MAX));
                }
            }
            if let Some((count, last)) = positions.get(field.name()).and_then(|position| seen.get_mut(*position)) {
                *count += usize::from(*last != file);
                *last = file;
            }
        }
    }
    // Where a file does not have it, it is null.
    let schemas = 1 + different.len();
    let fields: Vec<Field> =
        fields.into_iter().zip(seen).map(|(field, (count, _))| if count < schemas { field.with_nullable(true) } else { field }).collect();
    Ok(Arc::new(Schema::new_with_metadata(fields, metadata)))
}

fn merge_field(known: &mut Field, field: &FieldRef) -> Result<()> {
    let mut field = field.as_ref().clone();
    let mut metadata = std::mem::take(field.metadata_mut());
    // What kind of values they are is no note.
    metadata.retain(|key, value| key.starts_with(EXTENSION) || known.metadata().get(key).is_none_or(|first| first == value));
    field.set_metadata(metadata);
    if known.dict_is_ordered() != field.dict_is_ordered() {
        // As long as there is a dictionary it can be said of it.
        *known = known.clone().with_dict_is_ordered(false);
        field = field.with_dict_is_ordered(false);
    }
    if let Some(both) = widest(known.data_type(), field.data_type()) {
        known.set_data_type(both.clone());
        field.set_data_type(both);
    }
    Ok(known.try_merge(&field)?)
}

/// Bytes of keys that can number the values of very many dictionaries.
const ROOMY: usize = 4;

/// The schema with dictionaries that have room for the values of several: what is joined or sorted by the engine has one for all of them, and there is no more than an error where its
/// keys are too narrow.
pub(super) fn with_roomy_keys(schema: SchemaRef) -> SchemaRef {
    let is_narrow = |field: &FieldRef| matches!(field.data_type(), DataType::Dictionary(keys, _) if keys.primitive_width() < Some(ROOMY));
    if !schema.fields().iter().any(is_narrow) {
        return schema;
    }
    let fields: Vec<FieldRef> = schema
        .fields()
        .iter()
        .map(|field| match field.data_type() {
            DataType::Dictionary(_, values) if is_narrow(field) => {
                Arc::new(field.as_ref().clone().with_data_type(DataType::Dictionary(Box::new(DataType::Int32), values.clone())))
            }
            _ => Arc::clone(field),
        })
        .collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Keys of the metadata of fields that say which extension type their values have.
const EXTENSION: &str = "ARROW:extension:";

/// The type as which both can be read, where they differ in how the same values are laid out. Strings or binaries: views, or else the one with the larger offsets. Dictionaries: the
/// one whose keys can number more, and no views where they differ, for the engine does not join the values of such dictionaries. A dictionary and values: values. Nothing but nulls, and
/// anything: that.
fn widest(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::{Binary, BinaryView, Dictionary, LargeBinary, LargeUtf8, Null, Utf8, Utf8View};
    let of_values = |one: &DataType, other: &DataType| match (one, other) {
        (Null, values) | (values, Null) => Some(values.clone()),
        (one, other) if one == other => Some(one.clone()),
        _ => widest(one, other),
    };
    match (one, other) {
        (Dictionary(..), Null) | (Null, Dictionary(..)) => return None,
        (Dictionary(keys, values), Dictionary(other_keys, other_values)) => {
            let numbers = |keys: &DataType| (keys.primitive_width(), keys.is_unsigned_integer());
            let keys = if numbers(keys) >= numbers(other_keys) { keys } else { other_keys };
            let values = match of_values(values, other_values)? {
                Utf8View if values != other_values => LargeUtf8,
                BinaryView if values != other_values => LargeBinary,
                same => same,
            };
            return Some(Dictionary(keys.clone(), Box::new(values)));
        }
        (Dictionary(_, values), plain) | (plain, Dictionary(_, values)) => return of_values(values, plain),
        _ => {}
    }
    [[Utf8View, LargeUtf8, Utf8], [BinaryView, LargeBinary, Binary]]
        .into_iter()
        .find(|layouts| layouts.contains(one) && layouts.contains(other))?
        .into_iter()
        .find(|layout| [one, other].contains(&layout))
}

/// Whether values of one type are read as the other without a cast: the same, or both strings, or both binaries, top-level.
pub(super) fn is_read_as(file: &DataType, table: &DataType) -> bool {
    file == table || (is_string(file) && is_string(table)) || (is_binary(file) && is_binary(table))
}

fn is_string(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_binary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// The columns of a table or of a file, each by itself.
pub(super) trait Columns {
    /// The name of the column at a position, if there is one.
    fn name(&self, column: usize) -> Option<&str>;

    /// The field of the column at a position.
    fn field(&self, column: usize) -> Result<FieldRef>;
}

impl Columns for Schema {
    fn name(&self, column: usize) -> Option<&str> {
        self.fields().get(column).map(|field| field.name().as_str())
    }

    fn field(&self, column: usize) -> Result<FieldRef> {
        let field = self.fields().get(column).map(Arc::clone);
        field.ok_or_else(|| internal_datafusion_err!("there is no column {column} of {}", self.fields().len()))
    }
}

/// The columns of an open file. Of each that is asked for the field is made, and no schema of them all.
pub(super) struct FileColumns<'a> {
    pub(super) meta: &'a dyn Metadata,
    pub(super) reader: &'a ObjectReader,
}

impl Columns for FileColumns<'_> {
    fn name(&self, column: usize) -> Option<&str> {
        self.meta.name(column)
    }

    fn field(&self, column: usize) -> Result<FieldRef> {
        self.meta.field(column).map_err(|error| self.reader.fault(error))
    }
}

/// Where the columns of a table are likely to be in its files.
#[derive(Debug, Clone, Default)]
pub(super) struct Positions(Option<Arc<[usize]>>);

impl Positions {
    /// The table has these columns of its files, and no others.
    pub(super) fn of(columns: &[usize]) -> Self {
        Self(Some(columns.into()))
    }

    /// Whether the table has no columns but those that a query uses.
    pub(super) fn are_of_used_columns(&self) -> bool {
        self.0.is_some()
    }

    /// Where a column of the table may be in a file: in the same place, if nothing else is known.
    pub(super) fn of_column(&self, column: usize) -> usize {
        self.0.as_ref().and_then(|positions| positions.get(column).copied()).unwrap_or(column)
    }
}

/// Finds the columns of one schema in another by name. Asks for the same position first, so that equal schemas cost nothing, and
/// builds an index when that fails, so that different ones cost a look at each field once and not once per column.
pub(super) struct ColumnFinder<'a> {
    columns: &'a dyn Columns,
    index: Option<HashMap<&'a str, usize>>,
}

impl<'a> ColumnFinder<'a> {
    pub(super) fn new(columns: &'a dyn Columns) -> Self {
        Self { columns, index: None }
    }

    /// The first column of that name; `hint` is where it may be.
    pub(super) fn find(&mut self, name: &str, hint: usize) -> Option<usize> {
        let columns = self.columns;
        if columns.name(hint).is_some_and(|found| found == name) {
            return Some(hint);
        }
        let index = self.index.get_or_insert_with(|| {
            let mut index = HashMap::new();
            let names = (0..).map_while(|position| Some((columns.name(position)?, position)));
            for (name, position) in names {
                index.entry(name).or_insert(position);
            }
            index
        });
        index.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(fields: &[(&str, DataType, bool)]) -> SchemaRef {
        Arc::new(Schema::new(fields.iter().map(|(name, data_type, nullable)| Field::new(*name, data_type.clone(), *nullable)).collect::<Vec<_>>()))
    }

    #[test]
    fn strings_and_binaries_become_views_and_nothing_else_changes() {
        let plain = schema(&[("a", DataType::Int32, false), ("b", DataType::Boolean, true)]);
        assert!(Arc::ptr_eq(&with_view_types(Arc::clone(&plain)), &plain));
        let text =
            schema(&[("a", DataType::Utf8, false), ("b", DataType::LargeUtf8, true), ("c", DataType::Binary, true), ("d", DataType::Int8, true)]);
        let views = schema(&[
            ("a", DataType::Utf8View, false),
            ("b", DataType::Utf8View, true),
            ("c", DataType::BinaryView, true),
            ("d", DataType::Int8, true),
        ]);
        assert_eq!(with_view_types(text), views);
    }

    #[test]
    fn merging_is_arrows_merge_but_for_columns_that_files_do_not_have() {
        let a = schema(&[("x", DataType::Int32, false), ("y", DataType::Utf8, false), ("w", DataType::Int8, false)]);
        let b = schema(&[("w", DataType::Int8, false), ("y", DataType::Utf8, true), ("z", DataType::Boolean, false)]);
        for files in [vec![&a], vec![&a, &a], vec![&a, &b], vec![&b, &a, &b]] {
            let expected = Schema::try_merge(files.iter().map(|schema| schema.as_ref().clone())).unwrap();
            let fields = expected.fields().iter().map(|field| match files.iter().all(|schema| schema.column_with_name(field.name()).is_some()) {
                true => field.as_ref().clone(),
                false => field.as_ref().clone().with_nullable(true),
            });
            assert_eq!(*merge(files.iter().copied().cloned()).unwrap(), Schema::new(fields.collect::<Vec<_>>()));
        }
        let noted = |notes: &[(&str, &str)]| {
            let notes = notes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            Arc::new(Schema::new(vec![Field::new("x", DataType::Int32, true).with_metadata(notes)]))
        };
        let merged = merge([noted(&[("unit", "m"), ("by", "a")]), noted(&[("unit", "km"), ("at", "b")])]).unwrap();
        assert_eq!(merged, noted(&[("unit", "m"), ("by", "a"), ("at", "b")]));
        merge([noted(&[("ARROW:extension:name", "a")]), noted(&[("ARROW:extension:name", "b")])]).unwrap_err();
        let text = |data_type| schema(&[("x", data_type, true)]);
        for (files, expected) in [
            ([DataType::Utf8, DataType::Utf8View], DataType::Utf8View),
            ([DataType::LargeUtf8, DataType::Utf8], DataType::LargeUtf8),
            ([DataType::Binary, DataType::LargeBinary], DataType::LargeBinary),
            ([DataType::BinaryView, DataType::Binary], DataType::BinaryView),
        ] {
            assert_eq!(merge(files.map(text)).unwrap(), text(expected));
        }
        assert!(merge([text(DataType::Utf8), text(DataType::Binary)]).is_err());
        let clash = schema(&[("x", DataType::Utf8, false)]);
        assert!(merge([a, clash]).unwrap_err().to_string().contains("Fail to merge schema field 'x'"));
    }

    #[test]
    fn columns_are_found_where_they_are() {
        let schema = schema(&[("a", DataType::Int32, false), ("b", DataType::Int32, false), ("c", DataType::Int32, false)]);
        let mut finder = ColumnFinder::new(schema.as_ref());
        assert_eq!(finder.find("b", 1), Some(1));
        assert!(finder.index.is_none());
        assert_eq!((finder.find("b", 0), finder.find("c", 9), finder.find("d", 0)), (Some(1), Some(2), None));
    }
}
