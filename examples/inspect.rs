//! Prints what a Fermion file is made of: areas, stripes, and of each column its streams, chunks and pages, with encodings, sizes and statistics.
//!
//! ```text
//! cargo run --example inspect -- FILE [COLUMN …]
//! ```

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::iter;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use arrow::util::display::array_value_to_string;
use bytes::Bytes;
use datafusion_fermion::format::codec::{EncodingTree, PType};
use datafusion_fermion::format::fermion::cmb::{Chunk, Cmb, Pages, StreamType};
use datafusion_fermion::format::fermion::footer::Footer;
use datafusion_fermion::format::fermion::page::{PageExpect, PageHeader, describe};
use datafusion_fermion::format::fermion::read::ColumnMeta;
use datafusion_fermion::format::fermion::stats::{Bounds, Which, ZoneStats, bound_array};
use datafusion_fermion::format::fermion::{FileMeta, Open, OpenOptions};
use datafusion_fermion::format::scan::{Load, Loading};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// The page header's `length` and the root node's `ptype`, counted from the start of a page (SPEC section 6).
const LENGTH_AT: Range<usize> = 4..8;
const PTYPE_AT: usize = 17;

fn main() -> ExitCode {
    let mut out = BufWriter::new(io::stdout().lock());
    let Err(error) = run(&mut out).and_then(|()| Ok(out.flush()?)) else { return ExitCode::SUCCESS };
    // Who reads only the first lines, as `head` does, has seen enough.
    if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    eprintln!("{error}");
    ExitCode::FAILURE
}

fn run(out: &mut impl Write) -> Result<()> {
    let mut arguments = env::args().skip(1);
    let path = arguments.next().ok_or("which file?")?;
    let mut file = File::open(&path).map_err(|error| format!("{path}: {error}"))?;
    let open = Open::new(file.metadata()?.len(), &OpenOptions::default())?;
    let meta = Arc::new(load(&mut file, open)?);
    print_file(out, &path, &meta)?;

    let names: Vec<String> = arguments.collect();
    let columns = if names.is_empty() {
        (0..meta.column_count()).collect()
    } else {
        names.iter().map(|name| meta.index_of(name).ok_or_else(|| format!("there is no column {name}"))).collect::<Result<Vec<_>, _>>()?
    };
    load(&mut file, meta.load_columns(&columns))?;
    columns.into_iter().try_for_each(|column| print_column(out, &mut file, &meta, column))
}

fn print_file(out: &mut impl Write, path: &str, meta: &FileMeta) -> Result<()> {
    let footer = meta.footer();
    let stripes_end = footer.stripes_offset + 24 * u64::from(footer.stripe_count);
    writeln!(
        out,
        "{path}: {} rows, {} columns, {} stripes, {} bytes",
        meta.row_count(),
        meta.column_count(),
        meta.stripes().len(),
        meta.file_length()
    )?;
    writeln!(
        out,
        "version {}.{}, checksums: {}, ordered by: {}",
        footer.version.0,
        footer.version.1,
        meta.has_checksums(),
        meta.ordering().unwrap_or("nothing")
    )?;
    print_area(out, "data", 8..footer.cmb_offset)?;
    print_area(out, "CMBs", footer.cmb_offset..footer.schema_offset)?;
    print_area(out, "schema", footer.schema_offset..footer.cit_offset)?;
    print_area(out, "CIT", footer.cit_offset..footer.stripes_offset)?;
    print_area(out, "stripe directory", footer.stripes_offset..stripes_end)?;
    print_area(out, "footer", meta.file_length() - Footer::LENGTH as u64..meta.file_length())?;
    for (index, stripe) in meta.stripes().iter().enumerate() {
        print_area(out, &format!("stripe {index}: {} rows", stripe.rows), stripe.offset..stripe.end())?;
    }
    Ok(())
}

fn print_area(out: &mut impl Write, name: &str, range: Range<u64>) -> io::Result<()> {
    writeln!(out, "  {name:<28} {:>12} bytes at {}", range.end - range.start, range.start)
}

fn print_column(out: &mut impl Write, file: &mut File, meta: &FileMeta, column: usize) -> Result<()> {
    let field = meta.field(column)?;
    writeln!(out, "\n{} {}{}", field.name(), field.data_type(), if field.is_nullable() { "" } else { " NOT NULL" })?;
    let summary = meta.column_summary(column)?;
    if let Some(summary) = summary {
        let bound =
            |bound: Option<(ArrayRef, bool)>| bound.map_or_else(|| "?".to_owned(), |(value, exact)| shown(&value, if exact { "" } else { "~" }));
        writeln!(
            out,
            "  nulls {}, min {}, max {}",
            summary.null_count.map_or_else(|| "?".to_owned(), |nulls| nulls.to_string()),
            bound(summary.min),
            bound(summary.max)
        )?;
    }
    match meta.column(column)? {
        None => writeln!(out, "  not loaded")?,
        Some(ColumnMeta::AllNull) => writeln!(out, "  null in every row, no CMB")?,
        Some(ColumnMeta::Cmb(cmb)) => {
            print_area(out, "CMB", meta.cmb_range(column)?)?;
            for stream in 0..cmb.streams().len() {
                print_stream(out, file, meta, field.data_type(), &cmb, stream)?;
            }
        }
    }
    Ok(())
}

