//! Opening a file through DataFusion's cache of file metadata, so that a file is opened once and not once per query and partition.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::HashMap;
use datafusion::error::Result;
use datafusion::execution::cache::cache_manager::{CacheManager, CachedFileMetadataEntry, FileMetadata};
use object_store::ObjectMeta;
use object_store::path::Path;
use tokio::sync::Mutex as AsyncMutex;

use super::io::{ObjectReader, entity_tag};
use super::kind::{Kind, Reading};
use crate::format::file::{Kept, Metadata, PartOfTable};

/// An open file.
#[derive(Debug, Clone)]
pub(super) struct OpenFile {
    pub(super) meta: Arc<dyn Metadata>,
    kind: Kind,
    /// Held while metadata of columns is fetched: partitions that begin together want the same, and one fetch serves them all.
    loading: Arc<AsyncMutex<()>>,
}

impl OpenFile {
    /// Fetches the metadata of those of the columns whose metadata is not there. Gives their count.
    pub(super) async fn load_columns(&self, reader: &ObjectReader, columns: &[usize]) -> Result<usize> {
        let _guard = self.loading.lock().await;
        let missing = self.not_loaded(reader, columns)?;
        if !missing.is_empty() {
            reader.load(Arc::clone(&self.meta).load(&missing)).await?;
        }
        Ok(missing.len())
    }

    /// The columns whose metadata is not there.
    pub(super) fn not_loaded(&self, reader: &ObjectReader, columns: &[usize]) -> Result<Vec<usize>> {
        let mut missing = Vec::new();
        for column in columns {
            if !self.meta.is_loaded(*column).map_err(|error| reader.fault(error))? {
                missing.push(*column);
            }
        }
        Ok(missing)
    }
}

/// An open file as the cache keeps it.
struct Cached {
    kept: Arc<dyn Kept>,
    kind: Kind,
    loading: Arc<AsyncMutex<()>>,
    /// What it had when it was put there. The cache needs the same number when it is taken out, though the metadata grows with its use.
    size: usize,
}

impl Cached {
    fn new(file: &OpenFile) -> Self {
        let OpenFile { meta, kind, loading } = file;
        Self { size: meta.memory_size(), kept: Arc::clone(meta).kept(), kind: *kind, loading: Arc::clone(loading) }
    }

    /// The file, if it is of this format and all of it is there.
    fn open(&self, kind: Kind) -> Option<OpenFile> {
        let meta = self.kept.metadata().filter(|_| self.kind.name == kind.name)?;
        Some(OpenFile { meta, kind, loading: Arc::clone(&self.loading) })
    }
}

impl FileMetadata for Cached {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn memory_size(&self) -> usize {
        self.size
    }

    fn extra_info(&self) -> HashMap<String, String> {
        HashMap::from([("format".to_owned(), self.kind.name.to_owned())])
    }
}

/// What a table holds of its files, so that it is there for the next statement: schemas of very many columns. Its plans and scans hold it, too.
#[derive(Clone, Default)]
pub(super) struct Held(Arc<Mutex<Vec<PartOfTable>>>);

impl Held {
    /// Most tables have one schema. Of one whose files have more than so many, they are read again for each statement.
    const PARTS_MAX: usize = 16;

    /// Holds what is not kept of a file.
    pub(super) fn hold(&self, file: &OpenFile) {
        let Some(part) = file.meta.part_of_table() else { return };
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match parts.iter().position(|known| Arc::ptr_eq(known, &part)) {
            Some(known) => drop(parts.remove(known)),
            // The one that has not been used for longest may be of files that are not there any more.
            None if parts.len() >= Self::PARTS_MAX => drop(parts.remove(0)),
            None => {}
        }
        parts.push(part);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

/// A file that is open already.
pub(super) fn cached(caches: &CacheManager, object: &ObjectMeta, kind: Kind) -> Option<OpenFile> {
    let cached = caches.get_file_metadata_cache().get(&object.location);
    let cached = cached.filter(|entry| entry.is_valid_for(object) && is_same_version(&entry.meta, object))?;
    cached.file_metadata.as_any().downcast_ref::<Cached>()?.open(kind)
}

/// Opens a file, or takes it from the cache; and whether it did the first.
///
/// The cache's keys have no store in them, and other formats use it too: an entry that is another file's or format's is replaced.
pub(super) async fn open(reader: &ObjectReader, kind: Kind, reading: &Reading) -> Result<(OpenFile, bool)> {
    let object = reader.object();
    if let Some(file) = reader.caches().and_then(|caches| cached(caches, object, kind)) {
        return Ok((file, false));
    }
    let mut reading = reading.clone();
    if reader.is_local() {
        // To read again costs next to nothing here, so what is not known to be used can wait.
        reading.eager_load_threshold = reading.eager_load_threshold.min(reading.metadata_size_hint);
    }
    let opening = (kind.open)(object.size, &reading).map_err(|error| reader.fault(error))?;
    let file = OpenFile { meta: reader.load(opening).await?, kind, loading: Arc::new(AsyncMutex::new(())) };
    keep(reader, &file);
    Ok((file, true))
}

/// Whether nothing says that the objects differ. Two writes within one tick of a store's clock have the same time, and may have the same size.
fn is_same_version(cached: &ObjectMeta, object: &ObjectMeta) -> bool {
    entity_tag(cached) == entity_tag(object) && cached.version == object.version
}

/// Puts a file into the cache, or tells the cache that it has grown.
pub(super) fn keep(reader: &ObjectReader, file: &OpenFile) {
    if let Some(caches) = reader.caches() {
        let object = reader.object();
        let entry = CachedFileMetadataEntry::new(object.clone(), Arc::new(Cached::new(file)));
        caches.get_file_metadata_cache().put(&object.location, entry);
    }
}

/// Makes the next statement list the directories anew that a file is in, or is the whole of: the file is not what was listed.
pub(super) fn forget_listing(caches: &CacheManager, file: &Path) {
    let Some(listings) = caches.get_list_files_cache() else { return };
    for listed in listings.list_entries().into_keys() {
        if file.prefix_matches(&listed.path) {
            listings.remove(&listed);
        }
    }
}
