//! Files of very many columns, beside Parquet: opening them and reading ten columns without an engine and from memory, and the same through SQL.
//!
//! ```text
//! cargo bench --bench wide -- --columns 1000,10000,100000 --runs 9
//! ```
//!
//! One column in ten has only nulls, and each file has four stripes (row groups). A run opens the file from its bytes, finds ten columns by name, far from each other or
//! side by side, and reads the first rows of them; the sides take turns, and every time is a median. The rows must be the same. [`sql`] says what is measured there; `--only format` or `--only sql` is one of the two, `--sides fermion` leaves Parquet out there, and `--files`
//! says how many files a directory has. `--only writer` measures [`writer`].
//! Prints Markdown to standard output.
#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

#[path = "../tpch/memory.rs"]
mod memory;
mod sql;
mod writer;

use std::env;
use std::error::Error;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use datafusion_fermion::format::fermion::{FermionScan, Open, OpenOptions, ScanRequest, Writer, WriterOptions};
use datafusion_fermion::format::scan::{Answer, Fetch, Load, Loading, Scan, Step};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

/// The allocator of the command line, so that what is measured is what is used.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Columns that are read.
const SOME: usize = 10;
const STRIPES: usize = 4;
const STRIPE_ROWS: usize = 100;

fn main() -> Result<()> {
    let options = Options::parse(env::args().skip(1))?;
    if !options.bench {
        println!("nothing to test here; `cargo bench --bench wide` measures");
        return Ok(());
    }
    if options.only.is_empty() || options.only == "format" {
        println!("Opening a file in memory and reading {SOME} columns of it; `cargo bench --bench wide`\n");
        println!("| columns | | file, MB | metadata read, KB | reads | open, ms | and read {SOME} columns, ms | faster by |");
        println!("|--:|---|--:|--:|--:|--:|--:|--:|");
        options.columns.iter().try_for_each(|columns| compare(*columns, options.runs))?;
    }
    if options.only.is_empty() || options.only == "sql" {
        sql::measure(&options)?;
    }
    // What the others have used is not given back: a process of its own says more.
    if options.only == "writer" { writer::measure(&options) } else { Ok(()) }
}

struct Options {
    /// Cargo says `--bench` when it wants to measure and not when it tests.
    bench: bool,
    columns: Vec<usize>,
    runs: usize,
    only: String,
    /// Formats that are measured through SQL.
    sides: Vec<&'static str>,
    /// Files of a directory.
    files: usize,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options =
            Self { bench: false, columns: vec![1_000, 10_000, 100_000], runs: 9, only: String::new(), sides: sql::FORMATS.to_vec(), files: 100 };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--bench" => options.bench = true,
                "--test" => {}
                "--columns" => options.columns = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?,
                "--runs" => options.runs = value()?.parse::<usize>()?.max(1),
                "--only" => options.only = value()?,
                "--files" => options.files = value()?.parse()?,
                "--sides" => {
                    let wanted = value()?;
                    options.sides.retain(|side| wanted.split(',').any(|name| name == *side));
                }
                other => return Err(format!("unknown option {other}").into()),
            }
        }
        Ok(options)
    }
}

/// One side's way to read a file.
struct Side<'a> {
    name: &'static str,
    file: &'a Bytes,
    wanted: &'a Wanted,
    read: fn(&Bytes, &[String]) -> Result<Read>,
}

/// Columns that are read, and their first rows.
struct Wanted {
    names: Vec<String>,
    rows: RecordBatch,
}

impl Wanted {
    fn new(batch: &RecordBatch, columns: &[usize]) -> Result<Self> {
        Ok(Self { names: columns.iter().map(|column| name(*column)).collect(), rows: batch.project(columns)?.slice(0, STRIPE_ROWS) })
    }
}

/// What a run cost, and what it gave.
struct Read {
    opened: Duration,
    total: Duration,
    metadata_bytes: u64,
    requests: usize,
    rows: RecordBatch,
}

