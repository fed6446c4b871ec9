//! What writing takes: rows come in small batches, as of a stream, and bytes are dropped as they are ready.
//!
//! Memory is how far the process grew beyond what it had before, with the batch that is being made. What one side has used is lent to the next: for what a side needs, measure it by itself.

use std::io::Write;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion_fermion::format::fermion::{Writer, WriterOptions};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::{Options, Result, memory, rows, sql};

/// Rows that come at once.
const ROWS_AT_ONCE: usize = 25;
const BATCHES: usize = 80;

pub(crate) fn measure(options: &Options) -> Result<()> {
    println!("\nWriting {} rows in batches of {ROWS_AT_ONCE}; `cargo bench --bench wide -- --only writer`\n", BATCHES * ROWS_AT_ONCE);
    println!("| columns | | values, MB | file, MB | s | peak memory, MB |");
    println!("|--:|---|--:|--:|--:|--:|");
    for columns in &options.columns {
        for side in &options.sides {
            let schema = rows(*columns, 0..1)?.schema();
            let before = memory::reset_peak();
            let mut writer: Box<dyn Push> = match *side {
                name if name == sql::FORMATS[0] => {
                    let zstd = Compression::ZSTD(ZstdLevel::try_new(3)?);
                    let properties = WriterProperties::builder().set_compression(zstd).build();
                    Box::new(ArrowWriter::try_new(Dropped(0), schema, Some(properties))?)
                }
                _ => Box::new(Writer::new(schema, WriterOptions { threads: 2, ..Default::default() })?),
            };
            let (mut time, mut values) = (Duration::ZERO, 0);
            for first in (0..BATCHES).map(|batch| batch * ROWS_AT_ONCE) {
                let batch = rows(*columns, first..first + ROWS_AT_ONCE)?;
                values += batch.get_array_memory_size() as u64;
                let start = Instant::now();
                writer.push(&batch)?;
                time += start.elapsed();
            }
            let start = Instant::now();
            let bytes = writer.finish()?;
            let seconds = (time + start.elapsed()).as_secs_f64();
            let peak = memory::peak().zip(before).map_or(f64::NAN, |(peak, before)| megabytes(peak.saturating_sub(before)));
            println!("| {columns} | {side} | {:.0} | {:.1} | {seconds:.2} | {peak:.0} |", megabytes(values), megabytes(bytes));
        }
    }
    Ok(())
}

/// A writer whose bytes nobody wants.
trait Push {
    fn push(&mut self, batch: &RecordBatch) -> Result<()>;

    /// How many bytes there were.
    fn finish(self: Box<Self>) -> Result<u64>;
}

impl Push for Writer {
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        self.push(batch)?;
        drop(self.take_bytes());
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<u64> {
        Ok((*self).finish()?.1.bytes)
    }
}

impl Push for ArrowWriter<Dropped> {
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        Ok(self.write(batch)?)
    }

    fn finish(self: Box<Self>) -> Result<u64> {
        Ok((*self).into_inner()?.0)
    }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Counts what is written.
struct Dropped(u64);

impl Write for Dropped {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
