//! [`CodesOf`]: strings as codes of the values that are stored for them.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, DictionaryArray, RecordBatch, UInt32Array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};
use arrow::error::ArrowError;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;

use crate::format;
use crate::format::codes::Codes;
use crate::format::rows::Rows;
use crate::format::scan::{Coded, CodedPart, Morsel};

/// How many rows a value has to serve, on average, for codes to be worth it: all values are read then, whether a row has them or not.
const ROWS_PER_VALUE: usize = 2;

/// The values of an expression as a dictionary of them. A scan of a column makes it of what is stored, if that is codes and their values; rows that share what is stored share the
/// dictionary.
#[derive(Debug, Eq)]
pub(super) struct CodesOf {
    values: Arc<dyn PhysicalExpr>,
}

impl CodesOf {
    pub(super) fn new(values: Arc<dyn PhysicalExpr>) -> Self {
        Self { values }
    }
}

/// The type of values of a type as codes.
pub(super) fn codes_type(values: &DataType) -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt32), Box::new(values.clone()))
}

fn is_codes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(key, _) if **key == DataType::UInt32)
}

impl PartialEq for CodesOf {
    fn eq(&self, other: &Self) -> bool {
        self.values.eq(&other.values)
    }
}

impl Hash for CodesOf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.values.hash(state);
    }
}

impl fmt::Display for CodesOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "codes_of({})", self.values)
    }
}

impl PhysicalExpr for CodesOf {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        let values = self.values.data_type(schema)?;
        Ok(if is_codes(&values) { values } else { codes_type(&values) })
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.values.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let values = self.values.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(if is_codes(values.data_type()) { values } else { each_its_own(values)? }))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.values]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        match children.pop() {
            Some(values) if children.is_empty() => Ok(Arc::new(Self { values })),
            _ => internal_err!("CodesOf has one child"),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "codes_of(")?;
        self.values.fmt_sql(f)?;
        write!(f, ")")
    }
}

/// Columns of which expressions use nothing but the codes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CodedColumns(Vec<usize>);

impl CodedColumns {
    /// Those of `schema` of which that is true of all of the expressions.
    pub(super) fn of(exprs: &[Arc<dyn PhysicalExpr>], schema: &Schema) -> Self {
        let mut uses = vec![(false, false); schema.fields().len()];
        exprs.iter().for_each(|expr| note_uses(expr, &mut uses));
        let is_coded =
            |(index, (codes, values)): (usize, (bool, bool))| (codes && !values && !is_codes(schema.field(index).data_type())).then_some(index);
        Self(uses.into_iter().enumerate().filter_map(is_coded).collect())
    }

    /// The schema with the types that these columns are read as.
    pub(super) fn schema(&self, schema: &SchemaRef) -> SchemaRef {
        if self.0.is_empty() {
            return Arc::clone(schema);
        }
        let field = |(index, field): (usize, &Arc<Field>)| match self.0.contains(&index) {
            true => Arc::new(field.as_ref().clone().with_data_type(codes_type(field.data_type()))),
            false => Arc::clone(field),
        };
        let fields: Vec<_> = schema.fields().iter().enumerate().map(field).collect();
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
    }

