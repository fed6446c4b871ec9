//! `fermion inspect`: what a file is made of. `fermion verify`: whether it is whole.

mod verify;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::arrow::json::ArrayWriter;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::{SessionConfig, SessionContext};
use url::Url;

pub(crate) use self::verify::{VerifyArgs, run as verify};
use crate::error::{Doing, Error, Result};
use crate::units::{grouped, size};
use crate::{context, output};

/// Wider tables are shown by their largest columns.
const COLUMNS_SHOWN: usize = 100;

/// The page that draws a file, but for its parts.
const MAP: &str = include_str!("map.html");
/// Where in it they go.
const MAP_PARTS: &str = "/*parts*/null";

/// Which file, and how to show it.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// A Fermion file
    file: PathBuf,

    /// Show the pages of one column, which are read for it
    #[arg(long, value_name = "NAME")]
    column: Option<String>,

    /// html is a page that draws what takes the space, by column, stream and encoding; the whole file is read for it
    #[arg(long, value_enum, default_value_t = Style::Text)]
    format: Style,

    /// Write to a file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// How a file is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Style {
    Text,
    Json,
    Html,
}

/// Shows the file.
pub(crate) async fn run(args: InspectArgs) -> Result<()> {
    let file = File::open(&args.file)?;
    let shown = match (args.format, &args.column) {
        (Style::Text, None) => file.text().await?,
        (Style::Text, Some(column)) => table(&file.query(&file.pages_of(column)).await?)?,
        (Style::Json, None) => file.json().await?,
        (Style::Json, Some(column)) => json(&file.query(&file.pages_of(column)).await?)?,
        (Style::Html, None) => file.html().await?,
        (Style::Html, Some(_)) => return Err(Error::failed("--format html draws the whole file; leave out --column")),
    };
    match &args.output {
        None => output::line(format_args!("{}", shown.trim_end())),
        Some(path) => fs::write(path, shown).doing(|| format!("cannot write '{}'", path.display())),
    }
}

/// A file that is looked at by means of SQL.
struct File {
    ctx: SessionContext,
    /// As it was named.
    name: String,
    /// In quotes.
    quoted: String,
}

