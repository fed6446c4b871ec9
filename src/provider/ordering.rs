//! The sort order of a file: as text in its metadata, as an ordering in the engine.
//!
//! The text is `"name" ASC NULLS LAST` items joined by `, `; a quote in a name is doubled.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::Schema;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, LexRequirement, PhysicalSortExpr};

use super::schema::{ColumnFinder, Columns, is_read_as};

/// The text for rows that are sorted as required.
///
/// Only columns can be named, so the text ends before the first other expression: rows sorted by `a, f(b)` are sorted by `a`.
/// It ends, too, before a column that `made` says is not written as it is. Columns that `dropped` says are not written are the same in all rows of a file and are left out.
pub(super) fn to_text(requirement: &LexRequirement, dropped: impl Fn(&str) -> bool, made: impl Fn(&str) -> bool) -> Option<String> {
    let items: Vec<_> = requirement
        .iter()
        .map_while(|item| Some((item.expr.downcast_ref::<Column>()?, item.options?)))
        .take_while(|(column, _)| !made(column.name()))
        .filter(|(column, _)| !dropped(column.name()))
        .map(|(column, options)| item_text(column.name(), options))
        .collect();
    (!items.is_empty()).then(|| items.join(", "))
}

fn item_text(name: &str, options: SortOptions) -> String {
    let direction = if options.descending { "DESC" } else { "ASC" };
    let nulls = if options.nulls_first { "FIRST" } else { "LAST" };
    format!("\"{}\" {direction} NULLS {nulls}", name.replace('"', "\"\""))
}

/// The ordering that a text says, in columns of the table.
///
/// It ends before the first column that the table does not have or that it casts, for a cast may change the order. A text that is not
/// understood is no ordering: it is a promise, and not to use one is always right.
pub(super) fn from_text(text: &str, file: &dyn Columns, table: &Schema) -> Option<LexOrdering> {
    let items = parse(text)?;
    let mut finder = ColumnFinder::new(file);
    LexOrdering::new(items.into_iter().map_while(|(name, options)| {
        let (index, field) = table.column_with_name(&name)?;
        let in_file = file.field(finder.find(&name, index)?).ok()?;
        is_read_as(in_file.data_type(), field.data_type()).then(|| PhysicalSortExpr::new(Arc::new(Column::new(&name, index)), options))
    }))
}

/// The part of an ordering before the first column that has nulls, or may have.
///
/// The engine puts files one behind the other whose least and greatest values ascend. Those do not say where the nulls are, and nulls at the end
/// of one file are in the middle of two.
pub(super) fn without_nulls(ordering: LexOrdering, statistics: &Statistics) -> Option<LexOrdering> {
    let has_no_nulls = |item: &PhysicalSortExpr| {
        let column = item.expr.downcast_ref::<Column>().and_then(|column| statistics.column_statistics.get(column.index()));
        column.is_some_and(|column| column.null_count == Precision::Exact(0))
    };
    LexOrdering::new(ordering.into_iter().take_while(has_no_nulls))
}

fn parse(text: &str) -> Option<Vec<(String, SortOptions)>> {
    let mut items = Vec::new();
    let mut rest = text;
    loop {
        let (name, after) = parse_name(rest)?;
        let (options, after) = parse_options(after)?;
        items.push((name, options));
        if after.is_empty() {
            return Some(items);
        }
        rest = after.strip_prefix(", ")?;
    }
}

fn parse_name(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('"')?;
    let mut name = String::new();
    loop {
        let (part, after) = rest.split_once('"')?;
        name.push_str(part);
        match after.strip_prefix('"') {
            Some(after) => {
                name.push('"');
                rest = after;
            }
            None => return Some((name, after)),
        }
    }
}

fn parse_options(text: &str) -> Option<(SortOptions, &str)> {
    let (descending, text) = either(text, " ASC", " DESC")?;
    let (nulls_last, text) = either(text, " NULLS FIRST", " NULLS LAST")?;
    Some((SortOptions { descending, nulls_first: !nulls_last }, text))
}

