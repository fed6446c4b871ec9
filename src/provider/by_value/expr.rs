//! [`ByValue`]: an expression about strings, evaluated once for each that is stored.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, RecordBatch, Scalar, new_null_array};
use arrow::compute::kernels::zip::zip;
use arrow::compute::take;
use arrow::datatypes::{DataType, FieldRef, Schema, UInt32Type};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;

use crate::provider::codes_of::has_each_its_own;
use crate::provider::of_column::OfColumn;

/// An expression about one column of strings. Where these come as codes, it is evaluated of what the codes stand for, and rows with the same dictionary share that.
#[derive(Debug)]
pub(in crate::provider) struct ByValue {
    strings: Arc<dyn PhysicalExpr>,
    of: OfColumn,
    /// Of dictionaries that are still in use. Partitions read different ones at the same time.
    known: Mutex<Vec<Known>>,
}

/// What the expression is of the values of a dictionary.
#[derive(Debug)]
struct Known {
    values: Weak<dyn Array>,
    /// `None` if it cannot be evaluated of one of them, which perhaps no row has.
    results: Option<ArrayRef>,
}

impl ByValue {
    /// An expression of `strings`, which are the column that it is about, as codes or not.
    pub(in crate::provider) fn new(strings: Arc<dyn PhysicalExpr>, of: OfColumn) -> Self {
        Self { strings, of, known: Mutex::default() }
    }

    /// What the expression is of the values; `None` if it has to be evaluated row by row.
    fn results(&self, values: &ArrayRef) -> Option<ArrayRef> {
        let of_values = Arc::downgrade(values);
        let known = || {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.retain(|known| known.values.strong_count() > 0);
            known
        };
        if let Some(known) = known().iter().find(|known| Weak::ptr_eq(&known.values, &of_values)) {
            return known.results.clone();
        }
        let results = self.of.evaluate(Arc::clone(values)).ok();
        known().push(Known { values: of_values, results: results.clone() });
        results
    }

    fn of_codes(&self, codes: &DictionaryArray<UInt32Type>) -> Result<ArrayRef> {
        if codes.is_empty() || codes.values().is_empty() || has_each_its_own(codes) {
            return self.of_rows(codes);
        }
        let Some(results) = self.results(codes.values()) else { return self.of_rows(codes) };
        let found = take(&results, codes.keys(), None)?;
        let Some(nulls) = codes.keys().nulls().filter(|nulls| nulls.null_count() > 0) else { return Ok(found) };
        let of_null = self.of.evaluate(new_null_array(self.of.column_type(), 1))?;
        Ok(if of_null.is_null(0) { found } else { zip(&BooleanArray::new(!nulls.inner(), None), &Scalar::new(of_null), &found)? })
    }

    fn of_rows(&self, codes: &DictionaryArray<UInt32Type>) -> Result<ArrayRef> {
        self.of.evaluate(if has_each_its_own(codes) { Arc::clone(codes.values()) } else { take(codes.values(), codes.keys(), None)? })
    }
}

impl PartialEq for ByValue {
    fn eq(&self, other: &Self) -> bool {
        self.strings.eq(&other.strings) && self.of == other.of
    }
}

impl Eq for ByValue {}

impl Hash for ByValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.strings.hash(state);
        self.of.hash(state);
    }
}

impl fmt::Display for ByValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "by_value({} of {})", self.of.expr(), self.strings)
    }
}

impl PhysicalExpr for ByValue {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.of.field().data_type().clone())
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(self.of.field().is_nullable())
    }

    fn return_field(&self, _: &Schema) -> Result<FieldRef> {
        Ok(Arc::clone(self.of.field()))
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let strings = self.strings.evaluate(batch)?.into_array(batch.num_rows())?;
        let results = match strings.as_dictionary_opt::<UInt32Type>() {
            Some(codes) => self.of_codes(codes)?,
            None => self.of.evaluate(strings)?,
        };
        Ok(ColumnarValue::Array(results))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.strings]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        match children.pop() {
            Some(strings) if children.is_empty() => Ok(Arc::new(Self::new(strings, self.of.clone()))),
            _ => internal_err!("ByValue has one child"),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.of.expr().fmt_sql(f)
    }
}
