//! Scans of tables of very many columns, planned with those that a query uses.
//!
//! DataFusion keeps a statistic of each of a table's columns with each of its files, and copies them several times while it plans. For tens of thousands of columns that takes
//! longer than to read one. So such a table is planned as one that has only the columns of the query, whose statistics are then taken from the files' metadata.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::catalog::{ScanArgs, ScanResult, Session, TableProvider};
use datafusion::common::Constraints;
use datafusion::datasource::listing::{ListingTable, ListingTableConfig};
use datafusion::error::Result;
use datafusion::logical_expr::SortExpr;

use super::format::FormatOf;
use super::kind::TableFormat;
use super::schema::Positions;

/// With fewer columns it is not worth it: DataFusion's own cache has the statistics of all of them.
const COLUMNS_MIN: usize = 500;

/// Whether it has so many columns.
pub(super) fn is_wide(table: &ListingTable) -> bool {
    table.schema().fields().len() >= COLUMNS_MIN
}

/// Plans a scan of a table, by its wanted columns alone if there are many others.
pub(super) async fn scan<F: TableFormat>(table: &ListingTable, state: &dyn Session, args: ScanArgs<'_>) -> Result<ScanResult> {
    let Some(narrow) = args.projection().filter(|_| is_wide(table)).and_then(|wanted| Narrow::of::<F>(table, wanted)) else {
        return table.scan_with_args(state, args).await;
    };
    let narrow = narrow?;
    narrow.table.scan_with_args(state, args.with_projection(Some(&narrow.projection))).await
}

/// A table of some columns of another, and the wanted ones of them.
struct Narrow {
    table: ListingTable,
    projection: Vec<usize>,
}

impl Narrow {
    /// `None` if the table has to be planned as it is: most of it is wanted, or what is known of it is about columns in a way that is not understood here.
    fn of<F: TableFormat>(table: &ListingTable, wanted: &[usize]) -> Option<Result<Self>> {
        let options = table.options();
        let format = options.format.downcast_ref::<FormatOf<F>>()?;
        if options.output_partitioning.is_some() {
            return None;
        }
        let schema = table.schema();
        let in_files = schema.fields().len().checked_sub(options.table_partition_cols.len())?;
        let sorted_by = options.file_sort_order.iter().flatten().flat_map(columns_of).map(|name| schema.index_of(name).ok());
        let sorted_by = sorted_by.collect::<Option<Vec<usize>>>()?;
        let columns: BTreeSet<usize> = wanted.iter().chain(&sorted_by).copied().filter(|column| *column < in_files).collect();
        let columns: Vec<usize> = columns.into_iter().collect();
        if columns.len() >= in_files / 2 {
            return None;
        }
        // Those of partitions stay, behind the others.
        let place = |column: &usize| match column.checked_sub(in_files) {
            Some(partition) => Some(columns.len() + partition),
            None => columns.binary_search(column).ok(),
        };
        let projection = wanted.iter().map(place).collect::<Option<Vec<usize>>>()?;
        let all: Vec<usize> = columns.iter().copied().chain(in_files..schema.fields().len()).collect();
        let constraints = table.constraints().and_then(|constraints| constraints.project(&all)).unwrap_or_default();
        let format = format.clone().with_positions(Positions::of(&columns));
        Some(Self::new(table, &columns, format, constraints, projection))
    }

    fn new<F: TableFormat>(
        table: &ListingTable,
        columns: &[usize],
        format: FormatOf<F>,
        constraints: Constraints,
        projection: Vec<usize>,
    ) -> Result<Self> {
        let mut options = table.options().clone();
        options.format = Arc::new(format);
        let schema = Arc::new(table.schema().project(columns)?);
        let config = ListingTableConfig::new_with_multi_paths(table.table_paths().clone()).with_listing_options(options).with_schema(schema);
        // The session's cache of statistics has one entry for a file, which is of all columns or of others.
        Ok(Self { table: ListingTable::try_new(config)?.with_constraints(constraints), projection })
    }
}

fn columns_of(sort: &SortExpr) -> impl Iterator<Item = &str> {
    sort.expr.column_refs().into_iter().map(|column| column.name.as_str())
}
