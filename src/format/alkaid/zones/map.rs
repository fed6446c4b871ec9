//! The zone map of an open file, whose columns are decoded when they are asked for.

use std::collections::HashMap;

use super::wire::{Zone, read_ordering, read_rows, read_zones};
use crate::format::alkaid::footer::Block;
use crate::format::error::Result;
use crate::format::scan::Section;

const PREFIX: &str = "fermion:zones:";

/// The key of the rows of the batches.
pub(super) const ROWS_KEY: &str = "fermion:zones:rows";

/// The key of the sort order of all rows.
pub(super) const ORDERING_KEY: &str = "fermion:zones:ordering";

/// The key of the zones of a column.
pub(super) fn key_of(column: usize) -> String {
    format!("{PREFIX}{column}")
}

/// The zone map of an open file.
#[derive(Debug)]
pub(crate) struct ZoneMap {
    /// Rows of each batch.
    pub(crate) rows: Vec<u32>,
    /// The sort order of all rows.
    pub(crate) ordering: Option<String>,
    /// Entries of columns as they are in the footer.
    columns: HashMap<String, String>,
}

impl ZoneMap {
    /// Takes the zone map out of the footer's metadata, if there is one of these batches.
    pub(crate) fn take(metadata: &mut HashMap<String, String>, batches: &[Block]) -> Result<Option<Self>> {
        let mut columns: HashMap<String, String> = metadata.extract_if(|key, _| key.starts_with(PREFIX)).collect();
        let Some(text) = columns.get(ROWS_KEY) else { return Ok(None) };
        let rows = read_rows(text, batches).map_err(|error| error.in_section(Section::Footer))?;
        let ordering = columns.remove(ORDERING_KEY).map(|text| read_ordering(&text, batches)).transpose();
        let ordering = ordering.map_err(|error| error.in_section(Section::Footer))?.flatten();
        Ok(rows.map(|rows| Self { rows, ordering, columns }))
    }

    /// The zones of a column, if it has any that this reader knows.
    pub(crate) fn column(&self, column: usize) -> Result<Option<Vec<Zone>>> {
        let zones = self.columns.get(&key_of(column)).map_or(Ok(None), |text| read_zones(text, self.rows.len()));
        zones.map_err(|error| error.in_section(Section::Footer))
    }

    /// Bytes in memory.
    pub(crate) fn memory_size(&self) -> usize {
        self.rows.len() * size_of::<u32>() + self.columns.iter().map(|(key, value)| key.len() + value.len() + 2 * size_of::<String>()).sum::<usize>()
    }
}
