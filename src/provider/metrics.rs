//! What a scan counts. Every metric is named here and nowhere else; where DataFusion's Parquet source has a metric of the same meaning, its name is used.

use std::sync::{Arc, OnceLock};

use datafusion::common::format::{MetricCategory, MetricType};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, Label, MetricBuilder, PruningMetrics, Time};

/// Files and ranges of files, skipped by their statistics and partition values or read.
pub const FILES_PRUNED: &str = "files_ranges_pruned_statistics";
/// Stripes, skipped by their statistics or read.
pub const STRIPES_PRUNED: &str = "stripes_pruned_statistics";
/// Stripes that were not skipped by their statistics, skipped by their bloom filters or read.
pub const STRIPES_PRUNED_BLOOM_FILTER: &str = "stripes_pruned_bloom_filter";
/// Runs of rows over which the pages of all predicate columns are the same, skipped by their statistics or read.
pub const PAGES_PRUNED: &str = "pages_pruned_statistics";
/// Bytes fetched, gaps between merged ranges included.
pub const BYTES_SCANNED: &str = "bytes_scanned";
/// Ranges that were asked for, merged ones counted once.
pub const REQUESTS: &str = "requests";
/// Times that ranges were asked for and waited for, however many at once: over a network each takes at least the time that an answer takes. What the system has in memory when rows
/// are decoded is not waited for.
pub const REQUEST_ROUNDS: &str = "request_rounds";
/// Columns whose metadata was fetched.
pub const COLUMN_METADATA_LOADED: &str = "column_metadata_loaded";
/// Time to open files.
pub const METADATA_LOAD_TIME: &str = "metadata_load_time";
/// Time to evaluate predicates on statistics.
pub const STATISTICS_EVAL_TIME: &str = "statistics_eval_time";
/// Time in the store.
pub const IO_TIME: &str = "time_elapsed_io";
/// Time to decode pages, and to read those that the system has in memory.
pub const DECODING_TIME: &str = "time_elapsed_decoding";
/// Rows that passed the filter in the scan.
pub const PUSHDOWN_ROWS_MATCHED: &str = "pushdown_rows_matched";
/// Rows that did not.
pub const PUSHDOWN_ROWS_PRUNED: &str = "pushdown_rows_pruned";
/// Time to evaluate the filter on rows.
pub const ROW_PUSHDOWN_EVAL_TIME: &str = "row_pushdown_eval_time";
/// Predicates that could not be evaluated on statistics.
pub const PREDICATE_EVALUATION_ERRORS: &str = "predicate_evaluation_errors";
/// Predicates for which no predicate on statistics could be made.
pub const PREDICATE_CREATION_ERRORS: &str = "num_predicate_creation_errors";

/// The metrics of one file in one partition of a scan.
#[derive(Debug, Clone)]
pub(super) struct FileMetrics {
    pub(super) files_pruned: PruningMetrics,
    pub(super) stripes_pruned: PruningMetrics,
    pub(super) bloom_filters: BloomFilterMetrics,
    pub(super) pages_pruned: PruningMetrics,
    pub(super) bytes_scanned: Count,
    pub(super) requests: Count,
    pub(super) request_rounds: Count,
    pub(super) column_metadata_loaded: Count,
    pub(super) metadata_load_time: Time,
    pub(super) statistics_eval_time: Time,
    pub(super) io_time: Time,
    pub(super) decoding_time: Time,
    pub(super) pushdown_rows_matched: Count,
    pub(super) pushdown_rows_pruned: Count,
    pub(super) row_pushdown_eval_time: Time,
    pub(super) predicate_evaluation_errors: Count,
    pub(super) predicate_creation_errors: Count,
}

/// What is counted of bloom filters, which few files have: there is nothing to see of it where there are none.
#[derive(Debug, Clone)]
pub(super) struct BloomFilterMetrics {
    metrics: ExecutionPlanMetricsSet,
    partition: usize,
    file: Arc<str>,
    made: Arc<OnceLock<PruningMetrics>>,
}

impl BloomFilterMetrics {
    pub(super) fn add(&self, skipped: usize, kept: usize) {
        if skipped + kept > 0 {
            let builder = MetricBuilder::new(&self.metrics).with_label(Label::new("filename", Arc::clone(&self.file))).with_type(MetricType::Summary);
            let pruning = self.made.get_or_init(|| builder.pruning_metrics(STRIPES_PRUNED_BLOOM_FILTER, self.partition));
            pruning.add_pruned(skipped);
            pruning.add_matched(kept);
        }
    }
}

impl FileMetrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize, file: &str) -> Self {
        let dev = MetricBuilder::new(metrics).with_label(Label::new("filename", Arc::<str>::from(file)));
        let summary = dev.clone().with_type(MetricType::Summary);
        let rows = || dev.clone().with_category(MetricCategory::Rows);
        Self {
            files_pruned: MetricBuilder::new(metrics).with_type(MetricType::Summary).pruning_metrics(FILES_PRUNED, partition),
            stripes_pruned: summary.clone().pruning_metrics(STRIPES_PRUNED, partition),
            bloom_filters: BloomFilterMetrics { metrics: metrics.clone(), partition, file: file.into(), made: Arc::default() },
            pages_pruned: summary.clone().pruning_metrics(PAGES_PRUNED, partition),
            bytes_scanned: summary.clone().with_category(MetricCategory::Bytes).counter(BYTES_SCANNED, partition),
            requests: dev.clone().counter(REQUESTS, partition),
            request_rounds: dev.clone().counter(REQUEST_ROUNDS, partition),
            column_metadata_loaded: summary.clone().counter(COLUMN_METADATA_LOADED, partition),
            metadata_load_time: summary.subset_time(METADATA_LOAD_TIME, partition),
            statistics_eval_time: dev.clone().subset_time(STATISTICS_EVAL_TIME, partition),
            io_time: dev.clone().subset_time(IO_TIME, partition),
            pushdown_rows_matched: rows().counter(PUSHDOWN_ROWS_MATCHED, partition),
            pushdown_rows_pruned: rows().counter(PUSHDOWN_ROWS_PRUNED, partition),
            row_pushdown_eval_time: dev.clone().subset_time(ROW_PUSHDOWN_EVAL_TIME, partition),
            decoding_time: dev.clone().subset_time(DECODING_TIME, partition),
            predicate_evaluation_errors: rows().counter(PREDICATE_EVALUATION_ERRORS, partition),
            predicate_creation_errors: MetricBuilder::new(metrics).with_category(MetricCategory::Rows).global_counter(PREDICATE_CREATION_ERRORS),
        }
    }
}
