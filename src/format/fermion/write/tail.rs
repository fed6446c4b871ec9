//! The metadata behind the data: CMBs, schema, CIT, stripe directory, footer.

use arrow::datatypes::Schema;
use bytes::Bytes;

use super::batches::BatchWriter;
use super::column::ColumnWriter;
use super::options::WriterOptions;
use crate::format::error::{Error, Result};
use crate::format::fermion::footer::{Footer, SETTING_BATCHES, SETTING_BLOOM_FILTERS, SETTING_CHECKSUMS, SETTING_DICTIONARIES, VERSION};
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
    let mut pieces = Vec::new();
    let mut out = batches.map_or_else(|| Ok(Vec::new()), |batches| batches.cmb(options.checksums))?;
    let mut cit = Vec::with_capacity(columns.len() * 8);
    let mut cmb_offset = position;
    for column in columns {
        cit.extend_from_slice(&(cmb_offset + out.len() as u64).to_le_bytes());
        out.extend_from_slice(&column.cmb(options.checksums)?);
        if out.len() >= PIECE {
            cmb_offset += out.len() as u64;
            pieces.push(Bytes::from(std::mem::take(&mut out)));
        }
    }
    let schema_offset = cmb_offset + out.len() as u64;
    let ordering = options.ordering.as_deref().map(|ordering| (ORDERING_KEY, ordering));
    let schema_area = write_schema(schema, ordering.as_slice())?;
    let stripe_area = write_stripes(stripes);
    let footer = Footer {
        schema_offset,
        cit_offset: schema_offset + schema_area.len() as u64,
        cmb_offset: position,
        stripes_offset: schema_offset + (schema_area.len() + cit.len()) as u64,
        row_count: stripes.iter().map(|stripe| u64::from(stripe.rows)).sum(),
        settings,
        column_count,
        stripe_count: count(stripes.len())?,
        schema_crc: crc32fast::hash(&schema_area),
        cit_crc: crc32fast::hash(&cit),
        stripes_crc: crc32fast::hash(&stripe_area),
        version: VERSION,
    };
    out.extend_from_slice(&schema_area);
    out.extend_from_slice(&cit);
    out.extend_from_slice(&stripe_area);
    out.extend_from_slice(&footer.to_bytes());
    pieces.push(Bytes::from(out));
    Ok(pieces)
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
