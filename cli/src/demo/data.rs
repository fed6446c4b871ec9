//! The TPC-H tables: made in memory, written once as Fermion and once as Parquet, and found again the next time.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::RecordBatchReader;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::stream;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow};

use crate::context;
use crate::engine::{self, Options, Rows};
use crate::error::{Doing, Error, Result};

/// The tables, the largest first.
pub(crate) const TABLES: [&str; 8] = ["lineitem", "orders", "partsupp", "customer", "part", "supplier", "nation", "region"];

/// The formats that are compared, by the name that the session and SQL know.
pub(crate) const FORMATS: [&str; 2] = ["fermion", "parquet"];

/// Says whose directory this is, from the start; once all files are there, what they are.
const RECORD: &str = "complete.txt";

/// One table in both formats, in the order of [`FORMATS`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) rows: u64,
    pub(crate) bytes: [u64; 2],
    pub(crate) write_time: [Duration; 2],
}

/// The place of a table's file.
pub(crate) fn file(dir: &Path, format: &str, table: &str) -> PathBuf {
    dir.join(format).join(format!("{table}.{format}"))
}

/// The tables that an earlier run left in `dir`, where it ended well and for the same scale, and the files are as long as they were.
pub(crate) fn find(dir: &Path, scale: f64) -> Option<Vec<Table>> {
    let text = fs::read_to_string(dir.join(RECORD)).ok()?;
    let mut lines = text.lines();
    if lines.next()? != heading(scale) {
        return None;
    }
    TABLES.iter().map(|name| recorded(dir, name, lines.next()?)).collect()
}

fn heading(scale: f64) -> String {
    format!("fermion {} tpch {scale}", env!("CARGO_PKG_VERSION"))
}

fn recorded(dir: &Path, name: &'static str, line: &str) -> Option<Table> {
    let mut words = line.split(' ');
    if words.next()? != name {
        return None;
    }
    let mut number = || u64::from_str(words.next()?).ok();
    let rows = number()?;
    let write_time = [Duration::from_micros(number()?), Duration::from_micros(number()?)];
    let bytes = [number()?, number()?];
    let is_whole = |(format, bytes): (&str, u64)| fs::metadata(file(dir, format, name)).is_ok_and(|metadata| metadata.len() == bytes);
    FORMATS.into_iter().zip(bytes).all(is_whole).then_some(Table { name, rows, bytes, write_time })
}

/// Takes `dir` for the demonstration: it is made if need be, and refused if it holds what somebody else put there.
fn claim(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).doing(|| format!("cannot make '{}'", dir.display()))?;
    let mut entries = fs::read_dir(dir).doing(|| format!("cannot list '{}'", dir.display()))?;
    let record = dir.join(RECORD);
    let is_ours =
        fs::read_to_string(&record).is_ok_and(|text| text.starts_with("fermion ") && text.lines().next().is_some_and(|line| line.contains(" tpch")));
    if entries.next().is_some() && !is_ours {
        return Err(Error::failed(format!("'{}' holds other files: name a new or an empty directory with --dir", dir.display())));
    }
    fs::write(&record, "fermion demo of tpch, not complete\n").doing(|| format!("cannot write '{}'", record.display()))
}

/// Makes all tables and writes them into `dir`; `done` is told of each.
pub(crate) async fn make(dir: &Path, scale: f64, mut done: impl FnMut(&Table) -> Result<()>) -> Result<Vec<Table>> {
    claim(dir)?;
    for format in FORMATS {
        let folder = dir.join(format);
        fs::create_dir_all(&folder).doing(|| format!("cannot make '{}'", folder.display()))?;
    }
    let mut text = heading(scale) + "\n";
    let mut tables = Vec::with_capacity(TABLES.len());
    for name in TABLES {
        let table = make_table(dir, name, scale).await?;
        let ([fermion, parquet], [fermion_bytes, parquet_bytes]) = (table.write_time.map(|time| time.as_micros()), table.bytes);
        text += &format!("{name} {} {fermion} {parquet} {fermion_bytes} {parquet_bytes}\n", table.rows);
        done(&table)?;
        tables.push(table);
    }
    let record = dir.join(RECORD);
    fs::write(&record, text).doing(|| format!("cannot write '{}'", record.display()))?;
    Ok(tables)
}

