//! What rows are grouped by, as numbers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{Field, Schema, SchemaRef, UInt32Type};
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;

/// What rows are grouped by: an expression about one column.
#[derive(Debug, Clone)]
pub(super) struct Key {
    /// The column, which comes as codes.
    column: usize,
    /// The expression, over batches of the column alone.
    expr: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
}

impl Key {
    /// An expression about no other column of `schema`.
    pub(super) fn new(expr: &Arc<dyn PhysicalExpr>, column: usize, schema: &Schema) -> Result<Self> {
        let schema = Arc::new(Schema::new(vec![schema.field(column).clone().with_nullable(true)]));
        let moved = |node: Arc<dyn PhysicalExpr>| match node.downcast_ref::<Column>() {
            Some(column) => Ok(Transformed::yes(Arc::new(Column::new(column.name(), 0)) as Arc<dyn PhysicalExpr>)),
            None => Ok(Transformed::no(node)),
        };
        Ok(Self { column, expr: Arc::clone(expr).transform_up(moved).data()?, schema })
    }

    pub(super) fn column(&self) -> usize {
        self.column
    }

    fn evaluate(&self, values: ArrayRef) -> Result<ArrayRef> {
        let count = values.len();
        self.expr.evaluate(&RecordBatch::try_new(Arc::clone(&self.schema), vec![values])?)?.into_array(count)
    }
}

/// The groups that rows have been found to belong to.
pub(super) struct Groups {
    key: Key,
    values: Box<dyn GroupValues>,
    known: Option<Known>,
}

/// The groups of the values of a dictionary.
struct Known {
    dictionary: ArrayRef,
    /// Of each code; [`UNKNOWN`] for those that no row has had.
    groups: Vec<usize>,
    null: Option<usize>,
}

const UNKNOWN: usize = usize::MAX;
/// It is about to be known.
const FOUND: usize = UNKNOWN - 1;

impl Groups {
    /// None so far; keys have the type of `field`.
    pub(super) fn new(key: Key, field: &Arc<Field>) -> Result<Self> {
        let values = new_group_values(Arc::new(Schema::new(vec![Arc::clone(field)])), &GroupOrdering::None)?;
        Ok(Self { key, values, known: None })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Bytes that they take.
    pub(super) fn size(&self) -> usize {
        self.values.size() + self.known.as_ref().map_or(0, |known| known.groups.capacity() * size_of::<usize>())
    }

    /// Takes out the keys of all groups, by their numbers.
    pub(super) fn take(&mut self) -> Result<ArrayRef> {
        self.known = None;
        match self.values.emit(EmitTo::All)?.pop() {
            Some(values) => Ok(values),
            None => internal_err!("a key has no values"),
        }
    }

    /// The group of each row.
    pub(super) fn find(&mut self, batch: &RecordBatch, groups: &mut Vec<usize>) -> Result<()> {
        let Self { key, values, known } = self;
        let Some(codes) = batch.column(key.column).as_dictionary_opt::<UInt32Type>() else { return internal_err!("a column is not as codes") };
        if has_each_its_own(codes) {
            return values.intern(&[key.evaluate(Arc::clone(codes.values()))?], groups);
        }
        let of_dictionary = match known.take() {
            Some(known) if Arc::ptr_eq(&known.dictionary, codes.values()) => known,
            _ => Known { dictionary: Arc::clone(codes.values()), groups: vec![UNKNOWN; codes.values().len()], null: None },
        };
        let known = known.insert(of_dictionary);
        let new = known.new_codes(codes);
        if !new.is_empty() {
            let new = UInt32Array::from(new);
            values.intern(&[key.evaluate(take(codes.values(), &new, None)?)?], groups)?;
            new.values().iter().zip(groups.iter()).for_each(|(code, group)| known.groups[*code as usize] = *group);
        }
        if known.null.is_none() && codes.keys().null_count() > 0 {
            values.intern(&[key.evaluate(new_null_array(key.schema.field(0).data_type(), 1))?], groups)?;
            known.null = groups.first().copied();
        }
        known.look_up(codes, groups);
        Ok(())
    }
}

impl Known {
    /// The codes of these rows whose groups are not known, each once.
    fn new_codes(&mut self, codes: &DictionaryArray<UInt32Type>) -> Vec<u32> {
        let mut new = Vec::new();
        let mut see = |code: u32| {
            if let Some(group) = self.groups.get_mut(code as usize)
                && *group == UNKNOWN
            {
                *group = FOUND;
                new.push(code);
            }
        };
        match codes.keys().nulls().filter(|nulls| nulls.null_count() > 0) {
            None => codes.keys().values().iter().for_each(|code| see(*code)),
            Some(nulls) => nulls.valid_indices().for_each(|row| see(codes.keys().value(row))),
        }
        new
    }

    fn look_up(&self, codes: &DictionaryArray<UInt32Type>, groups: &mut Vec<usize>) {
        // The code of a null may be any.
        let group = |code: &u32| self.groups.get(*code as usize).copied().unwrap_or(UNKNOWN);
        groups.clear();
        groups.extend(codes.keys().values().iter().map(group));
        if let (Some(nulls), Some(null)) = (codes.keys().nulls(), self.null) {
            groups.iter_mut().zip(nulls).filter(|(_, is_valid)| !is_valid).for_each(|(group, _)| *group = null);
        }
    }
}

/// Whether the code of each row is the row itself.
pub(super) fn has_each_its_own(codes: &DictionaryArray<UInt32Type>) -> bool {
    codes.len() == codes.values().len() && codes.keys().null_count() == 0 && codes.keys().values().iter().zip(0..).all(|(code, row)| *code == row)
}
