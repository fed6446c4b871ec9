//! What the tests need to say and SQL cannot.
//!
//! - `MEASURE m AS SELECT ...` runs a query and registers the metrics of its scans as the table `m(metric, value)`, so that a test can
//!   compare two of them. A pruning metric `x` becomes `x.pruned` and `x.matched`; times are left out.
//! - `FILES 'directory'` lists how many files of which extension each directory below it holds; writers choose names at random.
//! - `TRUNCATE FILE 'path' TO 100` and `FLIP BYTE 100 OF 'path'` damage a file. A negative number counts from the end.
//! - `BEGINNING AND END OF 'path'` tells the magics of an Alkaid or Arrow file, or that it is a stream.
//! - `FOOTER BYTE 68 OF 'path' IS 2` changes a byte of a Fermion file's footer and makes its CRC right again: what another writer may have meant.

use std::collections::BTreeMap;
use std::num::ParseIntError;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::{fs, io};

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::metrics::MetricValue;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use sqllogictest::DBOutput;

use crate::format::{Kind, kinds};

pub(crate) enum Command<'a> {
    Measure { table: &'a str, query: &'a str },
    Files { directory: &'a str },
    Ends { path: &'a str },
    Truncate { path: &'a str, length: i64 },
    Flip { path: &'a str, position: i64 },
    Footer { path: &'a str, position: usize, value: u8 },
}

/// A footer's length, and the part of it that the CRC behind it covers (SPEC section 2).
const FOOTER_LENGTH: usize = 128;
const FOOTER_COVERED: usize = 116;

impl<'a> Command<'a> {
    /// The command in `sql`, or `None` if it is SQL.
    pub(crate) fn parse(sql: &'a str) -> Result<Option<Self>> {
        let command = sql.trim().trim_end_matches(';');
        if let Some((table, query)) = command.strip_prefix("MEASURE ").and_then(|rest| rest.split_once(" AS ")) {
            return Ok(Some(Self::Measure { table, query }));
        }
        if let Some(directory) = command.strip_prefix("FILES ") {
            return Ok(Some(Self::Files { directory: unquote(directory) }));
        }
        if let Some(path) = command.strip_prefix("BEGINNING AND END OF ") {
            return Ok(Some(Self::Ends { path: unquote(path) }));
        }
        if let Some((path, length)) = command.strip_prefix("TRUNCATE FILE ").and_then(|rest| rest.split_once(" TO ")) {
            return Ok(Some(Self::Truncate { path: unquote(path), length: number(length)? }));
        }
        if let Some((position, path)) = command.strip_prefix("FLIP BYTE ").and_then(|rest| rest.split_once(" OF ")) {
            return Ok(Some(Self::Flip { path: unquote(path), position: number(position)? }));
        }
        if let Some((position, rest)) = command.strip_prefix("FOOTER BYTE ").and_then(|rest| rest.split_once(" OF "))
            && let Some((path, value)) = rest.split_once(" IS ")
        {
            return Ok(Some(Self::Footer { path: unquote(path), position: number(position)?, value: number(value)? }));
        }
        Ok(None)
    }

    pub(crate) async fn run(self, context: &SessionContext) -> Result<DBOutput<Kind>> {
        match self {
            Self::Measure { table, query } => measure(context, table, query).await?,
            Self::Files { directory } => return files(Path::new(directory)),
            Self::Ends { path } => return ends(&fs::read(path)?),
            Self::Truncate { path, length } => {
                let mut bytes = fs::read(path)?;
                bytes.truncate(position(&bytes, length)?);
                fs::write(path, bytes)?;
            }
            Self::Flip { path, position: at } => {
                let mut bytes = fs::read(path)?;
                let at = position(&bytes, at)?;
                let byte = bytes.get_mut(at).ok_or_else(|| io::Error::other("no such byte"))?;
                *byte ^= 0xFF;
                fs::write(path, bytes)?;
            }
            Self::Footer { path, position, value } => {
                let mut bytes = fs::read(path)?;
                change_footer(&mut bytes, position, value).ok_or_else(|| io::Error::other("no such byte"))?;
                fs::write(path, bytes)?;
            }
        }
        Ok(DBOutput::StatementComplete(0))
    }
}

fn unquote(text: &str) -> &str {
    text.trim().trim_matches('\'')
}

fn number<T: FromStr<Err = ParseIntError>>(text: &str) -> Result<T> {
    text.trim().parse().map_err(|error: ParseIntError| DataFusionError::External(Box::new(error)))
}

fn change_footer(bytes: &mut [u8], position: usize, value: u8) -> Option<()> {
    let start = bytes.len().checked_sub(FOOTER_LENGTH)?;
    let footer = bytes.get_mut(start..)?;
    *footer.get_mut(..FOOTER_COVERED)?.get_mut(position)? = value;
    let crc = crc32fast::hash(footer.get(..FOOTER_COVERED)?);
    footer.get_mut(FOOTER_COVERED..)?.get_mut(..4)?.copy_from_slice(&crc.to_le_bytes());
    Some(())
}

fn position(bytes: &[u8], position: i64) -> io::Result<usize> {
    let length = i64::try_from(bytes.len()).map_err(io::Error::other)?;
    let from_start = if position < 0 { length.saturating_add(position) } else { position };
    usize::try_from(from_start).map_err(io::Error::other)
}

async fn measure(context: &SessionContext, table: &str, query: &str) -> Result<()> {
    let frame = context.sql(query).await?;
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await?;
    collect(Arc::clone(&plan), task).await?;
    let mut totals = BTreeMap::new();
    add_scan_metrics(plan.as_ref(), &mut totals);
    let schema = Schema::new(vec![Field::new("metric", DataType::Utf8, false), Field::new("value", DataType::Int64, false)]);
    let values = totals.values().map(|&value| i64::try_from(value).unwrap_or(i64::MAX));
    let columns = vec![Arc::new(StringArray::from_iter_values(totals.keys())) as _, Arc::new(Int64Array::from_iter_values(values)) as _];
    context.deregister_table(table)?;
    context.register_batch(table, RecordBatch::try_new(Arc::new(schema), columns)?)?;
    Ok(())
}

fn add_scan_metrics(plan: &dyn ExecutionPlan, totals: &mut BTreeMap<String, usize>) {
    let children = plan.children();
    // Two kinds of nodes read files.
    if children.is_empty() || plan.name() == "LateColumnsExec" {
        let mut add = |name: String, value: usize| {
            let total = totals.entry(name).or_default();
            *total = total.saturating_add(value);
        };
        for metric in plan.metrics().iter().flat_map(|metrics| metrics.iter()) {
            match metric.value() {
                MetricValue::PruningMetrics { name, pruning_metrics } => {
                    add(format!("{name}.pruned"), pruning_metrics.pruned());
                    add(format!("{name}.matched"), pruning_metrics.matched());
                }
                count @ (MetricValue::Count { .. } | MetricValue::OutputRows(_)) => add(count.name().to_owned(), count.as_usize()),
                _ => {}
            }
        }
    }
    for child in children {
        add_scan_metrics(child.as_ref(), totals);
    }
}

/// Whose magic the bytes begin with, and end with.
fn ends(bytes: &[u8]) -> Result<DBOutput<Kind>> {
    let magic = |found: fn(&[u8], &[u8]) -> bool| ["ALKAID1", "ARROW1"].into_iter().find(|magic| found(bytes, magic.as_bytes())).unwrap_or("stream");
    let row = vec![magic(<[u8]>::starts_with).to_owned(), magic(<[u8]>::ends_with).to_owned()];
    let types = [DataType::Utf8, DataType::Utf8].map(|data_type| Field::new("", data_type, false));
    Ok(DBOutput::Rows { types: kinds(&Schema::new(types.to_vec())), rows: vec![row] })
}

fn files(directory: &Path) -> Result<DBOutput<Kind>> {
    let mut counts = BTreeMap::new();
    count_files(directory, "", &mut counts)?;
    let rows = counts.into_iter().map(|((parent, extension), count): ((String, String), i64)| vec![parent, extension, count.to_string()]);
    let types = [DataType::Utf8, DataType::Utf8, DataType::Int64].map(|data_type| Field::new("", data_type, false));
    Ok(DBOutput::Rows { types: kinds(&Schema::new(types.to_vec())), rows: rows.collect() })
}

fn count_files(directory: &Path, name: &str, counts: &mut BTreeMap<(String, String), i64>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            let child = path.file_name().unwrap_or_default().to_string_lossy();
            count_files(&path, &format!("{name}{child}/"), counts)?;
        } else {
            let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
            let folder = if name.is_empty() { "./" } else { name };
            let count = counts.entry((folder.to_owned(), extension)).or_default();
            *count = count.saturating_add(1);
        }
    }
    Ok(())
}
