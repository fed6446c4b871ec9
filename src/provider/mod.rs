//! The formats in DataFusion, one file per concept of the engine:
//!
//! | file | concept |
//! |---|---|
//! | `register` | a session: SQL by [`register()`], Rust by [`FermionSessionExt`] and [`FermionDataFrameExt`] |
//! | `table`, `create` | `TableProvider`; `TableProviderFactory`: `CREATE EXTERNAL TABLE` |
//! | `places` | which files are a table's |
//! | `kind` | what there is to know of a format |
//! | `fermion`, `alkaid` | each format: its name, options, reader and writer |
//! | `options` | session configuration, table options, statement options |
//! | `format` | `FileFormat`: schema, statistics and order of files; plans for reading and writing |
//! | `schema`, `stats`, `ordering` | what `format` infers |
//! | `source` | `FileSource`: what the optimizer pushes into a scan |
//! | `pushdown`, `sort` | which filters and orders it takes |
//! | `morsel` | `Morselizer`: the loop over a scan of the format |
//! | `file` | one file of a scan, from `PartitionedFile` to that loop |
//! | `adapt` | expressions over the table as expressions over one file |
//! | `narrow` | the parts of nested columns that expressions use |
//! | `prune` | `PruningStatistics`: predicates on zones |
//! | `lengths` | functions of lists that need no values |
//! | `offsets`, `offsets_alone` | lists without values, and `PhysicalOptimizerRule`: scans of them where plans need no more |
//! | `codes_of`, `groups` | strings as codes, and `PhysicalOptimizerRule`: groups by them, and by runs of rows |
//! | `of_column`, `by_value` | expressions about one column, and `PhysicalOptimizerRule`: of strings once for each that is stored |
//! | `known_sums` | `PhysicalOptimizerRule`: sums and averages that files say |
//! | `aggregates` | aggregations above scans, for these rules |
//! | `lift` | fields of structs as columns, which have statistics of their own |
//! | `filter`, `selection`, `fallible` | predicates on rows, the rows that they leave, and what must not be asked about the others |
//! | `leading` | what a sort or a join says about the first of its columns |
//! | `late` | `PhysicalOptimizerRule`: the first rows of an order, and the columns that are read of those alone |
//! | `learnt` | in which order conjuncts are asked |
//! | `kernel`, `between`, `one_of`, `like` | conjuncts that are answered without the engine: comparisons of numbers with constants, lists of them, and pieces of text |
//! | `decode` | batches of a loaded stripe |
//! | `ranges`, `share` | where files are cut for partitions, and what one reads of another's |
//! | `rows` | `file_row_index()`, and rows that are known by it |
//! | `io`, `local`, `recycle`, `cache` | bytes from a store or a local file, memory for them; open files in DataFusion's cache |
//! | `inspect` | `TableFunctionImpl`: what Fermion files are made of |
//! | `sink` | `FileSink`: `COPY`, `INSERT` |
//! | `metrics`, `error` | what is counted, what is reported |
//!
//! Nothing here knows a byte of the format: ranges pass from the engine to the format and from the format to the store unopened, but for `io`.

mod adapt;
mod aggregates;
mod alkaid;
mod at_hand;
mod backwards;
mod between;
mod by_value;
mod cache;
mod codes_of;
mod create;
mod decode;
mod error;
mod fallible;
mod fermion;
mod file;
mod filter;
mod format;
mod groups;
mod inspect;
mod io;
mod kernel;
mod kind;
mod known_sums;
mod late;
mod leading;
mod learnt;
mod lengths;
mod lift;
mod like;
mod local;
mod lossy;
pub mod metrics;
mod morsel;
mod narrow;
mod of_column;
mod offsets;
mod offsets_alone;
mod one_of;
mod options;
mod ordering;
mod places;
mod prune;
mod pushdown;
mod ranges;
mod recycle;
mod register;
mod rows;
mod schema;
mod select;
mod selection;
mod share;
mod sink;
mod sort;
mod source;
mod stats;
mod table;
mod upload;
mod weaken;
mod wide;
mod zone_set;

pub use alkaid::{Alkaid, AlkaidFormat, AlkaidFormatFactory, AlkaidOptions, AlkaidReadOptions, AlkaidSink, AlkaidTable, AlkaidWriteOptions};
pub use backwards::Backwards;
pub use by_value::TextByValue;
pub use error::FileError;
pub use fermion::{Fermion, FermionFormat, FermionFormatFactory, FermionOptions, FermionReadOptions, FermionSink, FermionTable, FermionWriteOptions};
pub use format::{FactoryOf, FormatOf};
pub use groups::{GroupsByCodes, GroupsByRuns};
pub use inspect::register_inspection;
pub use kind::TableFormat;
pub use known_sums::KnownSums;
pub use late::LateColumns;
pub use offsets_alone::OffsetsAlone;
pub use options::OptionsOf;
pub use register::{FermionDataFrameExt, FermionSessionExt, register, with_rules};
pub use sink::SinkOf;
pub use source::FormatSource;
pub use table::TableOf;
