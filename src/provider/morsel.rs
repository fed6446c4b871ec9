//! The loop over a file's [`Scan`]: fetches become IO futures, prunings are answered, loaded rows become morsels.
//!
//! A stripe is a morsel. As soon as one is loaded, the fetch of the next is started, and runs while the first is decoded; not more than one (or
//! one group, where stripes are fetched together) is ahead, so memory is two stripes or groups per partition. Stripes follow each other in a chain, so rows come in the order of the
//! file, or in the opposite one, but where a `LIMIT` of another order is looking for its rows. Where rows are selected by some columns before the others are fetched, it is the fetch of those columns that
//! runs ahead; the others' comes when the stripe before has been decoded, beside nothing, so it has to be worth it.
//!
//! Of a file that the kernel has in memory there is nothing to wait for. The next stripe is not planned before the one before it has been decoded, so filters that change are as
//! far as they can be; and nothing of it is fetched: [`AtHand`] reads pages when rows of theirs are decoded, so memory is a few pages of each column that has one value per row, and of
//! others those that have been read of the stripe. Formats that cannot [defer](crate::format::scan::Scan::defer) what they fetch have the stripe, and no other.
//!
//! This is the only file that knows DataFusion's morsel API, which is marked as experimental.

use std::fmt;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use datafusion::common::runtime::SpawnedTask;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::error::{DataFusionError, Result};
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use futures::stream::BoxStream;

use super::at_hand::AtHand;
use super::cache::OpenFile;
use super::codes_of::CodeReader;
use super::decode::{BatchDecoder, FilteredOutput};
use super::file::{FileScan, PreparedFile, ScanContext};
use super::filter::MorselFilter;
use crate::format::scan::{self, Answer, Fetch, Level, Step, Zones};

/// Makes morsels of the files of one partition.
#[derive(Debug)]
pub(super) struct FileMorselizer {
    context: Arc<ScanContext>,
}

impl FileMorselizer {
    pub(super) fn new(context: ScanContext) -> Self {
        Self { context: Arc::new(context) }
    }
}

impl Morselizer for FileMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let prepared = PreparedFile::new(Arc::clone(&self.context), file)?;
        Ok(Box::new(Planner::Prepared(Box::new(prepared))))
    }
}

/// How far a file is.
enum Planner {
    /// Nothing has been read.
    Prepared(Box<PreparedFile>),
    /// The metadata has been read.
    Opened(Box<PreparedFile>, OpenFile),
    /// The scan waits for an answer.
    Scanning(Box<FileScan>, Answer),
    /// The scan has said what is next.
    Stepped(Box<FileScan>, Step),
}

impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prepared(_) => "Prepared",
            Self::Opened(..) => "Opened",
            Self::Scanning(..) => "Scanning",
            Self::Stepped(..) => "Stepped",
        })
    }
}

impl MorselPlanner for Planner {
    /// `None` ends the file. A plan is never empty: DataFusion takes a plan with nothing in it for progress and loses track of the file.
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        match *self {
            Self::Prepared(mut file) => {
                if file.is_pruned()? {
                    return Ok(None);
                }
                Ok(Some(MorselPlan::new().with_pending_planner(async move {
                    let open = file.open().await?;
                    Ok(Box::new(Self::Opened(file, open)) as Box<dyn MorselPlanner>)
                })))
            }
            Self::Opened(file, open) => match file.scan(open)? {
                Some(scan) if scan.is_ready() => answer(Box::new(scan), Answer::Next),
                Some(mut scan) => Ok(Some(MorselPlan::new().with_pending_planner(async move {
                    scan.make_ready().await?;
                    Ok(Box::new(Self::Scanning(Box::new(scan), Answer::Next)) as Box<dyn MorselPlanner>)
                }))),
                None => Ok(None),
            },
            Self::Scanning(scan, answer) => self::answer(scan, answer),
            Self::Stepped(scan, step) => advance(scan, step),
        }
    }
}

/// Morsels, at most, that are handed over before who decodes them is heard again. Those that were fetched together should be less, so that the next are fetched
/// meanwhile.
const MORSELS_AT_ONCE: usize = 64;

/// Stripes that are filtered before others on the same thread, and whoever ends the query, get a turn.
const SELECTED_AT_ONCE: usize = 4;

/// The same of stripes that are judged by what is known of them.
const JUDGED_AT_ONCE: usize = 256;

/// Goes on when others have had a turn.
async fn later(file: Box<FileScan>, answer: Answer) -> Result<Box<dyn MorselPlanner>> {
    tokio::task::yield_now().await;
    Ok(Box::new(Planner::Scanning(file, answer)))
}

/// Goes on with an answer.
fn answer(mut file: Box<FileScan>, answer: Answer) -> Result<Option<MorselPlan>> {
    if file.is_done()? {
        return Ok(None);
    }
    let step = file.step(answer)?;
    advance(file, step)
}

