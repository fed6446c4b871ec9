//! Bytes from an object store for what the formats ask; the only file of the glue that looks into a range of bytes.

use std::ops::Range;
use std::sync::Arc;
#[cfg(unix)]
use std::sync::OnceLock;

use bytes::Bytes;
use datafusion::common::runtime::SpawnedTask;
use datafusion::datasource::listing::FileRange;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::cache::cache_manager::CacheManager;
use datafusion::physical_plan::metrics::{Count, Time};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{GetOptions, GetResult, GetResultPayload, ObjectMeta, ObjectStore, ObjectStoreExt};

use super::cache::forget_listing;
use super::error::in_file;
use super::kind::Requests;
#[cfg(unix)]
use super::local::{LocalFile, Reads, map_ranges};
use super::metrics::FileMetrics;
use crate::format::Error;
use crate::format::scan::{Fetch, Load, Loading, Section};

/// What is read as one from a file of this machine. A call takes microseconds, and memory is free again as soon as the last page in it has been decoded.
const LOCAL_BYTES_MAX: u64 = 1 << 20;

/// So many bytes at most are read at once without waiting: calls cost little, and what is decoded last keeps the memory of all.
pub(super) const AT_HAND_BYTES_MAX: u64 = 64 << 10;

/// Of so many of the ranges of a stripe it is found out whether they are in memory.
const PROBED: usize = 4;

/// One object, to be read in ranges.
#[derive(Debug, Clone)]
pub(super) struct ObjectReader {
    store: Arc<dyn ObjectStore>,
    object: Arc<ObjectMeta>,
    caches: Option<Arc<CacheManager>>,
    requests: Requests,
    is_local: bool,
    memory_map: bool,
    /// The file, once it has been opened, if it is one of this machine that its store hands out.
    #[cfg(unix)]
    file: Arc<OnceLock<Option<Arc<LocalFile>>>>,
    counting: Counting,
}

/// What is counted of reading.
#[derive(Debug, Clone, Default)]
pub(super) struct Counting {
    bytes_scanned: Count,
    requests: Count,
    rounds: Count,
    io_time: Time,
}

impl Counting {
    pub(super) fn of(metrics: &FileMetrics) -> Self {
        Self {
            bytes_scanned: metrics.bytes_scanned.clone(),
            requests: metrics.requests.clone(),
            rounds: metrics.request_rounds.clone(),
            io_time: metrics.io_time.clone(),
        }
    }
}

impl ObjectReader {
    /// Reads `object`.
    pub(super) fn new(store: Arc<dyn ObjectStore>, object: Arc<ObjectMeta>, requests: Requests) -> Self {
        Self {
            store,
            object,
            caches: None,
            requests,
            is_local: false,
            memory_map: false,
            #[cfg(unix)]
            file: Arc::default(),
            counting: Counting::default(),
        }
    }

    /// Takes open files from the session's caches, and puts them there.
    pub(super) fn caching(self, caches: Option<Arc<CacheManager>>) -> Self {
        Self { caches, ..self }
    }

    /// Whether the store is the file system of this machine, which hands out files.
    pub(super) fn local(self, is_local: bool) -> Self {
        Self { is_local, ..self }
    }

    pub(super) fn is_local(&self) -> bool {
        self.is_local
    }

    /// Whether what is read next is likely there as soon as it is asked for, in memory of its own.
    pub(super) fn is_at_hand(&self) -> bool {
        #[cfg(unix)]
        let is_in_memory = self.local_file().is_some_and(|file| file.is_in_memory());
        #[cfg(not(unix))]
        let is_in_memory = false;
        is_in_memory && !self.memory_map
    }

    /// Whether the data of files of this machine is mapped instead of read.
    pub(super) fn mapping(self, memory_map: bool) -> Self {
        Self { memory_map, ..self }
    }

    pub(super) fn counting(self, counting: Counting) -> Self {
        Self { counting, ..self }
    }

    pub(super) fn object(&self) -> &ObjectMeta {
        &self.object
    }

    pub(super) fn caches(&self) -> Option<&CacheManager> {
        self.caches.as_deref()
    }

    /// Gives a load the bytes that it asks for until it is done.
    pub(super) async fn load<L: Load + Send>(&self, load: L) -> Result<L::Output> {
        self.try_load(load).await?.map_err(|error| self.fault(error))
    }

