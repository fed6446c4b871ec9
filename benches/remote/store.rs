//! A store that is far away: each request takes a while, and all of them share a line of some width.

use std::fmt::{self, Display, Formatter};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};
use tokio::time::{Instant, sleep_until};

/// What was asked for so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traffic {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
}

/// Objects in memory, and the time that it would take to have them.
#[derive(Debug)]
pub(crate) struct FarStore {
    inner: InMemory,
    latency_micros: AtomicU64,
    /// Bytes per second of the line.
    bandwidth: f64,
    /// When the line is free.
    free: Mutex<Option<Instant>>,
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl FarStore {
    pub(crate) fn new(bandwidth: f64) -> Self {
        Self {
            inner: InMemory::new(),
            latency_micros: AtomicU64::new(0),
            bandwidth,
            free: Mutex::new(None),
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// From now on, what is read takes this long; nothing takes any time at 0.
    pub(crate) fn set_latency(&self, latency: Duration) {
        self.latency_micros.store(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// What was asked for since the last time.
    pub(crate) fn take_traffic(&self) -> Traffic {
        Traffic { requests: self.requests.swap(0, Relaxed), bytes: self.bytes.swap(0, Relaxed) }
    }

    /// Waits for a request of so many bytes.
    async fn wait(&self, bytes: u64) {
        self.requests.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        let latency = Duration::from_micros(self.latency_micros.load(Relaxed));
        if latency.is_zero() {
            return;
        }
        let arrives = Instant::now() + latency;
        let end = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            let end = free.map_or(arrives, |free| free.max(arrives)) + Duration::from_secs_f64(bytes as f64 / self.bandwidth);
            *free = Some(end);
            end
        };
        sleep_until(end).await;
    }
}

impl Display for FarStore {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "Far({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for FarStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(&self, location: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_head = options.head;
        let found = self.inner.get_opts(location, options).await?;
        self.wait(if is_head { 0 } else { found.range.end - found.range.start }).await;
        Ok(found)
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