/// Steps the scan until it has to wait, or has enough for now.
fn advance(mut file: Box<FileScan>, mut step: Step) -> Result<Option<MorselPlan>> {
    let mut morsels: Vec<Box<dyn Morsel>> = Vec::new();
    let (mut selected, mut judged) = (0, 0);
    let end = |morsels: Vec<Box<dyn Morsel>>| (!morsels.is_empty()).then(|| MorselPlan::new().with_morsels(morsels));
    loop {
        let answer = match step {
            Step::Fetch(fetches) => match file.defer(&fetches)? {
                Some(next) => {
                    step = next;
                    continue;
                }
                None => return Ok(Some(MorselPlan::new().with_morsels(morsels).with_pending_planner(fetch(file, fetches)))),
            },
            Step::Prune(zones) => {
                let answer = file.keep(&zones);
                judged += 1;
                if judged == JUDGED_AT_ONCE {
                    return Ok(Some(MorselPlan::new().with_morsels(morsels).with_pending_planner(later(file, answer))));
                }
                answer
            }
            Step::Lookup(columns) => Answer::Lookup(match &mut file.zone_pruner {
                Some(pruner) => pruner.values_of(&columns),
                None => vec![None; columns.len()],
            }),
            Step::Select(morsel) => {
                let answer = Answer::Select(file.select(morsel));
                selected += 1;
                if selected == SELECTED_AT_ONCE {
                    return Ok(Some(MorselPlan::new().with_morsels(morsels).with_pending_planner(later(file, answer))));
                }
                answer
            }
            Step::Decode(morsel) => {
                morsels.push(Box::new(file.morsel(morsel)));
                if file.is_over() || file.is_done()? {
                    return Ok(end(morsels));
                }
                // Where nothing has to be fetched between them, do not run ahead of who decodes them.
                if morsels.len() == MORSELS_AT_ONCE || file.reader.is_at_hand() {
                    let planner: Box<dyn MorselPlanner> = Box::new(Planner::Scanning(file, Answer::Next));
                    return Ok(Some(MorselPlan::new().with_morsels(morsels).with_planners(vec![planner])));
                }
                Answer::Next
            }
            Step::Done => return Ok(end(morsels)),
        };
        step = file.step(answer)?;
    }
}

/// Fetches in a task of its own, so that it goes on while the partition's task decodes. From a file of this machine, which is often in memory, it is read here:
/// what is not is read by another thread anyway.
async fn fetch(mut file: Box<FileScan>, fetches: Vec<Fetch>) -> Result<Box<dyn MorselPlanner>> {
    let reader = file.reader.clone();
    if reader.is_local() {
        reader.open(&fetches).await?;
        if let Some(step) = file.defer(&fetches)? {
            return Ok(Box::new(Planner::Stepped(file, step)));
        }
        let fetched = reader.fetch(&fetches).await?;
        return Ok(Box::new(Planner::Scanning(file, Answer::Fetched(fetched))));
    }
    let task = SpawnedTask::spawn(async move { reader.fetch(&fetches).await });
    let fetched = task.join_unwind().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
    Ok(Box::new(Planner::Scanning(file, Answer::Fetched(fetched))))
}

impl FileScan {
    /// Whether the rest of the file is not wanted: the limit is reached, or a filter that has changed since excludes the whole file.
    fn is_done(&mut self) -> Result<bool> {
        if self.rows_left == Some(0) {
            return Ok(true);
        }
        let Some(pruner) = &mut self.pruner else {
            return Ok(false);
        };
        let pruned = pruner.is_watching() && pruner.should_prune()?;
        if pruned {
            self.metrics.files_pruned.add_pruned(1);
            self.metrics.files_pruned.subtract_matched(1);
        }
        Ok(pruned)
    }

    fn keep(&mut self, zones: &Zones) -> Answer {
        let keep = match (&mut self.zone_pruner, self.rows_left) {
            (Some(pruner), _) => pruner.keep(zones),
            (None, Some(rows)) => until(zones, rows),
            (None, None) => BooleanArray::from(vec![true; zones.row_counts.len()]),
        };
        let order = self.stripe_order.as_ref().filter(|_| zones.level == Level::Stripe);
        order.and_then(|order| order.visit(zones, &keep)).map_or(Answer::Keep(keep), Answer::Visit)
    }

    fn morsel(&mut self, morsel: Box<dyn scan::Morsel>) -> DecodeMorsel {
        if let Some(left) = &mut self.rows_left {
            *left = left.saturating_sub(morsel.rows());
        }
        let passed = self.passed.pop_front().flatten();
        let filter = self.filter.clone().map(|filter| MorselFilter::new(filter, self.metrics.clone()).knowing(passed, morsel.is_backwards()));
        let filter = filter.map(|filter| FilteredOutput::new(filter, &self.projector, self.batch_rows));
        let time = self.metrics.decoding_time.clone();
        let (projector, reader) = (Arc::clone(&self.projector), self.reader.clone());
        let morsel = AtHand::new(morsel, self.reader.clone());
        let codes = CodeReader::new(self.projector.codes.clone());
        DecodeMorsel(BatchDecoder { morsel, taken: None, projector, codes, reader, time, filter, backwards: self.backwards })
    }
}

/// The zones up to the one with the last of `rows` rows.
fn until(zones: &Zones, rows: u64) -> BooleanArray {
    let mut before = 0_u64;
    let keep = zones.row_counts.values().iter().map(|count| {
        let keep = before < rows;
        before = before.saturating_add(*count);
        keep
    });
    keep.collect::<Vec<_>>().into()
}

/// Loaded rows of one stripe.
#[derive(Debug)]
struct DecodeMorsel(BatchDecoder);

impl Morsel for DecodeMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        self.0.into_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::UInt64Array;

    #[test]
    fn a_limit_keeps_the_zones_with_its_rows() {
        let zones = Zones { level: Level::Page, row_counts: UInt64Array::from(vec![10, 10, 10]), columns: vec![] };
        assert_eq!(until(&zones, 1), BooleanArray::from(vec![true, false, false]));
        assert_eq!(until(&zones, 10), BooleanArray::from(vec![true, false, false]));
        assert_eq!(until(&zones, 11), BooleanArray::from(vec![true, true, false]));
        assert_eq!(until(&zones, 100), BooleanArray::from(vec![true, true, true]));
    }
}
