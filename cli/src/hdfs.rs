//! Tables at `hdfs://` and `viewfs://` URLs: a connection to a name node, or to a name service of the Hadoop configuration, is made when it is first named.
//!
//! The client gives up, where Hadoop's own asks again, if the last block but one has not been reported to the name node by the time that a new one is asked for (`NotReplicatedYetException`).
//! The file then is not there, and the statement can be run again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::error::Result as EngineResult;
use datafusion::execution::object_store::ObjectStoreRegistry;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use hdfs_native_object_store::{HdfsObjectStore, HdfsObjectStoreBuilder};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use url::{Position, Url};

const SCHEMES: [&str; 2] = ["hdfs", "viewfs"];

/// Where a name node listens if nothing else is said.
const PORT: u16 = 8020;

/// How long a node may take to answer, or to send more of what it has begun to send. The client itself would wait for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// The stores of another registry, and those of HDFS.
#[derive(Debug)]
pub(crate) struct HdfsRegistry<R>(pub(crate) Arc<R>);

impl<R: ObjectStoreRegistry> ObjectStoreRegistry for HdfsRegistry<R> {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        match self.0.get_store(url) {
            // The shell gets a store and registers it, for each statement, and the registry would wrap it each time.
            Ok(known) if Arc::ptr_eq(&known, &store) => Some(known),
            _ => self.0.register_store(url, store),
        }
    }

    fn deregister_store(&self, url: &Url) -> EngineResult<Arc<dyn ObjectStore>> {
        self.0.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> EngineResult<Arc<dyn ObjectStore>> {
        let known = self.0.get_store(url);
        if known.is_ok() || !SCHEMES.contains(&url.scheme()) {
            return known;
        }
        self.0.register_store(url, Arc::new(HdfsStore::new(url)));
        // As the registry wraps it.
        self.0.get_store(url)
    }
}

/// HDFS, whose errors say where, and which does not list what is being written.
#[derive(Debug, Clone)]
struct HdfsStore {
    url: String,
    /// Or why there is none. The shell would not tell, so whoever uses it is told.
    inner: Result<HdfsObjectStore, String>,
}

impl HdfsStore {
    fn new(url: &Url) -> Self {
        let url = &url[..Position::BeforePath];
        let connect = |url: &str| HdfsObjectStoreBuilder::new().with_url(url).build();
        let inner = connect(url).or_else(|error| connect(&format!("{url}:{PORT}")).map_err(|_| error));
        let hint = "name a host and port, or have HADOOP_CONF_DIR name the folder of core-site.xml and hdfs-site.xml";
        Self { url: url.to_owned(), inner: inner.map_err(|error| format!("{error}; {hint}")) }
    }

    fn inner(&self) -> Result<&HdfsObjectStore> {
        self.inner.as_ref().map_err(|reason| self.error(reason.clone().into()))
    }

    fn error(&self, source: Box<dyn std::error::Error + Send + Sync>) -> Error {
        Error::Generic { store: "HDFS", source: format!("{}: {source}", self.url).into() }
    }

    /// Others name a path.
    fn named<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| if let Error::Generic { source, .. } = error { self.error(source) } else { error })
    }

    /// What comes in time.
    async fn answer<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        self.named(in_time(PATIENCE, request).await)
    }
}

async fn in_time<T>(patience: Duration, request: impl Future<Output = Result<T>>) -> Result<T> {
    let late = || Error::Generic { store: "HDFS", source: format!("there was no answer within {patience:?}").into() };
    tokio::time::timeout(patience, request).await.unwrap_or_else(|_| Err(late()))
}

/// A stream that ends with an error if the next item does not come in time.
fn stream_in_time<T: Send + 'static>(patience: Duration, stream: BoxStream<'static, Result<T>>) -> BoxStream<'static, Result<T>> {
    futures::stream::try_unfold(stream, move |mut stream| async move { Ok(in_time(patience, stream.try_next()).await?.map(|item| (item, stream))) })
        .boxed()
}

impl fmt::Display for HdfsStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.url)
    }
}

/// Whether a file is what this store, or Hadoop's command line, writes before it gets its name.
fn is_unfinished(path: &Path) -> bool {
    let name = path.filename().unwrap_or_default();
    let number = name.strip_prefix('.').and_then(|name| name.rsplit_once(".tmp.")).map(|(_, number)| number);
    number.is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit())) || name.ends_with("._COPYING_")
}

