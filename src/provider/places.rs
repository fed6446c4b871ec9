//! Where the files of a table are.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::plan_err;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::Result;
use futures::TryStreamExt;
use object_store::ObjectMeta;

use super::kind::TableFormat;

/// A folder as a place for each of the format's endings, with a pattern: DataFusion lists a table by one ending. Anything else as it is.
pub(super) fn places<F: TableFormat>(url: &ListingTableUrl) -> Result<Vec<ListingTableUrl>> {
    if !url.is_collection() || url.get_glob().is_some() {
        return Ok(vec![url.clone()]);
    }
    F::EXTENSIONS.iter().map(|extension| url.clone().with_glob(&format!("*.{extension}"))).collect()
}

/// The files that are at these places now.
pub(super) async fn files_at(state: &dyn Session, places: &[ListingTableUrl]) -> Result<Vec<ObjectMeta>> {
    let mut files = Vec::new();
    for place in places {
        let store = state.runtime_env().object_store(place)?;
        files.extend(place.list_all_files(state, store.as_ref(), "").await?.try_collect::<Vec<_>>().await?);
    }
    Ok(files)
}

/// The schema of the files that are at these places of one store now.
pub(super) async fn schema_at(state: &dyn Session, format: &dyn FileFormat, places: &[ListingTableUrl]) -> Result<SchemaRef> {
    let Some(first) = places.first() else { return Ok(Arc::new(Schema::empty())) };
    let mut files = files_at(state, places).await?;
    if files.is_empty() {
        return plan_err!(
            "No files found at {first}. Cannot infer schema from an empty location; either add data files or declare an explicit schema for the table."
        );
    }
    files.retain(|file| file.size > 0);
    format.infer_schema(state, &state.runtime_env().object_store(first)?, &files).await
}
