//! Statistics of stripes and of the pages of a stripe, as the caller prunes by them.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, UInt32Array, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::DataType;

use super::meta::{ColumnMeta, FileMeta};
use crate::format::error::{Error, Result};
use crate::format::fermion::cmb::{Chunk, Cmb};
use crate::format::fermion::schema::stream_count;
use crate::format::fermion::stats::{Bounds, Which, ZoneStats, bound_array, prunable_type};
use crate::format::scan::{FieldPath, Level, ZoneColumn, Zones};
use crate::format::share::Part;

/// Values of a column, or of a field within its structs, that are not nested.
struct Leaf {
    column: ColumnMeta,
    /// The stream of the values.
    data: usize,
    data_type: DataType,
}

impl Leaf {
    /// `None` if there are no bounds to prune by.
    fn of(meta: &FileMeta, path: &FieldPath) -> Result<Option<Self>> {
        let column = meta.column(path.column)?.ok_or_else(|| Error::invalid_argument("the metadata of a column is not loaded"))?;
        let field = meta.field(path.column)?;
        if meta.batch_column(path.column).is_some() {
            let leaf = |data| Self { column, data, data_type: field.data_type().clone() };
            return Ok(meta.values_stream(path.column).map(leaf));
        }
        let (mut data_type, mut stream) = (field.data_type(), 0);
        for position in &path.fields {
            let DataType::Struct(fields) = data_type else { return Ok(None) };
            let Some(field) = fields.get(*position) else { return Ok(None) };
            // Behind the validity of the struct, and the fields before.
            stream += 1 + fields.iter().take(*position).map(|field| stream_count(field.data_type())).sum::<usize>();
            data_type = field.data_type();
        }
        // Validity comes before the values.
        Ok(prunable_type(data_type).map(|leaf| Self { column, data: stream + 1, data_type: leaf.clone() }))
    }
}

/// One zone per stripe, of the rows of it that are asked for.
pub(super) fn stripe_zones(meta: &FileMeta, columns: &[FieldPath], parts: &[Part]) -> Result<Zones> {
    let row_counts = UInt64Array::from_iter_values(parts.iter().map(|part| part.rows.len() as u64));
    let mut zones = Zones { level: Level::Stripe, row_counts, columns: Vec::new() };
    for path in columns {
        let Some(leaf) = Leaf::of(meta, path)? else { continue };
        let known = parts.iter().map(|part| leaf.part_zone(part, stripe_rows(meta, part))).collect::<Result<Vec<_>>>();
        let bounded = known.and_then(|known| zone_column(path, &leaf.data_type, &known));
        zones.columns.push(bounded.map_err(|error| meta.in_cmb(error, path.column))?);
    }
    Ok(zones)
}

fn stripe_rows(meta: &FileMeta, part: &Part) -> usize {
    meta.stripes().get(part.stripe).map_or(0, |stripe| stripe.rows as usize)
}

/// What is known of a zone.
#[derive(Debug, Clone)]
struct Zone {
    stats: ZoneStats,
    bounds: Option<Bounds>,
    nulls: Option<u64>,
}

impl Zone {
    fn all_null(rows: u64) -> Self {
        Self { stats: ZoneStats::UNKNOWN, bounds: None, nulls: Some(rows) }
    }

    fn new(stats: ZoneStats, bounds: Option<Bounds>) -> Self {
        Self { nulls: stats.nulls().map(u64::from), stats, bounds }
    }
}

impl Leaf {
    fn chunk_zone(&self, stripe: usize, rows: u64) -> Result<Zone> {
        match &self.column {
            ColumnMeta::AllNull => Ok(Zone::all_null(rows)),
            ColumnMeta::Cmb(cmb) => match cmb.chunk(self.data, stripe)? {
                Chunk::Pages(pages) => Ok(Zone::new(pages.stats, pages.bounds)),
                // Validity comes before the values, and has to agree.
                Chunk::Default | Chunk::AllNull if rows > 0 && self.validity(cmb, stripe)? == Chunk::Default => {
                    Err(Error::invalid_file(format!("all slots of a field are valid in stripe {stripe}, and none has a value")))
                }
                Chunk::Default | Chunk::AllNull => Ok(Zone::all_null(rows)),
            },
        }
    }

    /// Batches have none, and are all valid.
    fn validity(&self, cmb: &Cmb, stripe: usize) -> Result<Chunk> {
        self.data.checked_sub(1).map_or(Ok(Chunk::Default), |validity| cmb.chunk(validity, stripe))
    }

    /// Bounds of a stripe are bounds of a part of it.
    fn part_zone(&self, part: &Part, stripe_rows: usize) -> Result<Zone> {
        let zone = self.chunk_zone(part.stripe, stripe_rows as u64)?;
        Ok(Zone { nulls: zone.nulls.and_then(|nulls| nulls_of_part(nulls, stripe_rows, part.rows.len())), ..zone })
    }