    /// The same, with errors of the format as such.
    pub(super) async fn try_load<L: Load + Send>(&self, mut load: L) -> Result<Result<L::Output, Error>> {
        let mut fetched = Vec::new();
        loop {
            match load.resume(fetched) {
                Ok(Loading::Fetch(fetches)) => fetched = self.fetch(&fetches).await?,
                Ok(Loading::Ready(output)) => return Ok(Ok(output)),
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    /// The bytes of all fetches, in their order.
    pub(super) async fn fetch(&self, fetches: &[Fetch]) -> Result<Vec<Bytes>> {
        let bytes_max = if self.is_local { self.requests.bytes_max.min(LOCAL_BYTES_MAX) } else { self.requests.bytes_max };
        let merged = merge(fetches, &Requests { bytes_max, ..self.requests });
        let bytes = {
            let _timer = self.counting.io_time.timer();
            if self.is_local {
                self.read_file(&merged, self.memory_map && fetches.iter().all(is_data)).await?
            } else {
                let reads: Vec<_> = merged.iter().map(|range| self.read(range.clone())).collect();
                stream::iter(reads).buffered(self.requests.in_flight.max(1)).try_collect::<Vec<_>>().await?
            }
        };
        self.counting.bytes_scanned.add(bytes.iter().map(Bytes::len).sum());
        self.counting.requests.add(merged.len());
        self.counting.rounds.add(usize::from(!merged.is_empty()));
        fetches.iter().map(|fetch| cut(&merged, &bytes, &fetch.range).ok_or_else(|| self.short(fetch))).collect()
    }

    /// Whether it looks as if all of this were there as soon as it is asked for, in memory of its own.
    pub(super) fn has_at_hand(&self, fetches: &[Fetch]) -> bool {
        let first_bytes = |fetch: &Fetch| fetch.range.start..fetch.range.end.min(fetch.range.start + 1);
        let probed = fetches.iter().step_by(fetches.len().div_ceil(PROBED).max(1)).map(first_bytes).collect();
        #[cfg(unix)]
        let is_in_memory = self.local_file().is_some_and(|file| Reads::new(probed).in_memory(file).is_ok());
        #[cfg(not(unix))]
        let is_in_memory = {
            drop::<Vec<Range<u64>>>(probed);
            false
        };
        is_in_memory && !self.memory_map
    }

    /// The bytes of all fetches, in their order, if nothing has to be waited for. Ranges are joined if there are no more than `gap` bytes in between. Whatever is wrong, where waiting is
    /// allowed it is seen again.
    #[cfg(unix)]
    pub(super) fn fetch_at_hand(&self, fetches: &[Fetch], gap: u64) -> Option<Vec<Bytes>> {
        let file = self.local_file()?;
        let merged = merge(fetches, &Requests { gap, bytes_max: AT_HAND_BYTES_MAX, in_flight: 1 });
        let timer = self.counting.io_time.timer();
        let bytes = Reads::new(merged.clone()).in_memory(file).ok().filter(|_| file.is_unchanged().is_ok_and(|is_unchanged| is_unchanged))?;
        drop(timer);
        self.counting.bytes_scanned.add(bytes.iter().map(Bytes::len).sum());
        self.counting.requests.add(merged.len());
        fetches.iter().map(|fetch| cut(&merged, &bytes, &fetch.range)).collect()
    }

    /// Elsewhere nothing tells what is in memory.
    #[cfg(not(unix))]
    pub(super) fn fetch_at_hand(&self, _fetches: &[Fetch], _gap: u64) -> Option<Vec<Bytes>> {
        None
    }

    /// Ranges of a file of this machine, which is opened once and kept open.
    async fn read_file(&self, ranges: &[Range<u64>], map: bool) -> Result<Vec<Bytes>> {
        let Some(first) = ranges.first() else { return Ok(Vec::new()) };
        #[cfg(unix)]
        if let Some(file) = self.open_file(first.start).await? {
            return self.read_local(file, ranges, map).await;
        }
        // Elsewhere there are no calls to map with.
        #[cfg(not(unix))]
        let _ = map;
        let mut bytes = Vec::with_capacity(ranges.len());
        for range in ranges {
            bytes.push(self.read(range.clone()).await?);
        }
        Ok(bytes)
    }

    /// Opens a file of this machine, if it is not open, that has a byte at this offset. `None` if the store, which others may have wrapped, hands out no files.
    #[cfg(unix)]
    async fn open_file(&self, offset: u64) -> Result<Option<Arc<LocalFile>>> {
        if let Some(file) = self.file.get() {
            return Ok(file.clone());
        }
        let found = self.get(offset..offset + 1).await?;
        let file = match found.payload {
            GetResultPayload::File(file, _) => {
                let file = LocalFile::new(file, found.meta.size, found.meta.last_modified.into()).map_err(|error| self.unreadable(error))?;
                Some(Arc::new(file.ok_or_else(|| self.replaced())?))
            }
            GetResultPayload::Stream(_) => None,
        };
        Ok(self.file.get_or_init(|| file).clone())
    }

    #[cfg(unix)]
    fn local_file(&self) -> Option<&LocalFile> {
        self.file.get()?.as_deref()
    }

    /// Makes ready to read without waiting what is in memory.
    pub(super) async fn open(&self, fetches: &[Fetch]) -> Result<()> {
        #[cfg(unix)]
        if let Some(fetch) = fetches.first().filter(|_| self.is_local) {
            self.open_file(fetch.range.start).await?;
        }
        #[cfg(not(unix))]
        let _ = fetches;
        Ok(())
    }

    /// What is in memory is read here and now, the rest by a thread that may wait.
    #[cfg(unix)]
    async fn read_local(&self, file: Arc<LocalFile>, ranges: &[Range<u64>], map: bool) -> Result<Vec<Bytes>> {
        let read = if map {
            map_ranges(&file, ranges)
        } else {
            match Reads::new(ranges.to_vec()).in_memory(&file) {
                Ok(bytes) => Ok(bytes),
                Err(rest) => {
                    let file = Arc::clone(&file);
                    let read = SpawnedTask::spawn_blocking(move || rest.all(&file));
                    read.join_unwind().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
                }
            }
        };
        let read = read.map_err(|error| self.unreadable(error))?;
        match file.is_unchanged().map_err(|error| self.unreadable(error))? {
            true => Ok(read),
            false => Err(self.replaced()),
        }
    }

    #[cfg(unix)]
    fn unreadable(&self, source: std::io::Error) -> DataFusionError {
        let error = object_store::Error::Generic { store: "local file system", source: source.into() };
        DataFusionError::from(error).context(format!("reading {}", self.object.location))
    }

    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        Ok(self.get(range).await?.bytes().await?)
    }

    /// The object, to read one range. What was planned by one version of it must not be filled with the bytes of another: a page that happens to lie
    /// where the old one did is intact, and its rows wrong.
    async fn get(&self, range: Range<u64>) -> Result<GetResult> {
        let location = &self.object.location;
        match self.store.get_opts(location, GetOptions::new().with_range(Some(range))).await {
            Ok(found) if !is_another(&self.object, &found.meta) => Ok(found),
            Ok(_) => Err(self.replaced()),
            // The range may lie beyond the end of what is there now.
            Err(error) => match self.store.head(location).await {
                Ok(found) if is_another(&self.object, &found) => Err(self.replaced()),
                _ => Err(self.forgetting(error.into())),
            },
        }
    }

    /// What was listed is not there any more, so it should be listed again.
    fn forgetting(&self, error: DataFusionError) -> DataFusionError {
        if let Some(caches) = self.caches() {
            forget_listing(caches, &self.object.location);
        }
        error
    }

    fn replaced(&self) -> DataFusionError {
        self.forgetting(self.changed())
    }

    fn changed(&self) -> DataFusionError {
        self.fault(Error::invalid_file("the file was replaced after the table listed it; run the statement again"))
    }

    /// An error of the format, with the object's name.
    pub(super) fn fault(&self, error: Error) -> DataFusionError {
        in_file(&self.object.location, error)
    }

    fn short(&self, fetch: &Fetch) -> DataFusionError {
        self.fault(Error::eof("the store returned fewer bytes than it was asked for").in_section(fetch.section).at(fetch.range.start))
    }
}

/// Whether it is used while a query runs, and not kept by the session as metadata is.
fn is_data(fetch: &Fetch) -> bool {
    matches!(fetch.section, Section::Data | Section::Dictionary)
}

/// Whether what a store now returns is not what it listed. Not every store says everything, nor is a caller who names a file bound to: what is
/// not said does not count.
fn is_another(listed: &ObjectMeta, found: &ObjectMeta) -> bool {
    let seconds = |meta: &ObjectMeta| Some(meta.last_modified.timestamp()).filter(|seconds| *seconds != 0);
    let differ = match (entity_tag(listed), entity_tag(found)) {
        (Some(listed), Some(found)) => listed != found,
        _ => seconds(listed).zip(seconds(found)).is_some_and(|(listed, found)| listed != found),
    };
    differ || listed.size != found.size
}

/// What tells versions of an object apart. Some stores list it without the quotes, or weak, that they send with the bytes.
pub(super) fn entity_tag(meta: &ObjectMeta) -> Option<&str> {
    meta.e_tag.as_deref().map(|tag| tag.trim_start_matches("W/").trim_matches('"'))
}

/// Ascending ranges that cover all of the fetches, joined over small gaps, as far as they do not grow too much: a store sends parts of a wide read side by side.
fn merge(fetches: &[Fetch], requests: &Requests) -> Vec<Range<u64>> {
    let mut ranges: Vec<_> = fetches.iter().map(|fetch| fetch.range.clone()).collect();
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.end <= last.end => {}
            Some(last) if range.start <= last.end.saturating_add(requests.gap) && range.end - last.start <= requests.bytes_max => {
                last.end = range.end
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// The bytes of one range out of those of the merged ranges.
fn cut(merged: &[Range<u64>], bytes: &[Bytes], range: &Range<u64>) -> Option<Bytes> {
    let index = merged.partition_point(|candidate| candidate.start <= range.start).checked_sub(1)?;
    let start = usize::try_from(range.start.checked_sub(merged.get(index)?.start)?).ok()?;
    let length = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
    let end = start.checked_add(length)?;
    let bytes = bytes.get(index)?;
    (end <= bytes.len()).then(|| bytes.slice(start..end))
}

/// The engine's part of a file as the formats take it. What lies before the file is not in it.
pub(super) fn byte_range(range: &FileRange) -> Range<u64> {
    let from_zero = |bound: i64| u64::try_from(bound).unwrap_or(0);
    from_zero(range.start)..from_zero(range.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{ObjectStoreExt, PutPayload};

    fn fetches(ranges: &[Range<u64>]) -> Vec<Fetch> {
        ranges.iter().map(|range| Fetch { range: range.clone(), section: Section::Data }).collect()
    }

    fn requests(gap: u64) -> Requests {
        Requests { gap, bytes_max: 8 << 20, in_flight: 10 }
    }

    #[test]
    fn ranges_join_over_a_gap_and_not_over_a_wider_one() {
        assert_eq!(merge(&fetches(&[20..30, 0..10]), &requests(10)), vec![0..30; 1]);
        assert_eq!(merge(&fetches(&[20..30, 0..10]), &requests(9)), [0..10, 20..30]);
        assert_eq!(merge(&fetches(&[0..10, 2..4, 10..12]), &requests(0)), vec![0..12; 1]);
        assert!(merge(&[], &requests(0)).is_empty());
        // No further than it may, but what is asked for as one stays one.
        let small = Requests { bytes_max: 20, ..requests(10) };
        assert_eq!(merge(&fetches(&[0..10, 12..20, 25..60, 60..61]), &small), [0..20, 25..60, 60..61]);
    }

    #[tokio::test]
    async fn every_fetch_gets_its_own_bytes_in_the_order_asked() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let path = Path::from("x");
        store.put(&path, PutPayload::from((0..100).collect::<Vec<u8>>())).await.unwrap();
        let object = Arc::new(store.head(&path).await.unwrap());
        let asked = fetches(&[50..53, 4..6, 4..5, 90..100, 7..9]);
        for gap in [0, 1, 50, u64::MAX] {
            let bytes = ObjectReader::new(Arc::clone(&store), Arc::clone(&object), requests(gap)).fetch(&asked).await.unwrap();
            let expected: Vec<Vec<u8>> = vec![vec![50, 51, 52], vec![4, 5], vec![4], (90..100).collect(), vec![7, 8]];
            assert_eq!(bytes, expected, "gap {gap}");
        }
    }
}
