//! Values that the format to write cannot hold and replaces without a word.

use std::sync::OnceLock;

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};

use super::format::Format;

/// Looks at rows on their way.
#[derive(Debug)]
pub(super) struct Losses {
    to: Format,
    /// The first column that lost something.
    column: OnceLock<String>,
}

impl Losses {
    /// On the way to a file of the format `to`.
    pub(super) fn new(to: Format) -> Self {
        Self { to, column: OnceLock::new() }
    }

    /// Notes what of `batch` will be lost.
    pub(super) fn look(&self, batch: &RecordBatch) {
        if self.to != Format::Json || self.column.get().is_some() {
            return;
        }
        let schema = batch.schema_ref();
        if let Some((_, field)) = batch.columns().iter().zip(schema.fields()).find(|(column, _)| has_non_finite(column)) {
            // Of two at once, either may be the first.
            let _ = self.column.set(field.name().clone());
        }
    }

    /// What to tell the person once all is written.
    pub(super) fn warning(&self) -> Option<String> {
        self.column.get().map(|column| format!("NaN and infinities, as in column '{column}', became null: JSON cannot hold them"))
    }
}

fn has_non_finite(array: &ArrayRef) -> bool {
    match array.data_type() {
        DataType::Float16 => any::<Float16Type>(array.as_primitive(), |value| !value.is_finite()),
        DataType::Float32 => any::<Float32Type>(array.as_primitive(), |value| !value.is_finite()),
        DataType::Float64 => any::<Float64Type>(array.as_primitive(), |value| !value.is_finite()),
        DataType::Struct(_) => array.as_struct().columns().iter().any(has_non_finite),
        DataType::List(_) => has_non_finite(array.as_list::<i32>().values()),
        DataType::LargeList(_) => has_non_finite(array.as_list::<i64>().values()),
        DataType::FixedSizeList(..) => has_non_finite(array.as_fixed_size_list().values()),
        DataType::Map(..) => has_non_finite(array.as_map().values()),
        DataType::Dictionary(..) => has_non_finite(array.as_any_dictionary().values()),
        _ => false,
    }
}

fn any<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, is_lost: impl Fn(T::Native) -> bool) -> bool {
    array.iter().flatten().any(is_lost)
}
