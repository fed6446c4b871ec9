//! The eight tables of TPC-H, made in memory.

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatchReader;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow};

/// Names of the tables, the largest first.
pub(crate) const TABLES: [&str; 8] = ["lineitem", "orders", "partsupp", "part", "customer", "supplier", "nation", "region"];

/// One table as a single partition: with more, `COPY` to one file would put rows into a different order at each run.
pub(crate) fn table(name: &str, scale: f64) -> Result<MemTable> {
    let reader = reader(name, scale);
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<RecordBatch>, ArrowError>>()?;
    MemTable::try_new(schema, vec![batches])
}

fn reader(name: &str, scale: f64) -> Box<dyn RecordBatchReader> {
    const ROWS: usize = 8192;
    match name {
        "lineitem" => Box::new(LineItemArrow::new(LineItemGenerator::new(scale, 1, 1)).with_batch_size(ROWS)),
        "orders" => Box::new(OrderArrow::new(OrderGenerator::new(scale, 1, 1)).with_batch_size(ROWS)),
        "partsupp" => Box::new(PartSuppArrow::new(PartSuppGenerator::new(scale, 1, 1)).with_batch_size(ROWS)),
        "part" => Box::new(PartArrow::new(PartGenerator::new(scale, 1, 1)).with_batch_size(ROWS)),
        "customer" => Box::new(CustomerArrow::new(CustomerGenerator::new(scale, 1, 1)).with_batch_size(ROWS)),
        "supplier" => Box::new(SupplierArrow::new(SupplierGenerator::new(scale, 1, 1)).with_batch_size(ROWS)),
        "nation" => Box::new(NationArrow::new(NationGenerator::new(scale, 1, 1))),
        _ => Box::new(RegionArrow::new(RegionGenerator::new(scale, 1, 1))),
    }
}
