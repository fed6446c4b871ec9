//! Files of one table have the same schema, to the byte: one of them is kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use super::SchemaArea;
use crate::format::error::Result;

/// The schemas of files that are open, by the CRC32 of their bytes.
#[derive(Debug, Default)]
pub struct SharedSchemas(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    schemas: HashMap<u32, Weak<SchemaArea>>,
    /// When there are so many, those that are not in use any more are taken out.
    full: usize,
}

impl SharedSchemas {
    /// The schema of these bytes, of a file of `field_count` columns: that of another file, if it has the same bytes. And whether there was none.
    pub fn open(&self, bytes: &Bytes, crc: u32, field_count: u32) -> Result<(Arc<SchemaArea>, bool)> {
        let is_same = |known: &Arc<SchemaArea>| known.bytes() == bytes && known.field_count() == field_count as usize;
        if let Some(known) = self.known().find(crc).filter(is_same) {
            return Ok((known, false));
        }
        // A slice would keep in memory what else has been read.
        let opened = Arc::new(SchemaArea::open(Bytes::copy_from_slice(bytes), field_count)?);
        let mut known = self.known();
        match known.find(crc).filter(is_same) {
            Some(meanwhile) => Ok((meanwhile, false)),
            None => {
                known.insert(crc, &opened);
                Ok((opened, true))
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn find(&self, crc: u32) -> Option<Arc<SchemaArea>> {
        self.schemas.get(&crc)?.upgrade()
    }

    fn insert(&mut self, crc: u32, schema: &Arc<SchemaArea>) {
        if self.schemas.len() >= self.full {
            self.schemas.retain(|_, schema| schema.strong_count() > 0);
            self.full = (2 * self.schemas.len()).max(16);
        }
        self.schemas.insert(crc, Arc::downgrade(schema));
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;
    use crate::format::fermion::schema::write_schema;

    fn bytes(name: &str) -> Bytes {
        write_schema(&Schema::new(vec![Field::new(name, DataType::Int32, true)]), &[]).unwrap().into()
    }

    #[test]
    fn the_same_bytes_are_one_schema_as_long_as_it_is_in_use() {
        let schemas = SharedSchemas::default();
        let (first, is_first) = schemas.open(&bytes("a"), 1, 1).unwrap();
        let (again, is_first_again) = schemas.open(&bytes("a"), 1, 1).unwrap();
        assert!(Arc::ptr_eq(&first, &again) && is_first && !is_first_again);
        let (other, is_first) = schemas.open(&bytes("b"), 2, 1).unwrap();
        assert!(is_first);
        assert_eq!([first.name(0), other.name(0)], [Some("a"), Some("b")]);
        drop((first, again, other));
        // What is in use no more is opened again, and makes room.
        assert!(schemas.open(&bytes("a"), 1, 1).unwrap().1);
        (0..100).for_each(|crc| assert!(schemas.open(&bytes("c"), 1000 + crc, 1).unwrap().1));
        assert!(schemas.known().schemas.len() <= 16);
    }

    #[test]
    fn other_bytes_of_the_same_checksum_are_another_schema() {
        let schemas = SharedSchemas::default();
        let [first, second] = ["a", "b"].map(|name| schemas.open(&bytes(name), 7, 1).unwrap().0);
        assert_eq!([first.name(0), second.name(0)], [Some("a"), Some("b")]);
        // Nor is a count that they contradict believed because another file has them.
        assert!(schemas.open(&bytes("b"), 7, 2).is_err());
    }
}