/// Which of the two the text starts with: `false` for the first, `true` for the second.
fn either<'a>(text: &'a str, first: &str, second: &str) -> Option<(bool, &'a str)> {
    let with_first = text.strip_prefix(first).map(|rest| (false, rest));
    with_first.or_else(|| text.strip_prefix(second).map(|rest| (true, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field};
    use datafusion::physical_expr::expressions::lit;
    use datafusion::physical_expr::{PhysicalExpr, PhysicalSortRequirement};

    fn options(descending: bool, nulls_first: bool) -> SortOptions {
        SortOptions { descending, nulls_first }
    }

    fn requirement(items: Vec<(Arc<dyn PhysicalExpr>, SortOptions)>) -> LexRequirement {
        LexRequirement::new(items.into_iter().map(|(expr, options)| PhysicalSortRequirement::new(expr, Some(options)))).unwrap()
    }

    fn column(name: &str, index: usize) -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new(name, index))
    }

    #[test]
    fn an_ordering_survives_its_text() {
        let name = "a \"quoted\", name";
        let table = Schema::new(vec![Field::new("b", DataType::Utf8View, true), Field::new(name, DataType::Int32, true)]);
        let file = Schema::new(vec![Field::new(name, DataType::Int32, true), Field::new("b", DataType::Utf8, true)]);
        let text = to_text(&requirement(vec![(column(name, 1), options(false, false)), (column("b", 0), options(true, true))]), |_| false, |_| false)
            .unwrap();
        assert_eq!(text, "\"a \"\"quoted\"\", name\" ASC NULLS LAST, \"b\" DESC NULLS FIRST");
        let ordering = from_text(&text, &file, &table).unwrap();
        let expected = [PhysicalSortExpr::new(column(name, 1), options(false, false)), PhysicalSortExpr::new(column("b", 0), options(true, true))];
        assert_eq!(ordering.as_ref(), expected);
    }

    #[test]
    fn the_text_ends_before_what_is_no_column_and_leaves_out_what_is_not_written() {
        let by = |exprs: Vec<Arc<dyn PhysicalExpr>>| requirement(exprs.into_iter().map(|expr| (expr, options(false, true))).collect());
        assert_eq!(to_text(&by(vec![lit(1), column("a", 0)]), |_| false, |_| false), None);
        assert_eq!(
            to_text(&by(vec![column("p", 1), column("a", 0), lit(1), column("b", 2)]), |name| name == "p", |_| false).unwrap(),
            "\"a\" ASC NULLS FIRST"
        );
        // What is made anew is in another order, and so is what is sorted by it.
        let made = |name: &str| name == "m";
        assert_eq!(to_text(&by(vec![column("a", 0), column("m", 1), column("b", 2)]), |_| false, made).unwrap(), "\"a\" ASC NULLS FIRST");
        assert_eq!(to_text(&by(vec![column("m", 1), column("a", 0)]), |_| false, made), None);
    }

    #[test]
    fn a_cast_or_missing_column_ends_the_ordering_and_nonsense_is_none() {
        let file = Schema::new(vec![Field::new("a", DataType::Utf8, true), Field::new("b", DataType::Utf8, true)]);
        let table = Schema::new(vec![Field::new("a", DataType::Utf8, true), Field::new("b", DataType::Int32, true)]);
        let ordering = from_text("\"a\" ASC NULLS LAST, \"b\" ASC NULLS LAST", &file, &table).unwrap();
        assert_eq!(ordering.len(), 1);
        for text in ["", "a ASC NULLS LAST", "\"a\" ASC", "\"a\" ASC NULLS LAST,", "\"a\" ASC NULLS LAST; x", "\"a", "\"c\" ASC NULLS LAST"] {
            assert_eq!(from_text(text, &file, &table), None, "{text:?}");
        }
    }
}
