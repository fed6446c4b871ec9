//! The local file system, which counts what is read from it when it is told to. It counts all sides alike, with what they read of metadata, which their
//! own metrics do not.

use std::fmt::{self, Display, Formatter};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, OBJECT_STORE_COALESCE_DEFAULT, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

/// What was read so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traffic {
    pub(crate) bytes: u64,
    pub(crate) requests: u64,
}

impl Traffic {
    pub(crate) fn since(self, before: Self) -> Self {
        Self { bytes: self.bytes - before.bytes, requests: self.requests - before.requests }
    }
}

#[derive(Debug, Default)]
pub(crate) struct CountingStore {
    inner: LocalFileSystem,
    counts: AtomicBool,
    bytes: AtomicU64,
    requests: AtomicU64,
}

impl CountingStore {
    pub(crate) fn traffic(&self) -> Traffic {
        Traffic { bytes: self.bytes.load(Relaxed), requests: self.requests.load(Relaxed) }
    }

    /// Counts from now on, or no longer. While it counts it hands out no files, from which anything could be read, and is slower for it.
    pub(crate) fn counting(&self, counts: bool) {
        self.counts.store(counts, Relaxed);
    }

    fn count(&self, bytes: u64, requests: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
        self.requests.fetch_add(requests, Relaxed);
    }
}

impl Display for CountingStore {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "Counting({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for CountingStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(&self, location: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_head = options.head;
        let found = self.inner.get_opts(location, options).await?;
        if !self.counts.load(Relaxed) {
            return Ok(found);
        }
        self.count(if is_head { 0 } else { found.range.end - found.range.start }, 1);
        let (range, meta, attributes) = (found.range.clone(), found.meta.clone(), found.attributes.clone());
        Ok(GetResult { payload: GetResultPayload::Stream(found.into_stream()), meta, range, attributes })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if self.counts.load(Relaxed) {
            self.count(ranges.iter().map(|range| range.end - range.start).sum(), requests(ranges));
        }
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

/// How many requests a store across a network would get for these ranges. A file system takes each for itself.
fn requests(ranges: &[Range<u64>]) -> u64 {
    let mut sorted: Vec<_> = ranges.iter().collect();
    sorted.sort_unstable_by_key(|range| range.start);
    let mut requests = 0;
    let mut end = None;
    for range in sorted {
        if end.is_none_or(|end: u64| range.start > end.saturating_add(OBJECT_STORE_COALESCE_DEFAULT)) {
            requests += 1;
        }
        end = end.max(Some(range.end));
    }
    requests
}
