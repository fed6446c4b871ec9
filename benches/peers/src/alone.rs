//! Formats without an engine, over the same files in memory: opening one, finding ten columns by name and reading them.

use std::fs;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{FieldRef, Schema};
use bytes::Bytes;
use datafusion_fermion::format::fermion::{FermionScan, Open, OpenOptions, ScanRequest};
use datafusion_fermion::format::scan::{Answer, Load, Loading, Scan, Step};
use futures::TryStreamExt;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use vortex::VortexSessionDefault;
use vortex::array::VortexSessionExecute;
use vortex::array::expr::{root, select};
use vortex::arrow::ArrowSessionExt;
use vortex::buffer::ByteBuffer;
use vortex::file::OpenOptionsSessionExt;
use vortex::session::VortexSession;

use crate::dataset::Tables;
use crate::side::{Files, Side};
use crate::{Result, median};

/// What a side took.
pub(crate) struct Alone {
    pub(crate) columns: usize,
    pub(crate) side: &'static str,
    pub(crate) open: Duration,
    /// Opening and reading.
    pub(crate) read: Duration,
}

/// When the file was open, when it was read, and how many values were null and how many were not, so that sides can be compared.
type Run = (Duration, Duration, [usize; 2]);

/// Measures the sides that have files of their own, in turn.
pub(crate) async fn measure(columns: usize, names: &[String], tables: &Tables, sides: &[Side], runs: usize) -> Result<Vec<Alone>> {
    let mut files: Vec<(Files, Bytes)> = Vec::new();
    for side in sides {
        if let Some(of) = side.files.filter(|of| files.iter().all(|(known, _)| known != of)) {
            files.push((of, fs::read(tables.path("wide", of))?.into()));
        }
    }
    let mut times: Vec<(Vec<Duration>, Vec<Duration>)> = files.iter().map(|_| Default::default()).collect();
    let mut expected = None;
    for _ in 0..runs {
        for ((of, file), (opens, reads)) in files.iter().zip(&mut times) {
            let (open, read, values) = match of.stored_as {
                "PARQUET" => parquet(file, names)?,
                "VORTEX" => vortex(file, names).await?,
                _ => fermion(file, names)?,
            };
            if *expected.get_or_insert(values) != values {
                return Err(format!("{} read other values", of.folder).into());
            }
            opens.push(open);
            reads.push(read);
        }
    }
    let of = |((files, _), (opens, reads)): (&(Files, Bytes), (Vec<Duration>, Vec<Duration>))| {
        Some(Alone { columns, side: files.folder, open: median(opens)?, read: median(reads)? })
    };
    Ok(files.iter().zip(times).filter_map(of).collect())
}

fn count<'a>(arrays: impl IntoIterator<Item = &'a ArrayRef>, [nulls, values]: &mut [usize; 2]) {
    for array in arrays {
        *nulls += array.null_count();
        *values += array.len() - array.null_count();
    }
}

fn parquet(file: &Bytes, names: &[String]) -> Result<Run> {
    let (start, mut values) = (Instant::now(), [0; 2]);
    let builder = ParquetRecordBatchReaderBuilder::try_new(file.clone())?;
    let opened = start.elapsed();
    let mask = ProjectionMask::columns(builder.parquet_schema(), names.iter().map(String::as_str));
    for batch in builder.with_projection(mask).build()? {
        count(batch?.columns(), &mut values);
    }
    Ok((opened, start.elapsed(), values))
}

async fn vortex(file: &Bytes, names: &[String]) -> Result<Run> {
    let session = VortexSession::default();
    let (start, mut values) = (Instant::now(), [0; 2]);
    let file = session.open_options().open_buffer(ByteBuffer::from(file.clone()))?;
    let opened = start.elapsed();
    let columns: Vec<Arc<str>> = names.iter().map(|name| Arc::from(name.as_str())).collect();
    let projection = select(columns, root()).bind(file.dtype())?.optimize_recursive()?;
    let stream = file.scan()?.with_projection(projection).map(move |chunk| {
        let mut context = session.create_execution_ctx();
        let session = context.session().clone();
        session.arrow().execute_arrow(chunk, None, &mut context)
    });
    let mut stream = std::pin::pin!(stream.into_stream()?);
    while let Some(rows) = stream.try_next().await? {
        let rows = rows.as_any().downcast_ref::<arrow::array::StructArray>().ok_or("not rows")?.clone();
        count(rows.columns(), &mut values);
    }
    Ok((opened, start.elapsed(), values))
}

fn fermion(file: &Bytes, names: &[String]) -> Result<Run> {
    let (start, mut values) = (Instant::now(), [0; 2]);
    let meta = Arc::new(load(file, Open::new(file.len() as u64, &OpenOptions { eager_load_threshold: 0, ..Default::default() })?)?);
    let opened = start.elapsed();
    let columns: Vec<usize> = names.iter().map(|name| meta.index_of(name).ok_or("no such column")).collect::<Result<_, _>>()?;
    let fields = columns.iter().map(|column| meta.field(*column)).collect::<Result<Vec<FieldRef>, _>>()?;
    load(file, meta.load_columns(&columns))?;
    let mut scan = FermionScan::new(meta, ScanRequest::new(columns, Arc::new(Schema::new(fields))))?;
    let mut answer = Answer::Next;
    loop {
        answer = match scan.step(answer)? {
            Step::Fetch(fetches) => Answer::Fetched(fetches.iter().map(|fetch| cut(file, &fetch.range)).collect::<Result<_>>()?),
            Step::Decode(mut morsel) => {
                while let Some(batch) = morsel.next_batch()? {
                    count(batch.columns(), &mut values);
                }
                Answer::Next
            }
            Step::Done => return Ok((opened, start.elapsed(), values)),
            step => return Err(format!("{step:?}").into()),
        };
    }
}

fn load<L: Load>(file: &Bytes, mut load: L) -> Result<L::Output> {
    let mut fetched = Vec::new();
    loop {
        match load.resume(fetched)? {
            Loading::Ready(output) => return Ok(output),
            Loading::Fetch(fetches) => fetched = fetches.iter().map(|fetch| cut(file, &fetch.range)).collect::<Result<_>>()?,
        }
    }
}

fn cut(file: &Bytes, range: &Range<u64>) -> Result<Bytes> {
    Ok(file.slice(usize::try_from(range.start)?..usize::try_from(range.end)?))
}