    fn pages(&self, stripe: usize, rows: usize) -> Result<ColumnPages> {
        if let ColumnMeta::Cmb(cmb) = &self.column
            && let Some(pages) = several_pages(cmb, self.data, stripe, rows)?
        {
            return Ok(pages);
        }
        Ok(ColumnPages { zones: vec![self.chunk_zone(stripe, rows as u64)?], ends: vec![rows] })
    }
}

/// Of a part of some rows it is only known if all of them are null or none.
fn nulls_of_part(nulls: u64, rows: usize, part: usize) -> Option<u64> {
    match nulls {
        0 => Some(0),
        nulls if nulls == rows as u64 => Some(part as u64),
        nulls => (part == rows).then_some(nulls),
    }
}

fn zone_column(path: &FieldPath, leaf: &DataType, zones: &[Zone]) -> Result<ZoneColumn> {
    let bounds = |which| bound_array(leaf, zones.iter().map(|zone| (zone.stats, zone.bounds.as_ref())), which);
    let null_counts = zones.iter().map(|zone| zone.nulls).collect();
    Ok(ZoneColumn { column: path.clone(), min: bounds(Which::Min)?, max: bounds(Which::Max)?, null_counts })
}

/// The rows of a stripe in zones within which every page of every column asked for is the same, with the statistics of those pages.
#[derive(Debug)]
pub(super) struct PageZones {
    /// The rows of each zone.
    pub(super) ranges: Vec<Range<usize>>,
    pub(super) zones: Zones,
}

/// Zones of the pages of a stripe, as far as they have rows that are asked for.
pub(super) fn page_zones(meta: &FileMeta, columns: &[FieldPath], part: &Part) -> Result<PageZones> {
    let rows = stripe_rows(meta, part);
    let mut paged = Vec::with_capacity(columns.len());
    for path in columns {
        if let Some(leaf) = Leaf::of(meta, path)? {
            let bounded = leaf.pages(part.stripe, rows).and_then(|pages| Ok((zone_column(path, &leaf.data_type, &pages.zones)?, pages.ends)));
            paged.push(bounded.map_err(|error| meta.in_cmb(error, path.column))?);
        }
    }
    let mut ends: Vec<usize> = paged.iter().flat_map(|(_, ends)| ends.iter().copied().filter(|end| part.rows.contains(end))).collect();
    ends.push(part.rows.end);
    ends.sort_unstable();
    ends.dedup();
    let starts = std::iter::once(part.rows.start).chain(ends.iter().copied());
    let ranges: Vec<Range<usize>> = starts.zip(&ends).map(|(start, end)| start..*end).filter(|range| !range.is_empty()).collect();
    let columns = paged.into_iter().map(|(column, ends)| spread(column, &ends, &ranges)).collect::<Result<_>>()?;
    let row_counts = UInt64Array::from_iter_values(ranges.iter().map(|range| range.len() as u64));
    Ok(PageZones { ranges, zones: Zones { level: Level::Page, row_counts, columns } })
}

struct ColumnPages {
    zones: Vec<Zone>,
    /// The row behind each page.
    ends: Vec<usize>,
}

fn several_pages(cmb: &Cmb, data: usize, stripe: usize, rows: usize) -> Result<Option<ColumnPages>> {
    let Chunk::Pages(pages) = cmb.chunk(data, stripe)? else { return Ok(None) };
    let mut end = 0_usize;
    let mut ends = Vec::with_capacity(pages.pages.len());
    for page in &pages.pages {
        let Some(page_rows) = page.rows else { return Ok(None) };
        end = end.saturating_add(page_rows as usize);
        ends.push(end);
    }
    if pages.pages.len() < 2 || end != rows {
        return Ok(None);
    }
    Ok(Some(ColumnPages { zones: pages.pages.iter().map(|page| Zone::new(page.stats, None)).collect(), ends }))
}

/// From a slot per page to a slot per zone.
fn spread(column: ZoneColumn, ends: &[usize], ranges: &[Range<usize>]) -> Result<ZoneColumn> {
    let page_of = |range: &Range<usize>| u32::try_from(ends.partition_point(|end| *end <= range.start)).ok();
    let pages: UInt32Array = ranges.iter().map(page_of).collect();
    let pick = |array: &ArrayRef| take(array, &pages, None);
    let null_counts = counts_of(&column.null_counts, &pages, ends, ranges);
    Ok(ZoneColumn { column: column.column, min: pick(&column.min)?, max: pick(&column.max)?, null_counts })
}

fn counts_of(nulls: &UInt64Array, pages: &UInt32Array, ends: &[usize], ranges: &[Range<usize>]) -> UInt64Array {
    let count = |(page, range): (Option<u32>, &Range<usize>)| {
        let page = page? as usize;
        let start = page.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
        let rows = ends.get(page)?.checked_sub(start)?;
        let nulls = nulls.is_valid(page).then(|| nulls.value(page))?;
        nulls_of_part(nulls, rows, range.len())
    };
    pages.iter().zip(ranges).map(count).collect()
}
