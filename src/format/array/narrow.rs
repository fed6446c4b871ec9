//! Reading a part of a nested column: structs without some of their fields, and lists without their values.
//!
//! The type that a column is read as says which part. A struct of fewer fields than the file's is read as those, which are found by their names and
//! come in the file's order; a list of `Null` is read without its values, of which only the number is known.

use arrow::datatypes::{DataType, FieldRef, Fields};

use crate::format::error::{Error, Result};

pub(super) fn unlike(file: &DataType, out: &DataType) -> Error {
    Error::invalid_argument(format!("a column of {file} cannot be read as {out}; cast it after reading"))
}

/// For each field of the file, the field of the struct that it is read as; `None` for one that is left out.
pub(crate) fn matched_fields<'a>(file: &Fields, out: &'a Fields) -> Result<Vec<Option<&'a FieldRef>>> {
    let mut wanted = out.iter().peekable();
    let matched = file.iter().map(|field| wanted.next_if(|wanted| wanted.name() == field.name())).collect();
    match wanted.next() {
        None => Ok(matched),
        Some(_) => Err(unlike(&DataType::Struct(file.clone()), &DataType::Struct(out.clone()))),
    }
}

/// The type that the values of a list are read as; `None` if they are left out.
pub(crate) fn listed_item<'a>(file: &DataType, out: &'a DataType) -> Option<&'a DataType> {
    (*out != DataType::Null || *file == DataType::Null).then_some(out)
}

/// Of each stream of a column of the type `file`, whether it is needed to read the column as `out`. `None` if all are.
pub(crate) fn wanted_streams(file: &DataType, out: &DataType) -> Result<Option<Vec<bool>>> {
    if file == out || !file.is_nested() {
        return Ok(None);
    }
    let mut wanted = Vec::new();
    push(file, Some(out), &mut wanted)?;
    Ok(wanted.contains(&false).then_some(wanted))
}

/// The streams of a type.
pub(super) fn stream_count(data_type: &DataType) -> usize {
    let mut streams = Vec::new();
    // Nothing is wanted of it, so there is nothing that it could not be read as.
    let _never_fails = push(data_type, None, &mut streams);
    streams.len()
}

/// Walks a type depth first, as the stream directory does.
fn push(file: &DataType, out: Option<&DataType>, wanted: &mut Vec<bool>) -> Result<()> {
    use DataType::{Dictionary, FixedSizeList, LargeList, LargeListView, List, ListView, Map, Null, RunEndEncoded, Struct, Union};
    let mut own = |streams: usize| wanted.resize(wanted.len() + streams, out.is_some());
    match file {
        Dictionary(_, values) => push(values, out.map(plain), wanted),
        RunEndEncoded(_, values) => push(values.data_type(), out.map(plain), wanted),
        Null => Ok(()),
        Struct(fields) => {
            own(1);
            let matched = match out.map(plain) {
                None => vec![None; fields.len()],
                Some(Struct(out)) => matched_fields(fields, out)?,
                Some(out) => return Err(unlike(file, out)),
            };
            fields.iter().zip(matched).try_for_each(|(field, out)| push(field.data_type(), out.map(|out| out.data_type()), wanted))
        }
        List(child) | LargeList(child) | ListView(child) | LargeListView(child) | Map(child, _) | FixedSizeList(child, _) => {
            own(if matches!(file, FixedSizeList(..)) { 1 } else { 2 });
            let out = match out.map(plain) {
                None => None,
                Some(List(out) | LargeList(out) | ListView(out) | LargeListView(out) | Map(out, _) | FixedSizeList(out, _)) => {
                    listed_item(child.data_type(), out.data_type())
                }
                Some(out) => return Err(unlike(file, out)),
            };
            push(child.data_type(), out, wanted)
        }
        Union(fields, _) => {
            own(1);
            // A union is read as a whole.
            let of_union = |out: &DataType| matches!(out, Union(..)).then_some(()).ok_or_else(|| unlike(file, out));
            out.map(plain).map(of_union).transpose()?;
            fields.iter().try_for_each(|(_, field)| push(field.data_type(), out.map(|_| field.data_type()), wanted))
        }
        _leaf => {
            own(2);
            Ok(())
        }
    }
}

/// What a dictionary or runs are of.
fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain(values),
        DataType::RunEndEncoded(_, values) => plain(values.data_type()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Field;

    use super::*;
    use crate::format::ErrorKind;

    fn structure(fields: &[(&str, DataType)]) -> DataType {
        DataType::Struct(fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect())
    }

    fn list(item: DataType) -> DataType {
        DataType::List(Arc::new(Field::new("item", item, true)))
    }

    fn wanted(file: &DataType, out: &DataType) -> Option<String> {
        let bits = wanted_streams(file, out).unwrap()?;
        assert_eq!(bits.len(), stream_count(file));
        Some(bits.into_iter().map(|wanted| if wanted { '1' } else { '0' }).collect())
    }

    #[test]
    fn only_the_streams_of_the_fields_that_are_read_are_needed() {
        let inner = structure(&[("x", DataType::Int8), ("y", DataType::Utf8)]);
        let file = structure(&[("a", DataType::Int32), ("b", inner), ("l", list(DataType::Int64)), ("n", DataType::Null)]);
        assert_eq!(wanted(&file, &file), None);
        assert_eq!(wanted(&file, &structure(&[("a", DataType::Int32)])).unwrap(), "111000000000");
        assert_eq!(wanted(&file, &structure(&[("b", structure(&[("y", DataType::Utf8View)]))])).unwrap(), "100100110000");
        assert_eq!(wanted(&file, &structure(&[("l", list(DataType::Null)), ("n", DataType::Null)])).unwrap(), "100000001100");
        assert_eq!(wanted(&file, &structure(&[])).unwrap(), "100000000000");
    }

    #[test]
    fn fields_are_found_in_the_files_order_and_no_others() {
        let file = structure(&[("a", DataType::Int32), ("b", DataType::Int8), ("a", DataType::Int8)]);
        let of = |names: &[&str]| structure(&names.iter().map(|name| (*name, DataType::Int8)).collect::<Vec<_>>());
        assert_eq!(wanted(&file, &of(&["a", "a"])).unwrap(), "1110011");
        assert_eq!(wanted(&file, &of(&["b", "a"])).unwrap(), "1001111");
        for names in [&["a", "c"][..], &["c"], &["a", "a", "b", "b"], &["a", "a", "a", "a"]] {
            assert_eq!(wanted_streams(&file, &of(names)).unwrap_err().kind(), ErrorKind::InvalidArgument, "{names:?}");
        }
        assert!(wanted_streams(&file, &list(DataType::Int8)).is_err() && wanted_streams(&list(DataType::Int8), &DataType::Null).is_err());
    }
}