fn compare(columns: usize, runs: usize) -> Result<()> {
    let batch = batch(columns)?;
    let far = &Wanted::new(&batch, &(0..SOME).map(|index| index * (columns / SOME) + index % 3).collect::<Vec<_>>())?;
    let near = &Wanted::new(&batch, &(columns / 2..columns / 2 + SOME).collect::<Vec<_>>())?;
    let [parquet, fermion, no_cit] = &[write_parquet(&batch)?, write_fermion(&batch, 0)?, write_fermion(&batch, 4 << 20)?];
    drop(batch);
    let side = |name, file, wanted, read| Side { name, file, wanted, read };
    let lazy = |file: &Bytes, names: &[String]| read_fermion(file, names, &LAZY);
    let hinted = |file: &Bytes, names: &[String]| read_fermion(file, names, &OpenOptions { prefetch: 8 << 20, ..LAZY });
    let mut sides = vec![
        side("Parquet", parquet, far, read_parquet),
        side("Fermion", fermion, far, lazy),
        side("Fermion, columns side by side", fermion, near, lazy),
        side("Fermion, hint of 8 MiB", fermion, far, hinted),
        side("the same, columns side by side", fermion, near, hinted),
        side("Fermion, all metadata", fermion, far, |file, names| read_fermion(file, names, &OpenOptions::default())),
    ];
    // Of more metadata than may be left without it, this is the same file.
    if no_cit != fermion {
        sides.push(side("Fermion, no CIT", no_cit, far, lazy));
    }
    let [opened, parsed] = parse_all(fermion, runs)?;
    println!("| {columns} | Fermion, metadata of all columns parsed | {:.1} | | 2 | {opened:.2} | {parsed:.2} | |", fermion.len() as f64 / 1e6);
    let mut reads: Vec<Vec<Read>> = sides.iter().map(|_| Vec::new()).collect();
    for _ in 0..runs {
        for (side, reads) in sides.iter().zip(&mut reads) {
            reads.push((side.read)(side.file, &side.wanted.names)?);
        }
    }
    let median = |reads: &[Read], of: fn(&Read) -> Duration| median(reads.iter().map(of).collect());
    let slowest = median(&reads[0], |read| read.total);
    for (side, reads) in sides.iter().zip(&reads) {
        if reads.iter().any(|read| read.rows.columns() != side.wanted.rows.columns()) {
            return Err(format!("{} gives other rows", side.name).into());
        }
        let (opened, total) = (median(reads, |read| read.opened), median(reads, |read| read.total));
        println!(
            "| {columns} | {} | {:.1} | {:.1} | {} | {opened:.2} | {total:.2} | {:.1} |",
            side.name,
            side.file.len() as f64 / 1e6,
            reads[0].metadata_bytes as f64 / 1e3,
            reads[0].requests,
            slowest / total
        );
    }
    Ok(())
}

/// Milliseconds to fetch the metadata of all columns, and to read it, too.
fn parse_all(file: &Bytes, runs: usize) -> Result<[f64; 2]> {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..runs {
        let (start, mut traffic) = (Instant::now(), (0, 0));
        let meta = Arc::new(load(file, Open::new(file.len() as u64, &OpenOptions { eager_load_threshold: u64::MAX, ..LAZY })?, &mut traffic)?);
        times[0].push(start.elapsed());
        load(file, meta.load_columns(&(0..meta.column_count()).collect::<Vec<_>>()), &mut traffic)?;
        times[1].push(start.elapsed());
    }
    Ok(times.map(median))
}

/// In milliseconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}

fn name(column: usize) -> String {
    format!("feature_{column:06}")
}

fn batch(columns: usize) -> Result<RecordBatch> {
    rows(columns, 0..STRIPES * STRIPE_ROWS)
}

