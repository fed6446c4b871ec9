//! Files that other software wrote, against what it says is in them.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use bytes::Bytes;
use datafusion_fermion::format::alkaid::{Codec, Flavor, Form, WriterOptions};

use super::drive::{Store, read_all, read_all_with, write};
use super::json::{self, Contents};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/format/alkaid/golden")
}

/// What should be in each file, by the path without its ending.
fn expected() -> Vec<(PathBuf, Contents)> {
    let mut found = Vec::new();
    for version in ["0.14.1", "0.17.1", "1.0.0-littleendian", "1.0.0-bigendian", "2.0.0-compression", "4.0.0-shareddict", "cpp-21.0.0"] {
        for entry in fs::read_dir(folder().join(version)).unwrap() {
            let path = entry.unwrap().path();
            if let Some(stem) = path.to_str().unwrap().strip_suffix(".json.gz") {
                let mut text = String::new();
                flate2::read::GzDecoder::new(fs::File::open(&path).unwrap()).read_to_string(&mut text).unwrap();
                found.push((PathBuf::from(stem), json::read(&text)));
            }
        }
    }
    assert_eq!(found.len(), 70);
    found
}

/// All of those files and streams, with their names.
pub(super) fn files() -> Vec<(String, Bytes)> {
    let named = |stem: &PathBuf, ending: &str| (format!("{} {ending}", stem.display()), bytes(stem, ending));
    expected().iter().flat_map(|(stem, _)| ["arrow_file", "stream"].map(|ending| named(stem, ending))).collect()
}

fn bytes(stem: &Path, ending: &str) -> Bytes {
    let path = PathBuf::from(format!("{}.{ending}", stem.display()));
    Bytes::from(fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

fn check(what: &str, contents: &Contents, schema: &Schema, batches: &[RecordBatch]) {
    assert!(same_schema(schema, &contents.schema), "{what}: {schema:?}\n{:?}", contents.schema);
    let expected: Vec<&RecordBatch> = contents.batches.iter().filter(|batch| batch.num_rows() > 0).collect();
    assert_eq!(batches.len(), expected.len(), "{what}");
    for (batch, expected) in batches.iter().zip(expected) {
        for (index, (have, want)) in batch.columns().iter().zip(expected.columns()).enumerate() {
            assert!(have == want, "{what}, column {index}, {}:\n{have:?}\n{want:?}", have.data_type());
        }
    }
}

/// The same but for what is never null in a map.
fn same_schema(schema: &Schema, expected: &Schema) -> bool {
    let is_map = |data_type: &DataType| matches!(data_type, DataType::Map(..));
    schema.metadata() == expected.metadata()
        && schema.fields().len() == expected.fields().len()
        && schema.fields().iter().zip(expected.fields()).all(|(have, want)| {
            have == want || (is_map(have.data_type()) && have.name() == want.name() && have.data_type().equals_datatype(want.data_type()))
        })
}

#[test]
fn files_and_streams_of_all_versions_are_what_they_should_be() {
    for (stem, contents) in expected() {
        for ending in ["arrow_file", "stream"] {
            if !PathBuf::from(format!("{}.{ending}", stem.display())).exists() {
                continue;
            }
            let what = format!("{} {ending}", stem.display());
            let file = bytes(&stem, ending);
            let (schema, batches) = read_all(&file, usize::MAX).unwrap_or_else(|error| panic!("{what}: {error}"));
            check(&what, &contents, &schema, &batches);
            // Opened with next to nothing, it takes more requests and is the same.
            let (schema, batches) = read_all_with(&file, usize::MAX, 1).unwrap();
            check(&what, &contents, &schema, &batches);
        }
    }
}

#[test]
fn files_have_no_missing_twin() {
    let lonely = expected()
        .iter()
        .filter(|(stem, _)| {
            !PathBuf::from(format!("{}.stream", stem.display())).exists() || !PathBuf::from(format!("{}.arrow_file", stem.display())).exists()
        })
        .count();
    assert_eq!(lonely, 0);
}

#[test]
fn rewritten_as_alkaid_they_are_the_same() {
    for (stem, contents) in expected() {
        let (schema, batches) = read_all(&bytes(&stem, "arrow_file"), usize::MAX).unwrap();
        for (form, flavor, compression) in [
            (Form::File, Flavor::Alkaid, None),
            (Form::File, Flavor::Arrow, Some(Codec::Zstd)),
            (Form::Stream, Flavor::Alkaid, Some(Codec::Lz4)),
            (Form::Stream, Flavor::Arrow, None),
        ] {
            // As large as they were.
            let batch_rows = batches.first().map_or(1, RecordBatch::num_rows);
            let options = WriterOptions { form, flavor, compression, batch_rows, ..Default::default() };
            let what = format!("{} as {form:?} {flavor:?} {compression:?}", stem.display());
            let file = write(&schema, &batches, options).unwrap_or_else(|error| panic!("{what}: {error}"));
            let (schema, rewritten) = read_all(&file, usize::MAX).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(same_schema(&schema, &contents.schema), "{what}");
            let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            let joined = |batches: &[RecordBatch]| -> Vec<RecordBatch> { (0..rows).map(|row| nth_row(batches, row)).collect() };
            assert!(joined(&rewritten) == joined(&batches), "{what}");
        }
    }
}

fn nth_row(batches: &[RecordBatch], mut row: usize) -> RecordBatch {
    for batch in batches {
        if row < batch.num_rows() {
            return batch.slice(row, 1);
        }
        row -= batch.num_rows();
    }
    panic!("no such row")
}

#[test]
fn an_alkaid_file_is_an_arrow_file_with_another_magic() {
    for (stem, contents) in expected() {
        let arrow = bytes(&stem, "arrow_file");
        // The magic is a byte longer, and begins in the padding of the beginning.
        let alkaid = Bytes::from([b"ALKAID1\0", &arrow[8..arrow.len() - 6], b"ALKAID1".as_slice()].concat());
        let meta = Store::new(&alkaid).open(1 << 20).unwrap();
        assert_eq!((meta.flavor(), meta.form()), (Some(Flavor::Alkaid), Form::File));
        let (schema, batches) = read_all(&alkaid, usize::MAX).unwrap();
        check(&stem.display().to_string(), &contents, &schema, &batches);
    }
}

fn of_pyarrow(name: &str) -> Vec<RecordBatch> {
    let file = Bytes::from(fs::read(folder().join("pyarrow-21").join(name)).unwrap());
    read_all(&file, 1024).unwrap().1
}

fn text(batches: &[RecordBatch]) -> String {
    arrow::util::pretty::pretty_format_batches(batches).unwrap().to_string()
}

#[test]
fn runs_in_metadata_of_version_4_have_a_bitmap() {
    let expected = "\
+---+---+
| r | n |
+---+---+
| a | 1 |
| a | 2 |
| a | 3 |
|   | 4 |
|   | 5 |
+---+---+";
    assert_eq!(text(&of_pyarrow("runs_v4.arrows")), expected);
}
