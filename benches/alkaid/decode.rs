//! From bytes in memory to arrays, by one thread.

use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use arrow_ipc::reader::FileReader;
use bytes::Bytes;
use datafusion_fermion::format::alkaid::{Open, OpenOptions, ScanRequest};
use datafusion_fermion::format::file::{Metadata, opening};
use datafusion_fermion::format::scan::{Answer, Fetch, Load, Loading, Step};

use crate::library::Buffers;
use crate::{Result, median, milliseconds, timed};

const FILES: [(&str, &str); 4] = [("not compressed", "plain"), ("LZ4", "lz4"), ("ZSTD", "zstd"), ("written by DataFusion (LZ4)", "theirs")];

pub(crate) fn compare(dir: &Path, runs: usize) -> Result<()> {
    println!(
        "| decoding alone, one thread | MB | memcpy, ms | decompressing alone, ms | arrow-ipc, ms | Alkaid, ms | faster by | GB/s | of memcpy |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    for (name, file) in FILES {
        let bytes = Bytes::from(fs::read(dir.join(format!("{file}.arrow")))?);
        let rows = [theirs(&bytes)?, ours(&bytes)?];
        if rows[0] != rows[1] {
            return Err(format!("{name}: {rows:?} rows").into());
        }
        let mut target = vec![0_u8; bytes.len()];
        let compressed = Buffers::of(&bytes)?;
        let mut times = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..runs {
            times[0].push(timed(|| {
                target.copy_from_slice(&bytes);
                Ok(())
            })?);
            times[1].push(timed(|| theirs(&bytes))?);
            times[2].push(timed(|| ours(&bytes))?);
            times[3].push(timed(|| compressed.decompress())?);
        }
        let [memcpy, theirs, ours, alone] = times.map(|times| milliseconds(median(times)));
        let megabytes = bytes.len() as f64 / 1e6;
        let alone = if compressed.is_empty() { "–".to_owned() } else { format!("{alone:.1}") };
        println!(
            "| {name} | {megabytes:.1} | {memcpy:.1} | {alone} | {theirs:.1} | {ours:.1} | {:.2} | {:.2} | {:.2} |",
            theirs / ours,
            megabytes / ours,
            memcpy / ours
        );
    }
    Ok(())
}

fn theirs(bytes: &Bytes) -> Result<usize> {
    let reader = FileReader::try_new(Cursor::new(bytes), None)?;
    reader.into_iter().try_fold(0, |rows, batch| Ok(rows + batch?.num_rows()))
}

fn ours(bytes: &Bytes) -> Result<usize> {
    let mut opening = opening(Open::new(bytes.len() as u64, &OpenOptions::default())?);
    let mut fetched = Vec::new();
    let metadata: Arc<dyn Metadata> = loop {
        match opening.resume(fetched)? {
            Loading::Fetch(fetches) => fetched = fetch(bytes, &fetches)?,
            Loading::Ready(metadata) => break metadata,
        }
    };
    let schema = metadata.schema()?;
    let columns = (0..schema.fields().len()).collect();
    let mut scan = metadata.scan(ScanRequest { batch_rows: 1 << 20, ..ScanRequest::new(columns, schema) })?;
    let (mut rows, mut answer) = (0, Answer::Next);
    loop {
        answer = match scan.step(answer)? {
            Step::Fetch(fetches) => Answer::Fetched(fetch(bytes, &fetches)?),
            Step::Prune(_) | Step::Lookup(_) | Step::Select(_) => return Err("nothing was to be left out".into()),
            Step::Decode(mut morsel) => {
                while let Some(batch) = morsel.next_batch()? {
                    rows += batch.num_rows();
                }
                Answer::Next
            }
            Step::Done => return Ok(rows),
        };
    }
}

fn fetch(bytes: &Bytes, fetches: &[Fetch]) -> Result<Vec<Bytes>> {
    fetches.iter().map(|fetch| Ok(bytes.slice(usize::try_from(fetch.range.start)?..usize::try_from(fetch.range.end)?))).collect()
}
