//! The sides: the ways to keep a table that are compared.

use datafusion::error::Result;
use datafusion::prelude::SessionContext;

/// One way to keep tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side {
    pub(crate) name: &'static str,
    /// The files; a side without any has its tables in memory.
    pub(crate) files: Option<Files>,
    /// What its sessions have set.
    settings: &'static [(&'static str, &'static str)],
    /// Whether it is there only when it is named.
    is_extra: bool,
}

/// What a side's files are. Sides with the same files share them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) stored_as: &'static str,
    pub(crate) extension: &'static str,
    /// Where they are, and what they are called in tables.
    pub(crate) folder: &'static str,
    pub(crate) write_options: &'static [(&'static str, &'static str)],
    /// The option that says how many rows are written together.
    pub(crate) part_rows: Option<&'static str>,
}

const PARQUET: Files = Files {
    stored_as: "PARQUET",
    extension: "parquet",
    folder: "parquet",
    write_options: &[("compression", "zstd(3)")],
    part_rows: Some("max_row_group_size"),
};
const VORTEX: Files = Files { stored_as: "VORTEX", extension: "vortex", folder: "vortex", write_options: &[], part_rows: None };
const FERMION: Files = Files { stored_as: "FERMION", extension: "fermion", folder: "fermion", write_options: &[], part_rows: Some("stripe_rows") };
const UNCHECKED: Files = Files { folder: "fermion-unchecked", write_options: &[("checksums", "false")], ..FERMION };

/// Parquet's filters in the scan, which are not what DataFusion does by itself.
const PUSHDOWN: [(&str, &str); 2] =
    [("datafusion.execution.parquet.pushdown_filters", "true"), ("datafusion.execution.parquet.reorder_filters", "true")];

/// Fermion's filters prune in the scan, and are evaluated above it.
const ABOVE: [(&str, &str); 1] = [("fermion.pushdown_filters", "false")];

/// In the order of the columns of every table; those with the same files lie side by side. The first is what the others are plotted against, the last what is compared with all others.
pub(crate) const SIDES: [Side; 7] = [
    Side { name: "Parquet", files: Some(PARQUET), settings: &[], is_extra: false },
    Side { name: "Parquet+pushdown", files: Some(PARQUET), settings: &PUSHDOWN, is_extra: false },
    Side { name: "Vortex", files: Some(VORTEX), settings: &[], is_extra: false },
    Side { name: "MemTable", files: None, settings: &[], is_extra: false },
    Side { name: "Fermion+unchecked", files: Some(UNCHECKED), settings: &[], is_extra: true },
    Side { name: "Fermion+above", files: Some(FERMION), settings: &ABOVE, is_extra: true },
    Side { name: "Fermion", files: Some(FERMION), settings: &[], is_extra: false },
];

impl Side {
    /// A side by its name, in letters of any case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        SIDES.into_iter().find(|side| side.name.eq_ignore_ascii_case(name))
    }

    /// Those that are measured where none are named.
    pub(crate) fn usual() -> Vec<Self> {
        SIDES.into_iter().filter(|side| !side.is_extra).collect()
    }

    /// Sets what its sessions have set in one that knows all formats.
    pub(crate) async fn configure(&self, context: &SessionContext) -> Result<()> {
        for (key, value) in self.settings {
            context.sql(&format!("SET {key} = {value}")).await?;
        }
        Ok(())
    }
}
