//! Queries that read whole columns of `lineitem`, and queries that need not read any.

use arrow::datatypes::SchemaRef;

use crate::queries::Query;

/// Queries that read one whole column of `lineitem` each, and one that reads all of them.
pub(crate) fn whole_columns(lineitem: &SchemaRef) -> Vec<Query> {
    let mut found = Vec::new();
    for field in lineitem.fields() {
        let column = field.name();
        found.push(of_lineitem(column));
        if field.data_type().is_numeric() {
            found.push(of_lineitem(&format!("sum({column})")));
        }
        found.push(of_lineitem(&format!("count(distinct {column})")));
    }
    found.push(of_lineitem("*"));
    found
}

/// Queries that statistics can answer.
pub(crate) fn statistics(lineitem: &SchemaRef) -> Vec<Query> {
    let of_column = |column| of_lineitem(&format!("min({column}), max({column})"));
    lineitem.fields().iter().map(|field| of_column(field.name())).chain([of_lineitem("count(*)")]).collect()
}

fn of_lineitem(wanted: &str) -> Query {
    Query { name: format!("`{wanted}`"), statements: vec![format!("select {wanted} from lineitem")] }
}
