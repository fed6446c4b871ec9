//! `array_length`, `cardinality` and `empty`, which need offsets and no values. The first two are answered for all lists of a batch at once, where DataFusion's own functions look at one
//! list at a time.
//!
//! They stay where the query has them. To ask the optimizer to move them towards the scan (`ExpressionPlacement::MoveTowardsLeafNodes`) would let a scan leave out values below
//! aggregates, too, but in DataFusion 55 its rules for that mix up columns of one name, and answers are wrong.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::datatypes::{ArrowNativeType, DataType, Schema};
use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::functions_nested::cardinality::Cardinality;
use datafusion::functions_nested::empty::ArrayEmpty;
use datafusion::functions_nested::length::ArrayLength;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

/// A function of DataFusion's that asks how long lists are.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ByLengths {
    function: Arc<ScalarUDF>,
    asks: Asks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Asks {
    Length,
    /// As `Length`, but lists in lists count as what is in them.
    Cardinality,
    IsEmpty,
}

/// Puts two of these functions in the place of DataFusion's, where the session has those. Its `empty` looks at offsets, too.
pub(super) fn register(state: &mut SessionState) -> Result<()> {
    for name in ["array_length", "cardinality"] {
        let Some(function) = state.scalar_functions().get(name).map(Arc::clone) else { continue };
        // What someone has put under one of the names stays.
        let is_engines = |name: &String| state.scalar_functions().get(name).is_none_or(|known| Asks::of_engine(known).is_some());
        if let Some(asks) = Asks::of_engine(&function).filter(|_| function.aliases().iter().all(is_engines)) {
            state.register_udf(Arc::new(ScalarUDF::from(ByLengths { function, asks })))?;
        }
    }
    Ok(())
}

/// The list of which an expression over the columns of `schema` asks nothing but its length.
pub(super) fn list_of_length<'a>(expr: &'a Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<&'a Arc<dyn PhysicalExpr>> {
    let function = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let asks = match function.fun().inner().downcast_ref::<ByLengths>() {
        Some(ours) => ours.asks,
        None => Asks::of_engine(function.fun())?,
    };
    let [list] = function.args() else { return None };
    let is_known_by_offsets = |data_type: DataType| asks != Asks::Cardinality || has_flat_items(&data_type);
    list.data_type(schema).is_ok_and(is_known_by_offsets).then_some(list)
}

impl Asks {
    /// What a function of DataFusion's asks.
    fn of_engine(function: &ScalarUDF) -> Option<Self> {
        let function = function.inner();
        if function.is::<ArrayLength>() {
            Some(Self::Length)
        } else if function.is::<Cardinality>() {
            Some(Self::Cardinality)
        } else {
            function.is::<ArrayEmpty>().then_some(Self::IsEmpty)
        }
    }

    /// The length of each of the lists, if that is the answer and their offsets have it.
    fn answer(self, lists: &ArrayRef) -> Option<ArrayRef> {
        match (self, lists.data_type()) {
            (Self::IsEmpty, _) => None,
            (Self::Cardinality, data_type) if !has_flat_items(data_type) => None,
            (_, DataType::List(_)) => Some(by_offsets(lists.as_list::<i32>().value_offsets(), lists)),
            (_, DataType::LargeList(_)) => Some(by_offsets(lists.as_list::<i64>().value_offsets(), lists)),
            (Self::Cardinality, DataType::Map(..)) => Some(by_offsets(lists.as_map().value_offsets(), lists)),
            _ => None,
        }
    }
}

fn by_offsets<Offset: ArrowNativeType>(offsets: &[Offset], lists: &ArrayRef) -> ArrayRef {
    let lengths = offsets.windows(2).map(|ends| (ends[1].as_usize() - ends[0].as_usize()) as u64);
    Arc::new(UInt64Array::new(lengths.collect(), lists.nulls().cloned()))
}

/// Whether what is in lists of this type is no list.
fn has_flat_items(lists: &DataType) -> bool {
    use DataType::{FixedSizeList, LargeList, LargeListView, List, ListView, Map};
    match lists {
        List(item) | LargeList(item) => !matches!(item.data_type(), List(_) | LargeList(_) | ListView(_) | LargeListView(_) | FixedSizeList(..)),
        other => matches!(other, Map(..)),
    }
}

