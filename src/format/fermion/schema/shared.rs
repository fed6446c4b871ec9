//! Files of one table have the same schema, to the byte: one of them is kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;

use super::SchemaArea;
use crate::format::error::Result;

/// The schemas of files that are open, by the CRC32 of their bytes.
#[derive(Debug, Default)]
pub struct Schemas(Mutex<HashMap<u32, Weak<SchemaArea>>>);

impl Schemas {
    /// The schema of these bytes, of a file of `field_count` columns: that of another file, if it has the same bytes.
    pub fn open(&self, bytes: &Bytes, crc: u32, field_count: u32) -> Result<Arc<SchemaArea>> {
        if let Some(known) = self.find(crc).filter(|known| known.bytes() == bytes && known.field_count() == field_count as usize) {
            return Ok(known);
        }
        // A slice would keep in memory what else has been read.
        let opened = Arc::new(SchemaArea::open(Bytes::copy_from_slice(bytes), field_count)?);
        let mut schemas = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        schemas.retain(|_, schema| schema.strong_count() > 0);
        schemas.insert(crc, Arc::downgrade(&opened));
        Ok(opened)
    }

    fn find(&self, crc: u32) -> Option<Arc<SchemaArea>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&crc)?.upgrade()
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
        let schemas = Schemas::default();
        let first = schemas.open(&bytes("a"), 1, 1).unwrap();
        assert!(Arc::ptr_eq(&first, &schemas.open(&bytes("a"), 1, 1).unwrap()));
        let other = schemas.open(&bytes("b"), 2, 1).unwrap();
        assert_eq!([first.name(0), other.name(0)], [Some("a"), Some("b")]);
        assert_eq!(schemas.0.lock().unwrap().len(), 2);
        drop((first, other));
        drop(schemas.open(&bytes("c"), 3, 1).unwrap());
        assert_eq!(schemas.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn other_bytes_of_the_same_checksum_are_another_schema() {
        let schemas = Schemas::default();
        let [first, second] = ["a", "b"].map(|name| schemas.open(&bytes(name), 7, 1).unwrap());
        assert_eq!([first.name(0), second.name(0)], [Some("a"), Some("b")]);
        // Nor is a count that they contradict believed because another file has them.
        assert!(schemas.open(&bytes("b"), 7, 2).is_err());
    }
}
