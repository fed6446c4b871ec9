//! Loading the metadata of columns, in few requests.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::meta::{FileMeta, part};
use crate::format::error::{Error, Result};
use crate::format::scan::{Fetch, Load, Loading, Section};

/// Bytes between two CMBs that are read along rather than split one request into two.
const GAP_MAX: u64 = 64 << 10;

/// The loading of metadata of columns.
#[derive(Debug)]
pub struct LoadColumns {
    meta: Arc<FileMeta>,
    columns: Vec<usize>,
    requests: Vec<Request>,
}

/// CMBs that are fetched together, in the order of the file.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    range: Range<u64>,
    cmbs: Vec<(usize, Range<u64>)>,
}

impl LoadColumns {
    pub(super) fn new(meta: Arc<FileMeta>, columns: Vec<usize>) -> Self {
        Self { meta, columns, requests: Vec::new() }
    }

    fn missing(&mut self) -> Result<Vec<(usize, Range<u64>)>> {
        let mut missing = Vec::new();
        for column in std::mem::take(&mut self.columns) {
            if self.meta.column(column)?.is_none() {
                missing.push((column, self.meta.cmb_range(column)?));
            }
        }
        missing.sort_unstable_by_key(|(column, range)| (range.start, *column));
        missing.dedup();
        Ok(missing)
    }

    fn take(&self, request: Request, bytes: &Bytes) -> Result<()> {
        let used: u64 = request.cmbs.iter().map(|(_, range)| range.end - range.start).sum();
        let is_sparse = used < bytes.len() as u64 / 2;
        for (column, range) in request.cmbs {
            let cmb =
                part(bytes, request.range.start, &range).ok_or_else(|| Error::invalid_argument(format!("the bytes {range:?} were asked for")))?;
            // A slice would keep the gaps in memory too.
            let cmb = if is_sparse { Bytes::copy_from_slice(&cmb) } else { cmb };
            self.meta.insert_cmb(column, &range, cmb)?;
        }
        Ok(())
    }
}

impl Load for LoadColumns {
    type Output = ();

    fn resume(&mut self, fetched: Vec<Bytes>) -> Result<Loading<()>> {
        let requests = std::mem::take(&mut self.requests);
        if fetched.len() != requests.len() {
            return Err(Error::invalid_argument(format!("{} pieces were asked for, not {}", requests.len(), fetched.len())));
        }
        for (request, bytes) in requests.into_iter().zip(fetched) {
            self.take(request, &bytes)?;
        }
        self.requests = coalesce(self.missing()?);
        if self.requests.is_empty() {
            return Ok(Loading::Ready(()));
        }
        Ok(Loading::Fetch(self.requests.iter().map(|request| Fetch { range: request.range.clone(), section: Section::ColumnMetadata }).collect()))
    }
}

/// Joins what is close together; `cmbs` ascend by their start.
fn coalesce(cmbs: Vec<(usize, Range<u64>)>) -> Vec<Request> {
    let mut requests: Vec<Request> = Vec::new();
    for (column, range) in cmbs {
        match requests.last_mut() {
            Some(last) if range.start <= last.range.end.saturating_add(GAP_MAX) => {
                last.range.end = last.range.end.max(range.end);
                last.cmbs.push((column, range));
            }
            _ => requests.push(Request { range: range.clone(), cmbs: vec![(column, range)] }),
        }
    }
    requests
}