/// Some rows of a table of so many columns.
fn rows(columns: usize, rows: Range<usize>) -> Result<RecordBatch> {
    let numbers = |column: usize| rows.clone().map(move |row| (row * 7919 + column * 104_729) % 65_521);
    let array = |column: usize| -> ArrayRef {
        match column % 10 {
            9 => new_null_array(&DataType::Float64, rows.len()),
            0 => Arc::new(Int64Array::from_iter_values((0_i64..).skip(rows.start).take(rows.len()).map(|row| row * 3))),
            4 => Arc::new(StringArray::from_iter_values(numbers(column).map(|number| format!("label {}", number % 20)))),
            _ => Arc::new(Float64Array::from_iter_values(numbers(column).map(|number| number as f64 / 100.0))),
        }
    };
    let arrays: Vec<ArrayRef> = (0..columns).map(array).collect();
    let fields: Vec<Field> = arrays.iter().enumerate().map(|(column, array)| Field::new(name(column), array.data_type().clone(), true)).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

fn write_parquet(batch: &RecordBatch) -> Result<Bytes> {
    let properties =
        WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?)).set_max_row_group_row_count(Some(STRIPE_ROWS)).build();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties))?;
    writer.write(batch)?;
    writer.close()?;
    Ok(file.into())
}

fn write_fermion(batch: &RecordBatch, no_cit_below: usize) -> Result<Bytes> {
    let mut writer = Writer::new(batch.schema(), WriterOptions { stripe_rows: STRIPE_ROWS, no_cit_below, ..Default::default() })?;
    writer.push(batch)?;
    let (parts, _) = writer.finish()?;
    Ok(parts.concat().into())
}

fn read_parquet(file: &Bytes, names: &[String]) -> Result<Read> {
    let start = Instant::now();
    let builder = ParquetRecordBatchReaderBuilder::try_new(file.clone())?;
    let opened = start.elapsed();
    let mask = ProjectionMask::columns(builder.parquet_schema(), names.iter().map(String::as_str));
    let rows = builder.with_projection(mask).build()?.next().ok_or("there are no rows")??;
    let total = start.elapsed();
    // The footer says how long it is.
    let tail = file.slice(file.len() - 8..);
    let length = tail.first_chunk::<4>().map_or(0, |length| u64::from(u32::from_le_bytes(*length)));
    Ok(Read { opened, total, metadata_bytes: length + 8, requests: 2, rows: rows.slice(0, STRIPE_ROWS) })
}

/// As of a file of this machine: metadata of columns is read when it is used.
const LAZY: OpenOptions = OpenOptions { prefetch: 512 << 10, eager_load_threshold: 0 };

fn read_fermion(file: &Bytes, names: &[String], options: &OpenOptions) -> Result<Read> {
    let start = Instant::now();
    let mut traffic = (0, 0);
    let meta = Arc::new(load(file, Open::new(file.len() as u64, options)?, &mut traffic)?);
    let opened = start.elapsed();
    let columns: Vec<usize> = names.iter().map(|name| meta.index_of(name).ok_or("no such column")).collect::<Result<_, _>>()?;
    let fields = columns.iter().map(|column| meta.field(*column)).collect::<Result<Vec<_>, _>>()?;
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    load(file, meta.load_columns(&columns), &mut traffic)?;
    let mut scan = FermionScan::new(meta, ScanRequest::new(columns, schema))?;
    let mut answer = Answer::Next;
    loop {
        answer = match scan.step(answer)? {
            Step::Fetch(fetches) => Answer::Fetched(fetches.iter().map(|fetch| cut(file, &fetch.range)).collect::<Result<_>>()?),
            Step::Decode(mut morsel) => {
                let rows = morsel.next_batch()?.ok_or("there are no rows")?;
                return Ok(Read { opened, total: start.elapsed(), metadata_bytes: traffic.0, requests: traffic.1, rows });
            }
            step => return Err(format!("{step:?}").into()),
        };
    }
}

fn load<L: Load>(file: &Bytes, mut load: L, (bytes, requests): &mut (u64, usize)) -> Result<L::Output> {
    let mut fetched = Vec::new();
    loop {
        match load.resume(fetched)? {
            Loading::Ready(output) => return Ok(output),
            Loading::Fetch(fetches) => {
                *requests += fetches.len();
                *bytes += fetches.iter().map(|Fetch { range, .. }| range.end - range.start).sum::<u64>();
                fetched = fetches.iter().map(|fetch| cut(file, &fetch.range)).collect::<Result<_>>()?;
            }
        }
    }
}

fn cut(file: &Bytes, range: &Range<u64>) -> Result<Bytes> {
    Ok(file.slice(usize::try_from(range.start)?..usize::try_from(range.end)?))
}
