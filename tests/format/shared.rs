//! Scans that share a file: whichever is stepped when, each row is read by one of them.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use datafusion_fermion::format::fermion::{FermionScan, FileMeta, OpenOptions, ScanRequest, WriterOptions};
use datafusion_fermion::format::scan::{Answer, Scan, Step, Zones};
use datafusion_fermion::format::share::Share;
use rand::Rng;

use crate::drive::{fetch, open, write};
use crate::numbered::numbers;
use crate::random;
use crate::roundtrip::assert_same;
use crate::select::{ids_of, numbered, rows_of};

const STRIPE_ROWS: i64 = 300;

/// One of the scans, and what it has read.
struct Reader {
    scan: FermionScan,
    answer: Option<Answer>,
    batches: Vec<RecordBatch>,
}

impl Reader {
    fn new(meta: &Arc<FileMeta>, request: ScanRequest) -> Self {
        Self { scan: FermionScan::new(Arc::clone(meta), request).unwrap(), answer: Some(Answer::Next), batches: Vec::new() }
    }

    /// Goes on by one step, unless the scan is done.
    fn step(&mut self, file: &Bytes) {
        let Some(answer) = self.answer.take() else { return };
        self.answer = match self.scan.step(answer).unwrap() {
            Step::Fetch(fetches) => Some(Answer::Fetched(fetch(file, &fetches))),
            Step::Prune(zones) => Some(Answer::Keep(kept(&zones))),
            Step::Decode(mut morsel) => {
                let first = morsel.first_row().cast_signed();
                while let Some(batch) = morsel.next_batch().unwrap() {
                    let ids = ids_of(std::slice::from_ref(&batch), 0);
                    assert!(ids.iter().all(|id| (first..first + STRIPE_ROWS).contains(id)), "{ids:?} of the stripe that begins with row {first}");
                    self.batches.push(batch);
                }
                Some(Answer::Next)
            }
            Step::Done => None,
            step => unreachable!("{step:?}"),
        };
    }

    fn is_done(&self) -> bool {
        self.answer.is_none()
    }
}

/// Every third stripe is not wanted.
fn is_wanted(id: i64) -> bool {
    id / STRIPE_ROWS % 3 != 1
}

fn kept(zones: &Zones) -> BooleanArray {
    zones.columns[0].min.as_primitive::<Int64Type>().iter().map(|min| min.map(is_wanted)).collect()
}

fn options() -> WriterOptions {
    WriterOptions { page_rows: 100, stripe_rows: usize::try_from(STRIPE_ROWS).unwrap(), ..Default::default() }
}

/// Ranges that make up the file.
fn cut(file: &Bytes, scans: usize, rng: &mut impl Rng) -> Vec<Range<u64>> {
    let mut cuts: Vec<u64> = (1..scans).map(|_| rng.random_range(0..=file.len() as u64)).collect();
    cuts.extend([0, u64::MAX]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// How many rows each of several scans has read that are stepped by turns at random, and how many its own range has.
fn check(seed: u64) -> Option<Vec<(usize, usize)>> {
    let (schema, batches) = random::table(seed);
    let table = numbered(&schema, &batches)?;
    let mut rng = random::rng(seed ^ 9);
    let file = write(&table.schema(), std::slice::from_ref(&table), options()).unwrap();
    let meta = open(&file, &OpenOptions::default()).unwrap();
    let is_pruned = rng.random_bool(0.5);
    let request = ScanRequest {
        batch_rows: rng.random_range(1..1000),
        prune_columns: if is_pruned { vec![0.into()] } else { Vec::new() },
        ahead_bytes: if rng.random_bool(0.5) { 0 } else { 2000 },
        ..ScanRequest::new((0..table.num_columns()).collect(), table.schema())
    };
    let ranges = cut(&file, rng.random_range(2..5), &mut rng);
    let is_read = |id: &i64| !is_pruned || is_wanted(*id);
    let rows_of_range = |range| {
        let parts = meta.parts(Some(range)).into_iter();
        parts.flat_map(|part| part.rows.map(move |row| (part.stripe_start + row as u64).cast_signed())).filter(is_read).count()
    };
    let own: Vec<usize> = ranges.iter().map(rows_of_range).collect();
    let of_range = |(range, share)| Reader::new(&meta, ScanRequest { range: Some(range), share: Some(share), ..request.clone() });
    let mut readers: Vec<Reader> = ranges.iter().cloned().zip(Share::of_scans(ranges.len())).map(of_range).collect();
    // One is slow.
    while !readers.iter().all(Reader::is_done) {
        let reader = if rng.random_bool(0.9) { rng.random_range(1..readers.len()) } else { 0 };
        readers[reader].step(&file);
    }
    let read: Vec<RecordBatch> = readers.iter().flat_map(|reader| reader.batches.clone()).collect();
    let ids = ids_of(&read, 0);
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    let expected = (0..table.num_rows() as u64).map(u64::cast_signed).filter(is_read);
    assert_eq!(sorted, expected.collect::<Vec<_>>(), "seed {seed}");
    if let Some(expected) = rows_of(&table, &ids) {
        assert_same(&expected.schema(), &[expected], &read);
    }
    let rows = |reader: &Reader| reader.batches.iter().map(RecordBatch::num_rows).sum();
    Some(readers.iter().map(rows).zip(own).collect())
}

#[test]
fn each_row_is_read_by_one_of_the_scans_that_share_a_file() {
    let read: Vec<Vec<(usize, usize)>> = (0..60).filter_map(check).collect();
    assert!(read.len() > 40, "{} tables", read.len());
    let slow_is_helped = read.iter().filter(|scans| scans[0].0 < scans[0].1).count();
    assert!(slow_is_helped > 10, "{slow_is_helped} of {} slow scans", read.len());
}

#[test]
fn a_scan_that_began_and_goes_no_further_keeps_one_stripe() {
    let table = numbers(10 * STRIPE_ROWS);
    let file = write(&table.schema(), std::slice::from_ref(&table), options()).unwrap();
    let meta = open(&file, &OpenOptions::default()).unwrap();
    assert_eq!(meta.stripes().len(), 10);
    let cut = meta.stripes()[5].offset;
    let request = |range, share| ScanRequest { range: Some(range), share: Some(share), ..ScanRequest::new(vec![0], table.schema()) };
    let [first, second]: [Share; 2] = Share::of_scans(2).try_into().unwrap();
    let mut stuck = Reader::new(&meta, request(0..cut, first));
    stuck.step(&file);
    let mut other = Reader::new(&meta, request(cut..u64::MAX, second));
    while !other.is_done() {
        other.step(&file);
    }
    // Its own in the order of the file, and then the others from their end.
    let expected = (5..10).chain((1..5).rev()).flat_map(|stripe| STRIPE_ROWS * stripe..STRIPE_ROWS * (stripe + 1));
    assert_eq!(ids_of(&other.batches, 0), expected.collect::<Vec<i64>>());
    while !stuck.is_done() {
        stuck.step(&file);
    }
    assert_eq!(ids_of(&stuck.batches, 0), (0..STRIPE_ROWS).collect::<Vec<i64>>());
}