async fn make_table(dir: &Path, name: &'static str, scale: f64) -> Result<Table> {
    let (schema, batches) = tokio::task::spawn_blocking(move || generate(name, scale)).await.map_err(|_| Error::failed("making data failed"))??;
    let mut table = Table { name, rows: 0, bytes: [0; 2], write_time: [Duration::ZERO; 2] };
    for (at, format_name) in FORMATS.iter().enumerate() {
        let path = file(dir, format_name, name);
        let started = Instant::now();
        table.rows = write(format_name, &schema, &batches, &path).await.doing(|| format!("cannot write '{}'", path.display()))?;
        table.write_time[at] = started.elapsed();
        table.bytes[at] = fs::metadata(&path).doing(|| format!("cannot read '{}'", path.display()))?.len();
    }
    Ok(table)
}

/// With the defaults of the format: for Parquet that is ZSTD at level 3.
async fn write(format: &str, schema: &SchemaRef, batches: &Arc<[RecordBatch]>, path: &Path) -> datafusion::error::Result<u64> {
    let ctx: SessionContext = context::session(SessionConfig::new(), Arc::default())?;
    let format = engine::format(&ctx, format, &Options::new())?;
    let (schema, batches) = (Arc::clone(schema), Arc::clone(batches));
    let rows = Rows::new(Arc::clone(&schema), move |_| {
        let batches = Arc::clone(&batches);
        let each = (0..batches.len()).filter_map(move |at| batches.get(at).cloned());
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), stream::iter(each.map(Ok::<_, DataFusionError>))))
    });
    engine::write(&ctx, format.as_ref(), rows, None, path).await
}

/// A table's rows, made by all processors and put together in order.
fn generate(name: &str, scale: f64) -> Result<(SchemaRef, Arc<[RecordBatch]>)> {
    let parts = i32::try_from(thread::available_parallelism().map_or(1, usize::from)).unwrap_or(1);
    // Below this the parts of small tables would be empty, and nation and region do not divide.
    let parts = if scale < 0.01 || matches!(name, "nation" | "region") { 1 } else { parts };
    let made: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (1..=parts).map(|part| scope.spawn(move || generate_part(name, scale, part, parts))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(ArrowError::ComputeError("a thread ended early".into())))).collect()
    });
    let mut schema = None;
    let mut batches = Vec::new();
    for part in made {
        let (part_schema, part_batches) = part?;
        schema = Some(part_schema);
        batches.extend(part_batches);
    }
    let schema = schema.ok_or_else(|| Error::failed("no data was made"))?;
    Ok((schema, batches.into()))
}

fn generate_part(name: &str, scale: f64, part: i32, parts: i32) -> Result<(SchemaRef, Vec<RecordBatch>), ArrowError> {
    let reader: Box<dyn RecordBatchReader> = match name {
        "lineitem" => Box::new(LineItemArrow::new(LineItemGenerator::new(scale, part, parts))),
        "orders" => Box::new(OrderArrow::new(OrderGenerator::new(scale, part, parts))),
        "partsupp" => Box::new(PartSuppArrow::new(PartSuppGenerator::new(scale, part, parts))),
        "customer" => Box::new(CustomerArrow::new(CustomerGenerator::new(scale, part, parts))),
        "part" => Box::new(PartArrow::new(PartGenerator::new(scale, part, parts))),
        "supplier" => Box::new(SupplierArrow::new(SupplierGenerator::new(scale, part, parts))),
        "nation" => Box::new(NationArrow::new(NationGenerator::new(scale, part, parts))),
        "region" => Box::new(RegionArrow::new(RegionGenerator::new(scale, part, parts))),
        _ => return Err(ArrowError::InvalidArgumentError(format!("TPC-H has no table {name}"))),
    };
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>()?;
    Ok((schema, batches))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_empty_and_own_directories_are_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["new", "new"] {
            claim(&path(name)).unwrap();
        }
        fs::create_dir(path("other")).unwrap();
        fs::write(path("other/complete.txt"), "my notes").unwrap();
        assert_eq!(
            claim(&path("other")).unwrap_err().to_string(),
            format!("'{}' holds other files: name a new or an empty directory with --dir", path("other").display())
        );
        assert_eq!(fs::read_to_string(path("other/complete.txt")).unwrap(), "my notes");
    }
}
