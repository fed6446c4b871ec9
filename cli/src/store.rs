//! The local file system with a count of the bytes read from it, and a memory for what went wrong in writing.

use std::fmt;
use std::fs::File;
use std::io::Seek;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::SessionContext;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result, UploadPart,
};

use crate::error::cause;

/// Counts what is read, for a progress bar.
#[derive(Debug, Default)]
pub(crate) struct CountingStore {
    inner: LocalFileSystem,
    answered: AtomicU64,
    followed: Mutex<Vec<File>>,
    write_failure: Arc<WriteFailure>,
}

/// Why a file could not be written: the writers of some formats keep this to themselves.
#[derive(Debug, Default)]
struct WriteFailure(OnceLock<String>);

impl WriteFailure {
    /// Remembers the first failure.
    fn note<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| {
            let text = cause::<std::io::Error>(error).map_or_else(|| error.to_string(), ToString::to_string);
            // A later one follows from the first.
            let _ = self.0.set(text);
        })
    }
}

impl CountingStore {
    /// A counting store that answers for `file://` in `ctx`.
    pub(crate) fn install(ctx: &SessionContext) -> Arc<Self> {
        let store = Arc::new(Self::default());
        let shared: Arc<dyn ObjectStore> = Arc::<Self>::clone(&store);
        ctx.register_object_store(ObjectStoreUrl::local_filesystem().as_ref(), shared);
        store
    }

    /// Bytes read since the last [`reset`](Self::reset).
    pub(crate) fn bytes_read(&self) -> u64 {
        let followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        // A file that is read as a whole is handed out open; our clone shares its position.
        let positions: u64 = followed.iter().map(|mut file| file.stream_position().unwrap_or(0)).sum();
        positions + self.answered.load(Ordering::Relaxed)
    }

    /// Starts counting from zero.
    pub(crate) fn reset(&self) {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.answered.store(0, Ordering::Relaxed);
    }

    /// What the system said when a file could not be written.
    pub(crate) fn write_failure(&self) -> Option<&str> {
        self.write_failure.0.get().map(String::as_str)
    }

    fn count(&self, bytes: u64) {
        self.answered.fetch_add(bytes, Ordering::Relaxed);
    }

    fn follow(&self, file: &File, length: u64) {
        match file.try_clone() {
            Ok(clone) => self.followed.lock().unwrap_or_else(PoisonError::into_inner).push(clone),
            Err(_) => self.count(length),
        }
    }
}

impl fmt::Display for CountingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Counting({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for CountingStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.write_failure.note(self.inner.put_opts(location, payload, options).await)
    }

    async fn put_multipart_opts(&self, location: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let inner = self.write_failure.note(self.inner.put_multipart_opts(location, options).await)?;
        Ok(Box::new(NotedUpload { inner, failure: Arc::clone(&self.write_failure) }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let head = options.head;
        let whole = options.range.is_none();
        let result = self.inner.get_opts(location, options).await?;
        let length = result.range.end.saturating_sub(result.range.start);
        match &result.payload {
            _ if head => Ok(result),
            GetResultPayload::File(file, _) if whole => {
                self.follow(file, length);
                Ok(result)
            }
            _ => {
                self.count(length);
                without_file(result).await
            }
        }
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.count(ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum());
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
}

/// The bytes of a range instead of the file that they are in, of which more could be read that is not counted.
async fn without_file(result: GetResult) -> Result<GetResult> {
    let (meta, range, attributes) = (result.meta.clone(), result.range.clone(), result.attributes.clone());
    let bytes = result.bytes().await?;
    Ok(GetResult { payload: GetResultPayload::Stream(stream::once(async { Ok(bytes) }).boxed()), meta, range, attributes })
}

/// An upload that remembers why it failed.
#[derive(Debug)]
struct NotedUpload {
    inner: Box<dyn MultipartUpload>,
    failure: Arc<WriteFailure>,
}

#[async_trait]
impl MultipartUpload for NotedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let failure = Arc::clone(&self.failure);
        self.inner.put_part(data).map(move |result| failure.note(result)).boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.failure.note(self.inner.complete().await)
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}
