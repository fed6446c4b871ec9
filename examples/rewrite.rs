//! Rewrites an Arrow or Alkaid file or stream with `std::fs` alone: no engine, no async.
//!
//! ```text
//! cargo run --example rewrite -- IN OUT [stream] [arrow] [lz4|zstd]
//! ```
//!
//! OUT is an Alkaid file that is not compressed, unless a word says otherwise.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use bytes::Bytes;
use datafusion_fermion::format::alkaid::{AlkaidScan, Codec, FileMeta, Flavor, Form, Open, OpenOptions, ScanRequest, Writer, WriterOptions};
use datafusion_fermion::format::scan::{Answer, Fetch, Load, Loading, Scan, Step};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, words @ ..] = arguments.as_slice() else { return Err("usage: rewrite IN OUT [stream] [arrow] [lz4|zstd]".into()) };
    let mut input = File::open(from)?;
    let mut output = File::create(to)?;
    let length = input.metadata()?.len();
    let mut opening = Open::new(length, &OpenOptions::default())?;
    let mut fetched = Vec::new();
    let meta: Arc<FileMeta> = loop {
        match opening.resume(fetched)? {
            Loading::Fetch(wanted) => fetched = fetch(&mut input, &wanted)?,
            Loading::Ready(meta) => break Arc::new(meta),
        }
    };
    let mut writer = Writer::new(meta.schema(), options(words)?)?;
    rewrite(&mut input, meta, &mut writer, &mut output)?;
    let (rest, summary) = writer.finish()?;
    rest.iter().try_for_each(|bytes| output.write_all(bytes))?;
    println!("{summary:?}");
    Ok(())
}

fn options(words: &[String]) -> Result<WriterOptions> {
    let mut options = WriterOptions::default();
    for word in words {
        match word.as_str() {
            "stream" => options.form = Form::Stream,
            "arrow" => options.flavor = Flavor::Arrow,
            "lz4" => options.compression = Some(Codec::Lz4),
            "zstd" => options.compression = Some(Codec::Zstd),
            other => return Err(format!("{other} means nothing here").into()),
        }
    }
    Ok(options)
}

fn rewrite(input: &mut File, meta: Arc<FileMeta>, writer: &mut Writer, output: &mut File) -> Result<()> {
    let columns = (0..meta.column_count()).collect();
    let request = ScanRequest::new(columns, meta.schema());
    let mut scan = AlkaidScan::new(meta, request)?;
    let mut answer = Answer::Next;
    loop {
        answer = match scan.step(answer)? {
            Step::Fetch(wanted) => Answer::Fetched(fetch(input, &wanted)?),
            Step::Lookup(columns) => Answer::Lookup(vec![None; columns.len()]),
            Step::Select(_) => Answer::Select(None),
            Step::Prune(zones) => Answer::Keep(vec![true; zones.row_counts.len()].into()),
            Step::Decode(mut morsel) => {
                while let Some(batch) = morsel.next_batch()? {
                    writer.push(&batch)?;
                    writer.take_bytes().iter().try_for_each(|bytes| output.write_all(bytes))?;
                }
                Answer::Next
            }
            Step::Done => return Ok(()),
        };
    }
}

fn fetch(file: &mut File, wanted: &[Fetch]) -> Result<Vec<Bytes>> {
    let read = |Fetch { range, .. }: &Fetch| {
        let mut bytes = vec![0; usize::try_from(range.end - range.start)?];
        file.seek(SeekFrom::Start(range.start))?;
        file.read_exact(&mut bytes)?;
        Ok(bytes.into())
    };
    wanted.iter().map(read).collect::<Result<Vec<Bytes>>>()
}