#[async_trait]
impl ObjectStore for HdfsStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.named(self.inner()?.put_opts(location, payload, options).await)
    }

    async fn put_multipart_opts(&self, location: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let inner = self.named(self.inner()?.put_multipart_opts(location, options).await)?;
        Ok(Box::new(Upload { inner, is_over: false }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let mut result = self.answer(self.inner()?.get_opts(location, options)).await?;
        if let GetResultPayload::Stream(stream) = result.payload {
            let store = self.clone();
            result.payload = GetResultPayload::Stream(stream_in_time(PATIENCE, stream).map(move |part| store.named(part)).boxed());
        }
        Ok(result)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match self.inner() {
            Ok(inner) => inner.delete_stream(locations),
            Err(error) => futures::stream::once(async { Err(error) }).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.inner() {
            Ok(inner) => {
                let store = self.clone();
                let listed = stream_in_time(PATIENCE, inner.list(prefix)).map(move |object| store.named(object));
                listed.try_filter(|object| futures::future::ready(!is_unfinished(&object.location))).boxed()
            }
            Err(error) => futures::stream::once(async { Err(error) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut listed = self.answer(self.inner()?.list_with_delimiter(prefix)).await?;
        listed.objects.retain(|object| !is_unfinished(&object.location));
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.named(self.inner()?.copy_opts(from, to, options).await)
    }
}

/// An upload that may be aborted after it could not be completed, so that the reason is what is told.
#[derive(Debug)]
struct Upload {
    inner: Box<dyn MultipartUpload>,
    is_over: bool,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.inner.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.is_over = true;
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        if self.is_over { Ok(()) } else { self.inner.abort().await }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::object_store::DefaultObjectStoreRegistry;
    use object_store::ObjectStoreExt;

    use super::*;

    fn store(url: &str) -> EngineResult<Arc<dyn ObjectStore>> {
        HdfsRegistry(Arc::new(DefaultObjectStoreRegistry::new())).get_store(&Url::parse(url).unwrap())
    }

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

    #[tokio::test]
    async fn errors_say_where_and_what_to_do() {
        // Nobody listens at this port, nor is there such a name service.
        for (url, said) in [("hdfs://127.0.0.1:1/", "refused"), ("viewfs://nowhere/", "HADOOP_CONF_DIR")] {
            let error = store(url).unwrap().head(&"t.fermion".into()).await.unwrap_err().to_string();
            assert!(error.contains(url.trim_end_matches('/')) && error.contains(said), "{error}");
            let error = store(url).unwrap().list(None).try_collect::<Vec<_>>().await.unwrap_err().to_string();
            assert!(error.contains(url.trim_end_matches('/')), "{error}");
        }
        assert!(store("hdfs://127.0.0.1/").unwrap().head(&"t".into()).await.unwrap_err().to_string().contains("refused"));
    }

    #[tokio::test]
    async fn nobody_waits_for_ever() {
        let patience = Duration::from_millis(5);
        let error = in_time(patience, futures::future::pending::<Result<()>>()).await.unwrap_err().to_string();
        assert!(error.contains("no answer within 5ms"), "{error}");
        let items = futures::stream::iter([Ok(1), Ok(2)]).chain(futures::stream::pending()).boxed();
        let found: Vec<_> = stream_in_time(patience, items).map(|item| item.ok()).collect().await;
        assert_eq!(found, [Some(1), Some(2), None]);
        let items = futures::stream::iter([Ok(1), Err(Error::NotImplemented { operation: String::new(), implementer: String::new() })]).boxed();
        let found: Vec<_> = stream_in_time(patience, items).map(|item| item.ok()).collect().await;
        assert_eq!(found, [Some(1), None]);
    }

    #[test]
    fn what_is_being_written_is_no_file_of_a_table() {
        for name in ["t/.a.fermion.tmp.1", "t/.b.tmp.23", "t/a.fermion._COPYING_"] {
            assert!(is_unfinished(&name.into()), "{name}");
        }
        for name in ["t/a.fermion", "t/.a.fermion", "t/a.tmp.1", "t/.a.tmp.x", "a.tmp.1/b.fermion", ".a.tmp.1/b.fermion"] {
            assert!(!is_unfinished(&name.into()), "{name}");
        }
    }
}
