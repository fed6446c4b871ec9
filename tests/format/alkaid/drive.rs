//! The caller's half of the conversation with the format, over a file in memory.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use datafusion_fermion::format::Result;
use datafusion_fermion::format::alkaid::{AlkaidScan, FileMeta, Open, OpenOptions, ScanRequest, Writer, WriterOptions};
use datafusion_fermion::format::rows::Rows;
use datafusion_fermion::format::scan::{Answer, Fetch, Load, Loading, Morsel, Scan, Section, Step, Zones};

/// The bytes of a file or stream of these batches.
pub(crate) fn write(schema: &SchemaRef, batches: &[RecordBatch], options: WriterOptions) -> Result<Bytes> {
    let mut writer = Writer::new(Arc::clone(schema), options)?;
    let mut file = Vec::new();
    for batch in batches {
        writer.push(batch)?;
        writer.take_bytes().iter().for_each(|bytes| file.extend_from_slice(bytes));
    }
    let (rest, summary) = writer.finish()?;
    rest.iter().for_each(|bytes| file.extend_from_slice(bytes));
    assert_eq!(summary.bytes, file.len() as u64);
    assert_eq!(summary.rows, batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>());
    Ok(Bytes::from(file))
}

/// A file in memory that counts what is read of it.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) file: Bytes,
    pub(crate) requests: usize,
    /// Requests that were made together count as one.
    pub(crate) rounds: usize,
    pub(crate) bytes: usize,
}

impl Store {
    pub(crate) fn new(file: &Bytes) -> Self {
        Self { file: file.clone(), requests: 0, rounds: 0, bytes: 0 }
    }

    fn fetch(&mut self, fetches: &[Fetch]) -> Vec<Bytes> {
        let slice = |range: &Range<u64>| {
            assert!(range.start < range.end && range.end <= self.file.len() as u64, "{range:?} is not a part of a file of {} bytes", self.file.len());
            self.requests += 1;
            self.bytes += usize::try_from(range.end - range.start).unwrap();
            self.file.slice(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap())
        };
        self.rounds += 1;
        // What is aligned in the file is so in memory that begins there.
        assert!(fetches.iter().all(|fetch| fetch.section != Section::Data || fetch.range.start.is_multiple_of(64)));
        fetches.iter().map(|fetch| &fetch.range).map(slice).collect()
    }

    pub(crate) fn load<L: Load>(&mut self, mut load: L) -> Result<L::Output> {
        let mut bytes = Vec::new();
        for _ in 0..10_000 {
            match load.resume(std::mem::take(&mut bytes))? {
                Loading::Fetch(fetches) => bytes = self.fetch(&fetches),
                Loading::Ready(output) => return Ok(output),
            }
        }
        panic!("the load does not end")
    }

    pub(crate) fn open(&mut self, prefetch: u64) -> Result<Arc<FileMeta>> {
        let open = Open::new(self.file.len() as u64, &OpenOptions { prefetch })?;
        Ok(Arc::new(self.load(open)?))
    }

    /// Reads what is asked for; `keep` answers the zones.
    pub(crate) fn scan(&mut self, meta: &Arc<FileMeta>, request: ScanRequest, keep: impl FnMut(&Zones) -> BooleanArray) -> Result<Vec<RecordBatch>> {
        self.scan_selected(meta, request, keep, |_| unreachable!("nothing to select by"))
    }

    /// Adds up what is seen of each batch of a scan that has nothing to prune and to select by, and keeps none of them.
    pub(crate) fn drain(&mut self, scan: &mut AlkaidScan, see: impl Fn(&RecordBatch) -> usize) -> usize {
        let (mut answer, mut sum) = (Answer::Next, 0);
        loop {
            answer = match scan.step(answer).unwrap() {
                Step::Fetch(fetches) => Answer::Fetched(self.fetch(&fetches)),
                Step::Decode(mut morsel) => {
                    while let Some(batch) = morsel.next_batch().unwrap() {
                        sum += see(&batch);
                    }
                    Answer::Next
                }
                Step::Done => return sum,
                Step::Prune(_) | Step::Lookup(_) | Step::Select(_) => unreachable!("nothing to ask"),
            };
        }
    }

    /// The same; `select` answers the rows.
    pub(crate) fn scan_selected(
        &mut self,
        meta: &Arc<FileMeta>,
        request: ScanRequest,
        mut keep: impl FnMut(&Zones) -> BooleanArray,
        mut select: impl FnMut(&mut dyn Morsel) -> Option<Rows>,
    ) -> Result<Vec<RecordBatch>> {
        let mut scan = AlkaidScan::new(Arc::clone(meta), request)?;
        let mut batches = Vec::new();
        let mut answer = Answer::Next;
        loop {
            answer = match scan.step(answer)? {
                Step::Fetch(fetches) => Answer::Fetched(self.fetch(&fetches)),
                Step::Prune(zones) => Answer::Keep(keep(&zones)),
                Step::Lookup(_) => unreachable!("there are no filters"),
                Step::Select(mut morsel) => Answer::Select(select(morsel.as_mut())),
                Step::Decode(mut morsel) => {
                    let mut rows = morsel.rows();
                    while let Some(batch) = morsel.next_batch()? {
                        rows -= batch.num_rows() as u64;
                        assert_eq!(morsel.rows(), rows);
                        batches.push(batch);
                    }
                    assert_eq!(rows, 0);
                    Answer::Next
                }
                Step::Done => return Ok(batches),
            };
        }
    }
}

/// A scan of these columns in the file's own types.
pub(crate) fn request(meta: &FileMeta, columns: &[usize], batch_rows: usize) -> ScanRequest {
    let schema = Arc::new(meta.schema().project(columns).unwrap());
    ScanRequest { batch_rows, ..ScanRequest::new(columns.to_vec(), schema) }
}

/// All rows of the file in its own types.
pub(crate) fn read_all(file: &Bytes, batch_rows: usize) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    read_all_with(file, batch_rows, OpenOptions::default().prefetch)
}

/// The same, opened with so many bytes.
pub(crate) fn read_all_with(file: &Bytes, batch_rows: usize, prefetch: u64) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let mut store = Store::new(file);
    let meta = store.open(prefetch)?;
    let columns: Vec<usize> = (0..meta.column_count()).collect();
    let batches = store.scan(&meta, request(&meta, &columns, batch_rows), |_| unreachable!("nothing to prune by"))?;
    assert_eq!(batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>(), meta.row_count());
    Ok((meta.schema(), batches))
}