impl ScalarUDFImpl for ByLengths {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.function.inner().return_type(arg_types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let [ColumnarValue::Array(lists)] = args.args.as_slice()
            && let Some(answer) = self.asks.answer(lists)
        {
            return Ok(ColumnarValue::Array(answer));
        }
        self.function.invoke_with_args(args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int8Array, MapBuilder, StringBuilder, UInt8Builder};
    use arrow::buffer::{NullBuffer, OffsetBuffer};
    use arrow::datatypes::{Field, FieldRef};
    use datafusion::config::ConfigOptions;
    use datafusion::functions_nested::cardinality::cardinality_udf;
    use datafusion::functions_nested::length::array_length_udf;
    use datafusion::logical_expr::{Volatility, create_udf};
    use datafusion::prelude::SessionContext;

    fn ours(function: Arc<ScalarUDF>) -> ScalarUDF {
        let asks = Asks::of_engine(&function).unwrap();
        ScalarUDF::from(ByLengths { function, asks })
    }

    fn call(function: &ScalarUDF, lists: &ArrayRef) -> Result<ArrayRef> {
        let of: FieldRef = Arc::new(Field::new("l", lists.data_type().clone(), true));
        let return_type = function.return_type(&[lists.data_type().clone()])?;
        let args = ScalarFunctionArgs {
            args: vec![ColumnarValue::Array(Arc::clone(lists))],
            arg_fields: vec![of],
            number_rows: lists.len(),
            return_field: Arc::new(Field::new("length", return_type, true)),
            config_options: Arc::new(ConfigOptions::default()),
        };
        function.invoke_with_args(args)?.into_array(lists.len())
    }

    fn list<Offset: arrow::array::OffsetSizeTrait>(lengths: &[usize], items: ArrayRef, null: &[usize]) -> ArrayRef {
        let nulls = NullBuffer::from_iter((0..lengths.len()).map(|row| !null.contains(&row)));
        let item = Arc::new(Field::new_list_field(items.data_type().clone(), true));
        let offsets = OffsetBuffer::<Offset>::from_lengths(lengths.iter().copied());
        Arc::new(arrow::array::GenericListArray::new(item, offsets, items, Some(nulls)))
    }

    fn map() -> ArrayRef {
        let mut map = MapBuilder::new(None, StringBuilder::new(), UInt8Builder::new());
        for entries in [Some(2), None, Some(0), Some(1)] {
            for entry in 0..entries.unwrap_or(0) {
                map.keys().append_value(format!("k{entry}"));
                map.values().append_null();
            }
            map.append(entries.is_some()).unwrap();
        }
        Arc::new(map.finish())
    }

    /// Lists of all kinds, with nulls that have items, whole and cut.
    fn lists() -> Vec<ArrayRef> {
        let items = |count: i8| Arc::new(Int8Array::from_iter((0..count).map(|item| (item % 3 != 0).then_some(item)))) as ArrayRef;
        let flat = list::<i32>(&[2, 0, 3, 1, 0, 4], items(10), &[2, 4]);
        let nested = list::<i64>(&[1, 0, 3, 2], Arc::clone(&flat), &[3]);
        let fixed = Arc::new(arrow::array::FixedSizeListArray::new(Arc::new(Field::new_list_field(DataType::Int8, true)), 2, items(6), None));
        let all = [flat, list::<i64>(&[5, 0, 1], items(6), &[]), nested, fixed, map()];
        all.into_iter().flat_map(|lists| [lists.slice(1, lists.len() - 1), lists.slice(0, 0), lists]).collect()
    }

    #[test]
    fn lengths_are_those_that_the_engine_finds_list_by_list() {
        let mut answers = 0;
        for function in [array_length_udf(), cardinality_udf()] {
            let ours = ours(Arc::clone(&function));
            for lists in lists() {
                match (call(&function, &lists), call(&ours, &lists)) {
                    (Ok(expected), Ok(actual)) => assert_eq!(&expected, &actual, "{} of {}", function.name(), lists.data_type()),
                    (expected, actual) => assert_eq!(expected.is_err(), actual.is_err(), "{} of {}", function.name(), lists.data_type()),
                }
                answers += usize::from(ours.inner().downcast_ref::<ByLengths>().is_some_and(|ours| ours.asks.answer(&lists).is_some()));
            }
        }
        // Of flat, large and nested lists their lengths, of the flat ones and of maps how many items, each in three cuts.
        assert_eq!(answers, 3 * (3 + 3));
    }

    #[test]
    fn they_take_the_place_of_the_engines_functions_and_of_no_others() {
        let context = SessionContext::new();
        // What is there under the name need not be DataFusion's.
        let mine = Arc::new(ScalarUDF::from(ByLengths { function: array_length_udf(), asks: Asks::IsEmpty }));
        context.state_ref().write().register_udf(mine).unwrap();
        for _ in 0..2 {
            register(&mut context.state_ref().write()).unwrap();
        }
        let state = context.state();
        let asks = |name: &str| state.scalar_functions()[name].inner().downcast_ref::<ByLengths>().map(|ours| ours.asks);
        assert_eq!((asks("cardinality"), asks("empty"), asks("array_sum")), (Some(Asks::Cardinality), None, None));
        assert_eq!(asks("list_length"), Some(Asks::IsEmpty));
    }

    #[test]
    fn what_has_an_alias_of_theirs_stays() {
        let context = SessionContext::new();
        let mine = create_udf("list_length", vec![DataType::Int8], DataType::Int8, Volatility::Immutable, Arc::new(|args| Ok(args[0].clone())));
        context.register_udf(mine.clone());
        register(&mut context.state_ref().write()).unwrap();
        let functions = context.state().scalar_functions().clone();
        let is_ours = |name: &str| functions[name].inner().is::<ByLengths>();
        assert_eq!((functions["list_length"].as_ref() == &mine, is_ours("array_length"), is_ours("cardinality")), (true, false, true));
    }
}
