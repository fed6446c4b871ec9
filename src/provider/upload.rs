//! [`Upload`]: bytes on their way to a store.

use std::mem;

use bytes::Bytes;
use datafusion::error::Result;
use object_store::buffered::BufWriter;
use tokio::io::AsyncWriteExt;

#[cfg(unix)]
use super::recycle;

/// Bytes are handed over in pieces of this size, whose places in the file are multiples of it. Linux keeps a file in memory in pieces as large as those that it was written in (ext4, 6.18): of large
/// ones it is read more than twice as fast as of those that a format makes, of which some have only the eight bytes of an end.
const PIECE: usize = 1 << 20;

/// A file that is written, and that nobody sees before it is [completed](Self::complete).
pub(super) struct Upload {
    writer: BufWriter,
    /// Less than a piece.
    begun: Vec<u8>,
}

impl Upload {
    pub(super) fn new(writer: BufWriter) -> Self {
        Self { writer, begun: Vec::new() }
    }

    pub(super) async fn put(&mut self, bytes: &[Bytes]) -> Result<()> {
        for mut rest in bytes.iter().map(Bytes::as_ref) {
            while !rest.is_empty() {
                if self.begun.capacity() < PIECE {
                    self.begun = buffer();
                }
                let (fits, later) = rest.split_at(rest.len().min(PIECE - self.begun.len()));
                self.begun.extend_from_slice(fits);
                rest = later;
                if self.begun.len() == PIECE {
                    self.flush().await?;
                }
            }
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        let piece = mem::take(&mut self.begun);
        #[cfg(unix)]
        let piece = recycle::bytes(piece);
        #[cfg(not(unix))]
        let piece = Bytes::from(piece);
        Ok(self.writer.put(piece).await?)
    }

    /// Sends what is left, behind which there is nothing.
    pub(super) async fn end(&mut self) -> Result<()> {
        if self.begun.is_empty() { Ok(()) } else { self.flush().await }
    }

    /// Has the store show the file.
    pub(super) async fn complete(mut self) -> Result<()> {
        Ok(self.writer.shutdown().await?)
    }

    /// Has the store forget it. What goes wrong then is not what went wrong before.
    pub(super) async fn abort(mut self) {
        let _ = self.writer.abort().await;
    }
}

fn buffer() -> Vec<u8> {
    #[cfg(unix)]
    let buffer = recycle::buffer(PIECE);
    #[cfg(not(unix))]
    let buffer = Vec::with_capacity(PIECE);
    buffer
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{ObjectStore, ObjectStoreExt};

    use super::*;

    async fn uploaded(lengths: &[usize]) -> (Vec<u8>, Vec<u8>) {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let path = Path::from("x");
        let mut upload = Upload::new(BufWriter::new(Arc::clone(&store), path.clone()));
        let mut expected = Vec::new();
        for (index, length) in lengths.iter().enumerate() {
            let bytes: Vec<u8> = (0..=250).cycle().skip(index).take(*length).collect();
            expected.extend_from_slice(&bytes);
            upload.put(&[Bytes::new(), bytes.into()]).await.unwrap();
        }
        upload.end().await.unwrap();
        upload.complete().await.unwrap();
        (store.get(&path).await.unwrap().bytes().await.unwrap().to_vec(), expected)
    }

    #[tokio::test]
    async fn bytes_arrive_as_they_are_put() {
        for lengths in [vec![], vec![1], vec![PIECE], vec![PIECE - 1, 1, 1], vec![7, 3 * PIECE, 12, PIECE + 1], vec![PIECE; 12]] {
            let (found, expected) = uploaded(&lengths).await;
            assert!(found == expected, "{lengths:?}");
        }
    }
}
