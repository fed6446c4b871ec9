//! The 22 queries of TPC-H.

use tpchgen::q_and_a::queries;

/// The substitution parameters `:1`, `:2`, … of each query that the TPC-H specification gives for validation.
const PARAMETERS: [&[&str]; 22] = [
    &["90"],
    &["15", "BRASS", "EUROPE"],
    &["BUILDING", "1995-03-15"],
    &["1993-07-01"],
    &["ASIA", "1994-01-01"],
    &["1994-01-01", "0.06", "24"],
    &["FRANCE", "GERMANY"],
    &["BRAZIL", "AMERICA", "ECONOMY ANODIZED STEEL"],
    &["green"],
    &["1993-10-01"],
    &["GERMANY", "0.0001"],
    &["MAIL", "SHIP", "1994-01-01"],
    &["special", "requests"],
    &["1995-09-01"],
    &["1996-01-01"],
    &["Brand#45", "MEDIUM POLISHED", "49", "14", "23", "45", "19", "3", "36", "9"],
    &["Brand#23", "MED BOX"],
    &["300"],
    &["Brand#12", "Brand#23", "Brand#34", "1", "10", "20"],
    &["forest", "1994-01-01", "CANADA"],
    &["SAUDI ARABIA"],
    &["13", "31", "23", "29", "30", "18", "17"],
];

/// How many of the first rows a query returns, where the specification limits them.
const LIMITS: [(usize, usize); 5] = [(2, 100), (3, 10), (10, 20), (18, 100), (21, 100)];

/// A named query: statements of which the one that returns rows counts.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pub(crate) name: String,
    pub(crate) statements: Vec<String>,
}

/// The 22 queries.
pub(crate) fn tpch() -> Vec<Query> {
    PARAMETERS.iter().zip(1..).map(|(parameters, number)| Query { name: format!("Q{number}"), statements: statements(number, parameters) }).collect()
}

fn statements(number: usize, parameters: &[&str]) -> Vec<String> {
    let text = i32::try_from(number).ok().and_then(queries::query).unwrap_or_default();
    // The precision of Q1's interval says nothing, and Q15's view is named after the stream that runs it.
    let mut text = text.replace(" day (3)", " day").replace("revenue:s", "revenue0");
    // The greatest number first, so that `:1` does not eat the start of `:10`.
    for (value, index) in parameters.iter().zip(1..).collect::<Vec<_>>().into_iter().rev() {
        text = text.replace(&format!(":{index}"), value);
    }
    let mut statements: Vec<String> =
        text.split(';').map(|statement| statement.trim().to_owned()).filter(|statement| !statement.is_empty()).collect();
    if let Some((_, rows)) = LIMITS.iter().find(|(limited, _)| *limited == number)
        && let Some(last) = statements.last_mut()
    {
        last.push_str(&format!(" limit {rows}"));
    }
    statements
}