fn print_stream(out: &mut impl Write, file: &mut File, meta: &FileMeta, data_type: &DataType, cmb: &Cmb, stream: usize) -> Result<()> {
    let Some(stream_type) = cmb.streams().nth(stream).map(|stream| stream.stream_type) else { return Ok(()) };
    let desc_type = cmb.desc_type(stream).map_or_else(String::new, |desc_type| format!("{desc_type:?}"));
    writeln!(out, "  stream {stream}: {stream_type:?}, {desc_type}")?;
    for stripe in 0..meta.stripes().len() {
        match cmb.chunk(stream, stripe)? {
            Chunk::Default => writeln!(out, "    stripe {stripe}: nothing stored")?,
            Chunk::AllNull => writeln!(out, "    stripe {stripe}: nothing stored, all null")?,
            Chunk::Pages(pages) => {
                let statistics = statistics(data_type, &pages.stats, pages.bounds.as_ref())?;
                writeln!(out, "    stripe {stripe}: {} bytes at {}{statistics}", pages.length, pages.offset)?;
                print_pages(out, file, meta, data_type, stream_type, &pages)?;
            }
        }
    }
    Ok(())
}

fn print_pages(out: &mut impl Write, file: &mut File, meta: &FileMeta, data_type: &DataType, stream_type: StreamType, chunk: &Pages) -> Result<()> {
    let mut rest = read(file, chunk.offset..chunk.offset + u64::from(chunk.length))?;
    let mut known = chunk.pages.iter();
    while !rest.is_empty() {
        let length = rest.get(LENGTH_AT).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes).ok_or("a page ends early")?;
        let bytes = rest.split_to(usize::try_from(length)?.clamp(1, rest.len()));
        let (rows, tree) = open_page(bytes, stream_type, meta.has_checksums())?;
        // A dictionary has no rows and no statistics.
        if rows == 0 && !chunk.dictionary.is_empty() {
            writeln!(out, "      dictionary: {} values, {length} bytes", tree.count)?;
            print_tree(out, &tree)?;
            continue;
        }
        // The statistics of a chunk's only page are those of the chunk, and those of a SIMPLE chunk's pages are nowhere.
        let known = known.next().filter(|_| chunk.pages.len() > 1);
        let statistics = known.map_or(Ok(String::new()), |page| statistics(data_type, &page.stats, None))?;
        writeln!(out, "      page: {rows} rows, {length} bytes{statistics}")?;
        print_tree(out, &tree)?;
    }
    Ok(())
}

fn print_tree(out: &mut impl Write, tree: &EncodingTree) -> Result<()> {
    for line in tree.to_string().lines() {
        writeln!(out, "        {line}")?;
    }
    Ok(())
}

/// Takes the page's own word for what it holds.
fn open_page(bytes: Bytes, stream_type: StreamType, checksum: bool) -> Result<(usize, EncodingTree)> {
    let ptype = PType::from_id(*bytes.get(PTYPE_AT).ok_or("a page ends early")?)?;
    let extra = u32::from(stream_type == StreamType::Offsets);
    let tree = describe(&bytes, &PageExpect { ptype, rows: None, extra, checksum, utf8: false })?;
    Ok((PageHeader::read(&bytes)?.rows(), tree))
}

fn statistics(data_type: &DataType, stats: &ZoneStats, bounds: Option<&Bounds>) -> Result<String> {
    let mut text = String::new();
    for (name, which) in [("min", Which::Min), ("max", Which::Max)] {
        let bound = bound_array(data_type, iter::once((*stats, bounds)), which)?;
        if bound.is_valid(0) {
            text += &format!(", {name} {}", shown(&bound, ""));
        }
    }
    if let Some(nulls) = stats.nulls() {
        text += &format!(", {nulls} nulls");
    }
    Ok(text)
}

fn shown(value: &ArrayRef, mark: &str) -> String {
    if value.is_null(0) { "?".to_owned() } else { mark.to_owned() + &array_value_to_string(value, 0).unwrap_or_default() }
}

fn load<L: Load>(file: &mut File, mut loading: L) -> Result<L::Output> {
    let mut fetched = Vec::new();
    loop {
        match loading.resume(fetched)? {
            Loading::Fetch(wanted) => fetched = wanted.into_iter().map(|fetch| read(file, fetch.range)).collect::<Result<_>>()?,
            Loading::Ready(value) => return Ok(value),
        }
    }
}

fn read(file: &mut File, range: Range<u64>) -> Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(range.end - range.start)?];
    file.seek(SeekFrom::Start(range.start))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes.into())
}
