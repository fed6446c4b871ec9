//! Writes a Fermion file and reads it back with nothing but `std::fs`: no engine, no async.
//!
//! The writer hands out bytes as they are ready. Opening a file and scanning it are state machines that say which bytes they need next; the two
//! loops below are all that a reader of this format has to bring along.
//!
//! ```text
//! cargo run --example write
//! ```
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow::util::pretty::pretty_format_batches;
use bytes::Bytes;
use datafusion_fermion::format::fermion::{FermionScan, Open, OpenOptions, ScanRequest, Writer, WriterOptions};
use datafusion_fermion::format::scan::{Answer, Fetch, Load, Loading, Scan, Step};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    let path = tempfile::NamedTempFile::new()?.into_temp_path();
    write(&mut File::create(&path)?)?;
    let batches = read(&mut File::open(&path)?)?;
    println!("{}", pretty_format_batches(&batches)?);
    Ok(())
}

fn write(file: &mut File) -> Result<()> {
    let cities: ArrayRef = Arc::new(StringArray::from(vec![Some("Bergen"), Some("Lisbon"), None]));
    let degrees: ArrayRef = Arc::new(Float64Array::from(vec![7.5, 21.0, 36.6]));
    let batch = RecordBatch::try_from_iter([("city", cities), ("degrees", degrees)])?;

    let mut writer = Writer::new(batch.schema(), WriterOptions::default())?;
    writer.push(&batch)?;
    for bytes in writer.take_bytes() {
        file.write_all(&bytes)?;
    }
    let (rest, summary) = writer.finish()?;
    for bytes in rest {
        file.write_all(&bytes)?;
    }
    println!("{summary:?}");
    Ok(())
}

fn read(file: &mut File) -> Result<Vec<RecordBatch>> {
    let meta = Arc::new(load(file, Open::new(file.metadata()?.len(), &OpenOptions::default())?)?);

    let columns: Vec<usize> = (0..meta.column_count()).collect();
    let request = ScanRequest::new(columns, meta.schema()?);
    let mut scan = FermionScan::new(meta, request)?;
    let mut batches = Vec::new();
    let mut answer = Answer::Next;
    loop {
        answer = match scan.step(answer)? {
            Step::Fetch(wanted) => Answer::Fetched(fetch(file, &wanted)?),
            // Asked only for `prune_columns`: `zones` has their minima and maxima, and `true` keeps a zone.
            Step::Prune(zones) => Answer::Keep(vec![true; zones.row_counts.len()].into()),
            // Asked only for `lookup_columns`: the values that are looked for, where there are bloom filters.
            Step::Lookup(columns) => Answer::Lookup(vec![None; columns.len()]),
            // Asked only for `select_columns`: which rows are wanted by their values.
            Step::Select(_) => Answer::Select(None),
            Step::Decode(mut morsel) => {
                while let Some(batch) = morsel.next_batch()? {
                    batches.push(batch);
                }
                Answer::Next
            }
            Step::Done => return Ok(batches),
        };
    }
}

/// Runs anything that is made from bytes of a file.
fn load<L: Load>(file: &mut File, mut loading: L) -> Result<L::Output> {
    let mut fetched = Vec::new();
    loop {
        match loading.resume(fetched)? {
            Loading::Fetch(wanted) => fetched = fetch(file, &wanted)?,
            Loading::Ready(value) => return Ok(value),
        }
    }
}

fn fetch(file: &mut File, wanted: &[Fetch]) -> Result<Vec<Bytes>> {
    let mut fetched = Vec::with_capacity(wanted.len());
    for Fetch { range, .. } in wanted {
        let mut bytes = vec![0; usize::try_from(range.end - range.start)?];
        file.seek(SeekFrom::Start(range.start))?;
        file.read_exact(&mut bytes)?;
        fetched.push(Bytes::from(bytes));
    }
    Ok(fetched)
}
