//! Opening a file through DataFusion's cache of file metadata, so that a file is opened once and not once per query and partition.

use std::any::Any;
use std::sync::Arc;

use datafusion::common::HashMap;
use datafusion::error::Result;
use datafusion::execution::cache::cache_manager::{CachedFileMetadataEntry, FileMetadata, FileMetadataCache};

use super::io::ObjectReader;
use super::options::FermionReadOptions;
use crate::format::fermion::{FileMeta, Open, OpenOptions};

/// A file's metadata as the cache keeps it.
struct Cached(Arc<FileMeta>);

impl FileMetadata for Cached {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn memory_size(&self) -> usize {
        self.0.memory_size()
    }

    fn extra_info(&self) -> HashMap<String, String> {
        HashMap::from([("format".to_owned(), "fermion".to_owned())])
    }
}

/// An open file, and whether it had to be opened.
pub(super) struct Opened {
    pub(super) meta: Arc<FileMeta>,
    pub(super) was_cached: bool,
}

/// Opens a file, or takes its metadata from the cache.
///
/// The cache's keys have no store in them, and other formats use it too: an entry that is another file's or format's is replaced.
pub(super) async fn open(reader: &ObjectReader, cache: Option<&Arc<FileMetadataCache>>, options: &FermionReadOptions) -> Result<Opened> {
    let object = reader.object();
    let cached = cache.and_then(|cache| cache.get(&object.location)).filter(|entry| entry.is_valid_for(object));
    if let Some(meta) = cached.as_ref().and_then(|entry| entry.file_metadata.as_any().downcast_ref::<Cached>()) {
        return Ok(Opened { meta: Arc::clone(&meta.0), was_cached: true });
    }
    let open_options = OpenOptions { prefetch: options.metadata_size_hint, eager_load_threshold: options.eager_load_threshold };
    let load = Open::new(object.size, &open_options).map_err(|error| reader.fault(error))?;
    let meta = Arc::new(reader.load(load).await?);
    if let Some(cache) = cache {
        cache.put(&object.location, CachedFileMetadataEntry::new(object.clone(), Arc::new(Cached(Arc::clone(&meta)))));
    }
    Ok(Opened { meta, was_cached: false })
}
