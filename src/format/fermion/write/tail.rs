//! The metadata behind the data: CMBs, schema, CIT, stripe directory, footer.

use arrow::datatypes::Schema;
use bytes::Bytes;

use super::batches::BatchWriter;
use super::column::ColumnWriter;
use super::options::WriterOptions;
use crate::format::error::{Error, Result};
use crate::format::fermion::cit::{with_lengths, write_cit};
use crate::format::fermion::footer::{
    Footer, SETTING_BATCHES, SETTING_BLOOM_FILTERS, SETTING_CHECKSUMS, SETTING_DICTIONARIES, SETTING_NO_CIT, VERSION,
};
use crate::format::fermion::schema::{ORDERING_KEY, write_schema};
use crate::format::fermion::stripes::{Stripe, write_stripes};

/// Metadata is handed over in pieces of about so many bytes: of very many columns it is too much to have twice.
const PIECE: usize = 1 << 20;

/// Everything behind the data area, which ends at `position`.
pub(super) fn write_tail(
    schema: &Schema,
    columns: Vec<ColumnWriter>,
    batches: Option<&BatchWriter>,
    stripes: &[Stripe],
    position: u64,
    options: &WriterOptions,
) -> Result<Vec<Bytes>> {
    let settings = settings(&columns, options);
    let column_count = count(columns.len())?;
    let CmbArea { mut pieces, length, crc, cit } = write_cmbs(columns, batches, position, options)?;
    let schema_offset = position + length;
    let ordering = options.ordering.as_deref().map(|ordering| (ORDERING_KEY, ordering));
    let schema_area = write_schema(schema, ordering.as_slice())?;
    let behind_schema = schema_offset + schema_area.len() as u64;
    let stripe_area = write_stripes(stripes);
    let footer = Footer {
        schema_offset,
        cit_offset: if cit.is_some() { behind_schema } else { position },
        cmb_offset: position,
        stripes_offset: behind_schema + cit.as_ref().map_or(0, Vec::len) as u64,
        row_count: stripes.iter().map(|stripe| u64::from(stripe.rows)).sum(),
        settings: settings | if cit.is_some() { 0 } else { SETTING_NO_CIT },
        column_count,
        stripe_count: count(stripes.len())?,
        schema_crc: crc32fast::hash(&schema_area),
        cit_crc: crc,
        stripes_crc: crc32fast::hash(&stripe_area),
        version: VERSION,
    };
    pieces.push([schema_area, cit.unwrap_or_default(), stripe_area, footer.to_bytes().to_vec()].concat().into());
    Ok(pieces)
}

/// The CMBs, and what says where they are.
struct CmbArea {
    pieces: Vec<Bytes>,
    length: u64,
    /// CRC32 of the CIT, also where that is left out.
    crc: u32,
    /// `None` if the CMBs say how long they are.
    cit: Option<Vec<u8>>,
}

fn write_cmbs(columns: Vec<ColumnWriter>, batches: Option<&BatchWriter>, position: u64, options: &WriterOptions) -> Result<CmbArea> {
    let mut pieces = Vec::new();
    let mut out = batches.map_or_else(|| Ok(Vec::new()), |batches| batches.cmb(options.checksums))?;
    let mut starts = Vec::with_capacity(columns.len());
    let mut length = 0;
    for column in columns {
        starts.push(length + out.len() as u64);
        out.extend_from_slice(&column.cmb(options.checksums)?);
        // What may be left without a CIT is kept as a whole.
        if out.len() >= PIECE.max(options.no_cit_below) {
            length += out.len() as u64;
            pieces.push(Bytes::from(std::mem::take(&mut out)));
        }
    }
    let cit_of = |starts: Vec<u64>| write_cit(&starts.into_iter().map(|start| position + start).collect::<Vec<_>>());
    if pieces.is_empty() && out.len() < options.no_cit_below {
        let (area, starts) = with_lengths(&out, &starts)?;
        if area.len() < options.no_cit_below {
            return Ok(CmbArea { length: area.len() as u64, crc: crc32fast::hash(&cit_of(starts)), pieces: vec![area.into()], cit: None });
        }
    }
    length += out.len() as u64;
    pieces.push(out.into());
    let cit = cit_of(starts);
    Ok(CmbArea { pieces, length, crc: crc32fast::hash(&cit), cit: Some(cit) })
}

fn settings(columns: &[ColumnWriter], options: &WriterOptions) -> u64 {
    let checksums = if options.checksums { SETTING_CHECKSUMS } else { 0 };
    let dictionaries = if columns.iter().any(ColumnWriter::has_dictionary) { SETTING_DICTIONARIES } else { 0 };
    let filters = if columns.iter().any(ColumnWriter::has_filter) { SETTING_BLOOM_FILTERS } else { 0 };
    let batches = if options.batches { SETTING_BATCHES } else { 0 };
    checksums | dictionaries | filters | batches
}

fn count(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| Error::invalid_argument("a file has too many columns or stripes"))
}