impl File {
    fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        if name.contains("://") {
            return Err(Error::failed(format!(
                "'{name}' is not on this machine: in the shell, fermion_metadata('{name}'), fermion_columns, fermion_pages and fermion_verify are tables of it"
            )));
        }
        let metadata = fs::metadata(path).doing(|| format!("cannot open '{name}'"))?;
        if metadata.is_dir() {
            return Err(Error::failed(format!("'{name}' is a directory; name a file")));
        }
        // Characters of patterns are part of the name.
        let whole = fs::canonicalize(path).doing(|| format!("cannot find '{name}'"))?;
        let url = Url::from_file_path(&whole).map_err(|()| Error::failed(format!("cannot name '{name}'")))?;
        let ctx = context::session(SessionConfig::new(), Arc::default())?;
        Ok(Self { ctx, quoted: format!("'{}'", url.as_str().replace('\'', "''")), name })
    }

    async fn query(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        Ok(self.ctx.sql(sql).await?.collect().await?)
    }

    fn pages_of(&self, column: &str) -> String {
        let columns = r#"part, stripe, stream, holds, "offset", bytes, slots, nulls, min, max, encoding"#;
        format!("SELECT {columns} FROM fermion_pages({}, '{}') ORDER BY \"offset\"", self.quoted, column.replace('\'', "''"))
    }

    async fn metadata(&self) -> Result<Vec<RecordBatch>> {
        self.query(&format!("SELECT * EXCLUDE (file) FROM fermion_metadata({})", self.quoted)).await
    }

    async fn columns(&self, shown: &str, limit: usize) -> Result<Vec<RecordBatch>> {
        let largest = format!("SELECT * FROM fermion_columns({}) ORDER BY bytes DESC, column_index LIMIT {limit}", self.quoted);
        self.query(&format!("SELECT {shown} FROM ({largest}) ORDER BY column_index")).await
    }

    async fn text(&self) -> Result<String> {
        let metadata = self.metadata().await?;
        let number = |name: &str| number(&metadata, name);
        let flags = [("checksums", "checksums"), ("dictionaries", "shared dictionaries"), ("bloom_filters", "bloom filters"), ("batches", "batches")];
        let flags: Vec<&str> = flags.into_iter().filter(|(name, _)| flag(&metadata, name)).map(|(_, text)| text).collect();
        let mut lines = vec![
            format!(
                "{}: Fermion {}, {}, {}, {}, {}",
                self.name,
                text_of(&metadata, "version").unwrap_or_default(),
                counted(number("rows"), "row"),
                counted(number("columns"), "column"),
                counted(number("stripes"), "stripe"),
                size(number("bytes"))
            ),
            format!(
                "data {}, metadata of columns {}, schema {}, index of columns {}, list of stripes {}",
                size(number("data_bytes")),
                size(number("column_metadata_bytes")),
                size(number("schema_bytes")),
                size(number("column_index_bytes")),
                size(number("stripe_directory_bytes"))
            ),
            format!(
                "with {}",
                if flags.is_empty() { "neither checksums, shared dictionaries nor bloom filters".to_owned() } else { flags.join(", ") }
            ),
        ];
        lines.extend(text_of(&metadata, "ordering").map(|ordering| format!("in the order of {ordering}")));
        let shown = r#""column", left(type, 40) AS type, bytes, nulls, left(min, 20) AS min, left(max, 20) AS max"#;
        lines.push(table(&self.columns(shown, COLUMNS_SHOWN).await?)?);
        let columns = usize::try_from(number("columns")).unwrap_or(usize::MAX);
        if columns > COLUMNS_SHOWN {
            lines.push(format!("and {} smaller ones (--format json shows all)", grouped((columns - COLUMNS_SHOWN) as u64)));
        }
        Ok(lines.join("\n"))
    }

    async fn json(&self) -> Result<String> {
        let (metadata, columns) = (json(&self.metadata().await?)?, json(&self.columns("* EXCLUDE (file)", i32::MAX.unsigned_abs() as usize).await?)?);
        let file = metadata.trim().trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(format!("{{\"file\":{file},\"columns\":{columns}}}"))
    }

    /// The map: parts of the same column that are alike are one.
    async fn html(&self) -> Result<String> {
        let parts = self
            .query(&format!(
                r#"SELECT "column", part, holds, stream, encoding, sum(bytes) AS bytes, count(*) AS count, sum(slots) AS slots
                   FROM fermion_pages({}) GROUP BY "column", part, holds, stream, encoding ORDER BY min("offset")"#,
                self.quoted
            ))
            .await?;
        // A name may hold what ends a script, or begins one.
        let [file, parts] = [json(&self.metadata().await?)?, json(&parts)?].map(|json| json.replace('<', "\\u003c"));
        let name = self.name.replace('&', "&amp;").replace('<', "&lt;");
        let (head, tail) = MAP.split_once(MAP_PARTS).unwrap_or((MAP, ""));
        Ok(format!("{}{{\"file\":{file}[0],\"parts\":{parts}}}{tail}", head.replace("<!--name-->", &name)))
    }
}

/// "1 row", "2,000 rows".
fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

fn table(batches: &[RecordBatch]) -> Result<String> {
    Ok(pretty_format_batches(batches)?.to_string())
}

fn json(batches: &[RecordBatch]) -> Result<String> {
    let mut writer = ArrayWriter::new(Vec::new());
    writer.write_batches(&batches.iter().collect::<Vec<_>>())?;
    writer.finish()?;
    let text = String::from_utf8(writer.into_inner()).map_err(|error| Error::Output(io::Error::other(error)))?;
    Ok(if text.is_empty() { "[]".to_owned() } else { text })
}

/// A number of the first row; 0 where there is none.
fn number(batches: &[RecordBatch], name: &str) -> u64 {
    let column = batches.first().and_then(|batch| batch.column_by_name(name)?.as_primitive_opt::<Int64Type>().cloned());
    column.filter(|column| !column.is_empty()).map_or(0, |column| u64::try_from(column.value(0)).unwrap_or(0))
}

fn flag(batches: &[RecordBatch], name: &str) -> bool {
    let column = batches.first().and_then(|batch| batch.column_by_name(name)?.as_boolean_opt().cloned());
    column.is_some_and(|column| column.iter().next().flatten() == Some(true))
}

fn text_of(batches: &[RecordBatch], name: &str) -> Option<String> {
    let column = batches.first()?.column_by_name(name)?.as_string_opt::<i32>()?;
    column.iter().next().flatten().map(str::to_owned)
}
