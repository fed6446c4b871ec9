//! Tables at `hdfs://` and `viewfs://` URLs: a connection to a name node, or to a name service of the Hadoop configuration, is made when it is first named.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreRegistry;
use hdfs_native_object_store::HdfsObjectStoreBuilder;
use object_store::ObjectStore;
use url::{Position, Url};

const SCHEMES: [&str; 2] = ["hdfs", "viewfs"];

/// The stores of another registry, and those of HDFS.
#[derive(Debug)]
pub(crate) struct HdfsRegistry<R>(pub(crate) Arc<R>);

impl<R: ObjectStoreRegistry> ObjectStoreRegistry for HdfsRegistry<R> {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.0.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.0.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let known = self.0.get_store(url);
        if known.is_ok() || !SCHEMES.contains(&url.scheme()) {
            return known;
        }
        let store = HdfsObjectStoreBuilder::new().with_url(&url[..Position::BeforePath]).build()?;
        self.0.register_store(url, Arc::new(store));
        // As the registry wraps it.
        self.0.get_store(url)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::object_store::DefaultObjectStoreRegistry;

    use super::*;

    #[tokio::test]
    async fn a_store_is_made_once_for_each_name_node() {
        let registry = HdfsRegistry(Arc::new(DefaultObjectStoreRegistry::new()));
        let get = |url: &str| registry.get_store(&Url::parse(url).unwrap());
        let one = get("hdfs://127.0.0.1:9000/a/t.fermion").unwrap();
        assert!(Arc::ptr_eq(&one, &get("hdfs://127.0.0.1:9000/b/").unwrap()));
        assert!(!Arc::ptr_eq(&one, &get("hdfs://127.0.0.1:9001/b/").unwrap()));
        assert!(get("file:///t.fermion").is_ok());
        assert!(get("s3://bucket/t.fermion").is_err());
    }
}