    pub(super) fn contains(&self, column: usize) -> bool {
        self.0.contains(&column)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether the codes of each column are used, and whether its values are.
fn note_uses(expr: &Arc<dyn PhysicalExpr>, uses: &mut [(bool, bool)]) {
    let codes_of = expr.downcast_ref::<CodesOf>().and_then(|codes| codes.values.downcast_ref::<Column>());
    if let Some(column) = codes_of {
        uses.get_mut(column.index()).into_iter().for_each(|(codes, _)| *codes = true);
    } else if let Some(column) = expr.downcast_ref::<Column>() {
        uses.get_mut(column.index()).into_iter().for_each(|(_, values)| *values = true);
    } else {
        expr.children().into_iter().for_each(|child| note_uses(child, uses));
    }
}

/// Reads columns of one morsel as codes.
#[derive(Debug, Default)]
pub(super) struct CodeReader {
    columns: CodedColumns,
    /// What the last codes of a column stood for, and which page's values that is.
    last: HashMap<usize, (usize, ArrayRef)>,
}

impl CodeReader {
    pub(super) fn new(columns: CodedColumns) -> Self {
        Self { columns, last: HashMap::new() }
    }

    pub(super) fn reads(&self, column: usize) -> bool {
        self.columns.contains(column)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.columns.is_empty()
    }

    /// A column of some of the rows that were taken last, as codes of the values that are stored; `None` if it is not stored so.
    pub(super) fn read(&mut self, morsel: &dyn Morsel, column: usize, rows: &Rows) -> format::Result<Option<ArrayRef>> {
        match morsel.coded(column, rows, rows.len() / ROWS_PER_VALUE)? {
            Some(coded) if !coded.parts.is_empty() => Ok(Some(self.dictionary(column, coded)?)),
            _ => Ok(None),
        }
    }

    /// Columns of all of some of the rows that were taken last, those that are to be codes as codes, whether they are stored so or not.
    pub(super) fn read_all(&mut self, morsel: &dyn Morsel, columns: &[usize], rows: &Rows) -> format::Result<Vec<ArrayRef>> {
        if self.is_idle() {
            return morsel.read(columns, rows);
        }
        let values: Vec<usize> = columns.iter().copied().filter(|column| !self.reads(*column)).collect();
        let mut values = morsel.read(&values, rows)?.into_iter();
        let missing = || format::Error::invalid_argument("a column was not read");
        let mut column = |column: usize| {
            if !self.reads(column) {
                return values.next().ok_or_else(missing);
            }
            match self.read(morsel, column, rows)? {
                Some(codes) => Ok(codes),
                None => Ok(each_its_own(morsel.read(&[column], rows)?.pop().ok_or_else(missing)?)?),
            }
        };
        columns.iter().map(|position| column(*position)).collect()
    }

    fn dictionary(&mut self, column: usize, coded: Coded) -> format::Result<ArrayRef> {
        let Coded { mut parts, nulls } = coded;
        for part in &mut parts {
            match self.last.get(&column) {
                Some((page, values)) if *page == part.page && values.len() == part.values.len() => part.values = Arc::clone(values),
                _ => drop(self.last.insert(column, (part.page, Arc::clone(&part.values)))),
            }
        }
        let (codes, values) = if parts.len() == 1 { parts.remove(0).into_pair() } else { joined(parts)? };
        Ok(Arc::new(DictionaryArray::<UInt32Type>::try_new(UInt32Array::new(codes.into_rows().into(), nulls), values)?))
    }
}

impl CodedPart {
    fn into_pair(self) -> (Codes, ArrayRef) {
        (self.codes, self.values)
    }
}

/// The values of all parts, one behind the other, and codes of them.
fn joined(parts: Vec<CodedPart>) -> Result<(Codes, ArrayRef), ArrowError> {
    let values = concat(&parts.iter().map(|part| part.values.as_ref()).collect::<Vec<_>>())?;
    let mut codes = Codes::default();
    let mut before = 0_u32;
    for part in parts {
        // The code of a null may be any.
        codes.extend(part.codes.iter().map(|code| code.wrapping_add(before)));
        let end = u32::try_from(part.values.len()).ok().and_then(|count| before.checked_add(count));
        before = end.ok_or_else(|| ArrowError::DictionaryKeyOverflowError)?;
    }
    Ok((codes, values))
}

/// An array as a dictionary of which each row has a value of its own.
pub(super) fn each_its_own(values: ArrayRef) -> Result<ArrayRef, ArrowError> {
    let count = u32::try_from(values.len()).map_err(|_| ArrowError::DictionaryKeyOverflowError)?;
    Ok(Arc::new(DictionaryArray::<UInt32Type>::try_new((0..count).collect(), values)?))
}

/// Whether the code of each row is the row itself.
pub(super) fn has_each_its_own(codes: &DictionaryArray<UInt32Type>) -> bool {
    codes.len() == codes.values().len() && codes.keys().null_count() == 0 && codes.keys().values().iter().zip(0..).all(|(code, row)| *code == row)
}
