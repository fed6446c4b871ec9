//! Random predicates give the rows that they give over the same batches in memory, however the scan uses them.
#![cfg(test)]

use std::path::Path;
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_fermion::provider::LateColumns;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

const ROWS: usize = 3000;
const PREDICATES: usize = 150;

/// A column that prunes well, badly or not at all: sorted, clustered or shuffled, with nulls here and there.
fn numbers(rng: &mut StdRng) -> Vec<Option<i64>> {
    let (step, noise, nulls) = (rng.random_range(0..3), [1, 50, 5000][rng.random_range(0..3)], [0.0, 0.05, 0.5][rng.random_range(0..3)]);
    let all_null = rng.random_range(0..ROWS);
    let value = |row: usize, rng: &mut StdRng| step * i64::try_from(row).unwrap() + rng.random_range(0..noise);
    let is_null = |row: usize, rng: &mut StdRng| rng.random_bool(nulls) || (all_null..all_null + 400).contains(&row);
    (0..ROWS).map(|row| (!is_null(row, rng)).then(|| value(row, rng))).collect()
}

fn table(rng: &mut StdRng) -> RecordBatch {
    let ints = |rng: &mut StdRng| numbers(rng);
    let as_i32 = |v: i64| i32::try_from(v).unwrap();
    let text = |v: i64| match v % 4 {
        0 => format!("Supplier#{v:09}"),
        1 => format!("{v}"),
        2 => format!("日本{}", v / 10),
        _ => String::new(),
    };
    let float = |v: i64| match v % 97 {
        0 => f64::NAN,
        1 => -0.0,
        2 => 0.0,
        3 => f64::INFINITY,
        _ => v as f64 / 8.0 - 20.0,
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i", Arc::new(Int64Array::from_iter(ints(rng).into_iter().map(|v| v.map(|v| v - 500))))),
        ("n", Arc::new(Int32Array::from_iter(ints(rng).into_iter().map(|v| v.map(as_i32))))),
        ("u", Arc::new(UInt64Array::from_iter(ints(rng).into_iter().map(|v| v.map(|v| u64::MAX - v.unsigned_abs()))))),
        ("f", Arc::new(Float64Array::from_iter(ints(rng).into_iter().map(|v| v.map(float))))),
        ("s", Arc::new(StringArray::from_iter(ints(rng).into_iter().map(|v| v.map(text))))),
        // Few values, so that pages store codes of them.
        (
            "k",
            Arc::new(StringViewArray::from_iter(
                ints(rng).into_iter().map(|v| v.map(|v| ["", "ab", "a value beyond twelve bytes", "b"][usize::try_from(v % 4).unwrap()])),
            )),
        ),
        ("b", Arc::new(BooleanArray::from_iter(ints(rng).into_iter().map(|v| v.map(|v| v % 1000 < 500))))),
        ("d", Arc::new(Date32Array::from_iter(ints(rng).into_iter().map(|v| v.map(as_i32))))),
        ("t", Arc::new(TimestampMicrosecondArray::from_iter(ints(rng).into_iter().map(|v| v.map(|v| v * 1_000_000_007))))),
        ("id", Arc::new(Int64Array::from_iter_values(0..i64::try_from(ROWS).unwrap()))),
        (
            "m",
            Arc::new(
                Decimal128Array::from_iter(ints(rng).into_iter().map(|v| v.map(|v| i128::from(v) * 10_i128.pow(17))))
                    .with_precision_and_scale(30, 2)
                    .unwrap(),
            ),
        ),
    ];
    let fields: Vec<Field> = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    assert_eq!(fields[8].data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, array)| array).collect()).unwrap()
}

/// A literal near the values of the column.
fn literal(column: &str, rng: &mut StdRng) -> String {
    let v: i64 = rng.random_range(-100..7000);
    match column {
        "i" => (v - 500).to_string(),
        "u" => (u64::MAX - v.unsigned_abs()).to_string(),
        "f" => ["0.0", "-0.0", "'NaN'::double", "'Infinity'::double", "3.5", "-7.25", "100.0"].choose(rng).unwrap().to_string(),
        "s" => match v % 3 {
            0 => format!("'Supplier#{v:09}'"),
            1 => format!("'{v}'"),
            _ => ["''", "'日本4'", "'Supplier#'", "'日'", "'~'"].choose(rng).unwrap().to_string(),
        },
        "k" => ["'ab'", "'b'", "''", "'a value beyond twelve bytes'", "'c'"].choose(rng).unwrap().to_string(),
        "b" => ["true", "false"].choose(rng).unwrap().to_string(),
        "d" => format!("arrow_cast({}, 'Date32')", v.clamp(0, 6000)),
        "t" => format!("arrow_cast({}, 'Timestamp(Microsecond, None)')", v * 1_000_000_007),
        "m" => format!("arrow_cast('{}', 'Decimal128(30, 2)')", v * 1_000_000_000_000_000),
        _ => v.to_string(),
    }
}

fn predicate(rng: &mut StdRng, depth: usize) -> String {
    if depth > 0 && rng.random_bool(0.5) {
        let (a, b) = (predicate(rng, depth - 1), predicate(rng, depth - 1));
        return match rng.random_range(0..5) {
            0 => format!("NOT ({a})"),
            1 | 2 => format!("({a}) AND ({b})"),
            _ => format!("({a}) OR ({b})"),
        };
    }
    let column = *["i", "n", "u", "f", "s", "k", "k", "b", "d", "t", "m"].choose(rng).unwrap();
    let (a, b) = (literal(column, rng), literal(column, rng));
    match rng.random_range(0..12) {
        0 => format!("{column} IS NULL"),
        1 => format!("{column} IS NOT NULL"),
        2 => format!("{column} IN ({a}, {b}, {})", literal(column, rng)),
        3 => format!("{column} NOT IN ({a}, {b})"),
        4 => format!("{column} BETWEEN {a} AND {b}"),
        5 => format!("{column} IS DISTINCT FROM {a}"),
        6 if column == "k" => format!("coalesce(k, {a}) = {b}"),
        7 if column == "k" => "CASE WHEN k IS NULL THEN true ELSE length(k) > 2 END".to_owned(),
        8 if column == "k" => "k LIKE '%b%'".to_owned(),
        6 if column == "s" => "s LIKE 'Supplier#00000%'".to_owned(),
        6 if column == "s" => "s NOT LIKE '日本1%'".to_owned(),
        6 if column == "i" => "i = n".to_owned(),
        n => format!("{column} {} {a}", ["=", "<>", "<", "<=", ">", ">="][n % 6]),
    }
}

async fn rows(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let batches = ctx.sql(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}")).collect().await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in &batches {
        let columns: Vec<_> = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        rows.extend((0..batch.num_rows()).map(|row| columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join("|")));
    }
    rows.sort_unstable();
    rows
}

/// Ways to read the same file.
const NAMES: [&str; 4] = ["neither", "pruning", "pushdown_filters", "both"];

/// A table in `memory`, and the same in a file that is read in all of those ways.
async fn tables(rng: &mut StdRng, dir: &Path, batch_rows: usize) -> SessionContext {
    let batch = table(rng);
    let config = SessionConfig::new().with_target_partitions(2).with_batch_size(batch_rows);
    let state = SessionStateBuilder::new().with_config(config).with_default_features();
    let ctx = SessionContext::new_with_state(LateColumns { bytes_min: 0, far_bytes_min: 0 }.with(state).build());
    datafusion_fermion::register(&ctx).unwrap();
    ctx.register_table("memory", Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap())).unwrap();
    let file = dir.join("x.fermion");
    let copy = format!("COPY memory TO '{}' OPTIONS ('fermion.page_rows' '64', 'fermion.stripe_rows' '700')", file.display());
    ctx.sql(&copy).await.unwrap().collect().await.unwrap();
    for (name, (pruning, rows)) in NAMES.into_iter().zip([(false, false), (true, false), (false, true), (true, true)]) {
        let options = format!("'fermion.pruning' '{pruning}', 'fermion.pushdown_filters' '{rows}'");
        let create = format!("CREATE EXTERNAL TABLE {name} STORED AS FERMION OPTIONS ({options}) LOCATION '{}'", file.display());
        ctx.sql(&create).await.unwrap().collect().await.unwrap();
    }
    ctx
}

#[tokio::test(flavor = "multi_thread")]
async fn pruning_and_filtering_in_the_scan_never_change_an_answer() {
    // Rows of a batch: where few pass, those of several are filtered at once.
    for (seed, batch_rows) in [(0, 8192), (1, 50), (2, 200), (3, 700)] {
        let mut rng = StdRng::seed_from_u64(seed);
        let dir = tempfile::tempdir().unwrap();
        let ctx = tables(&mut rng, dir.path(), batch_rows).await;
        let mut matched = 0;
        for _ in 0..PREDICATES {
            let predicate = predicate(&mut rng, 2);
            let columns = ["*", "i, s", "count(*), count(s), sum(n)"].choose(&mut rng).unwrap();
            let query = |table: &str| format!("SELECT {columns} FROM {table} WHERE {predicate}");
            let expected = rows(&ctx, &query("memory")).await;
            matched += usize::from(expected.len() > 1 && expected.len() < ROWS);
            for name in NAMES {
                assert_eq!(expected, rows(&ctx, &query(name)).await, "seed {seed}, {name}: {predicate}");
            }
        }
        assert!(matched > PREDICATES / 4, "only {matched} predicates select some rows and leave some");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_rows_of_any_order_are_those_of_memory() {
    for (seed, batch_rows) in [(10, 8192), (11, 50), (12, 200)] {
        let mut rng = StdRng::seed_from_u64(seed);
        let dir = tempfile::tempdir().unwrap();
        let ctx = tables(&mut rng, dir.path(), batch_rows).await;
        let mut late = 0;
        for _ in 0..PREDICATES / 2 {
            // Not `f`: the engine is of two minds whether -0.0 comes before 0.0.
            let mut columns = ["i", "n", "u", "s", "k", "b", "d", "t"];
            columns.shuffle(&mut rng);
            let columns = &columns[..rng.random_range(1..4)];
            let mut key = |column: &&str| {
                let order = ["", "DESC"].choose(&mut rng).unwrap();
                let nulls = ["", "NULLS FIRST", "NULLS LAST"].choose(&mut rng).unwrap();
                format!("{column} {order} {nulls}")
            };
            let order = columns.iter().map(&mut key).collect::<Vec<_>>().join(", ");
            let filter = if rng.random_bool(0.5) { format!("WHERE {}", predicate(&mut rng, 1)) } else { String::new() };
            let limit = [1, 3, 40].choose(&mut rng).unwrap();
            // Nothing but what is sorted by: rows that are alike are so in all of that.
            let query = |table: &str| format!("SELECT {} FROM {table} {filter} ORDER BY {order} LIMIT {limit}", columns.join(", "));
            let expected = rows(&ctx, &query("memory")).await;
            for name in NAMES {
                assert_eq!(expected, rows(&ctx, &query(name)).await, "seed {seed}, {}", query(name));
            }
            // All columns, of which those that are not sorted by are read late.
            let query = |table: &str| format!("SELECT * FROM {table} {filter} ORDER BY {order}, id LIMIT {limit} OFFSET 1");
            let expected = rows(&ctx, &query("memory")).await;
            for name in NAMES {
                assert_eq!(expected, rows(&ctx, &query(name)).await, "seed {seed}, {}", query(name));
            }
            let plan = rows(&ctx, &format!("EXPLAIN {}", query("both"))).await.join("");
            late += usize::from(plan.contains("LateColumnsExec"));
        }
        // Not where it is known that there are no rows.
        assert!(late > PREDICATES / 2 - 10, "{late} plans");
    }
}

const SENTENCES: usize = 30_000;

/// Sentences of words that come again: of each row one of its own, of many rows the same, and often none.
fn sentences(rng: &mut StdRng) -> RecordBatch {
    let words =
        ["carefully", "special", "requests", "sleep", "über", "the", "final", "deposits", "furiously", "against", "http://", "google", ".com/"];
    let sentence = |rng: &mut StdRng| {
        let words: Vec<&str> = (0..rng.random_range(0..14)).map(|_| *words.choose(rng).unwrap()).collect();
        words.join([" ", "", "."].choose(rng).unwrap())
    };
    let known: Vec<String> = (0..SENTENCES / 5).map(|_| sentence(rng)).collect();
    let own: StringViewArray = (0..SENTENCES).map(|row| Some(format!("{} {row}", sentence(rng)))).collect();
    let shared: StringViewArray = (0..SENTENCES).map(|_| known.choose(rng).cloned()).collect();
    let rare: StringViewArray = (0..SENTENCES).map(|_| rng.random_bool(0.7).then(|| sentence(rng))).collect();
    let ids = Int64Array::from_iter_values(0..i64::try_from(SENTENCES).unwrap());
    let columns: [(&str, ArrayRef); 4] = [("own", Arc::new(own)), ("shared", Arc::new(shared)), ("rare", Arc::new(rare)), ("id", Arc::new(ids))];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Whether a column has pieces of a text that is there, in their order or not, begins with some, is one, or is less; or whether it is none of that.
fn question(column: &str, texts: &StringViewArray, rng: &mut StdRng) -> String {
    let (kind, negated, or_is) = (rng.random_range(0..11), rng.random_bool(0.5), rng.random_bool(0.5));
    let mut text = |skip: usize, take: usize| {
        let row = rng.random_range(0..texts.len());
        let text = if texts.is_null(row) { "" } else { texts.value(row) };
        let part: String = text.chars().skip(skip).take(take).collect();
        (part.replace(['%', '_', '\\', '\''], ""), rng.random_range(0..20), rng.random_range(1..14))
    };
    let (mut skip, mut take) = (3, 5);
    let mut piece = || {
        let (part, next_skip, next_take) = text(skip, take);
        (skip, take) = (next_skip, next_take);
        part
    };
    let pattern = match kind {
        0 => format!("'%{}%{}%'", piece(), piece()),
        1 => format!("'%{}%{}'", piece(), piece()),
        2 | 3 => {
            let (begin, ..) = text(0, 9);
            if kind == 2 { format!("'{begin}%'") } else { format!("'{}%e%'", &begin.chars().take(3).collect::<String>()) }
        }
        4 => return format!("{column} {} '{}'", if negated { "<>" } else { "=" }, text(0, usize::MAX).0),
        5 => return format!("{column} {} ''", if negated { "<>" } else { "=" }),
        6..9 => {
            let operator = [["<", "<="], [">", ">="]][usize::from(negated)][usize::from(or_is)];
            return format!("{column} {operator} '{}'", text(0, [4, 12, usize::MAX][kind - 6]).0);
        }
        _ => format!("'%{}%'", piece()),
    };
    format!("{column} {}LIKE {pattern}", if negated { "NOT " } else { "" })
}

#[tokio::test(flavor = "multi_thread")]
async fn text_is_found_in_however_it_is_stored() {
    let mut rng = StdRng::seed_from_u64(7);
    let batch = sentences(&mut rng);
    let dir = tempfile::tempdir().unwrap();
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    datafusion_fermion::register(&ctx).unwrap();
    datafusion_fermion::provider::register_inspection(&ctx);
    ctx.register_table("memory", Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch.clone()]]).unwrap())).unwrap();
    for (table, page_rows) in [("large", 65536), ("small", 3000)] {
        let file = dir.path().join(format!("{table}.fermion"));
        let copy = format!("COPY memory TO '{}' OPTIONS ('fermion.page_rows' '{page_rows}', 'fermion.stripe_rows' '17000')", file.display());
        ctx.sql(&copy).await.unwrap().collect().await.unwrap();
        let create = format!("CREATE EXTERNAL TABLE {table} STORED AS FERMION LOCATION '{}'", file.display());
        ctx.sql(&create).await.unwrap().collect().await.unwrap();
        // Else this is a test of something else.
        for (column, encoding) in [("own", "ONPAIR%"), ("shared", "DICTIONARY%"), ("rare", "ONPAIR%")] {
            let pages = format!(
                "SELECT count(*) > 0 FROM fermion_pages('{}') WHERE column = '{column}' AND encoding LIKE '{encoding}' AND encoding NOT LIKE '%LENGTHS%'",
                file.display()
            );
            assert_eq!(rows(&ctx, &pages).await, ["true"], "{table}, {column}");
        }
    }
    let mut matched = 0;
    for _ in 0..150 {
        let column = *["own", "shared", "rare"].choose(&mut rng).unwrap();
        let texts = batch.column_by_name(column).unwrap().as_string_view().clone();
        let mut predicate = question(column, &texts, &mut rng);
        match rng.random_range(0..6) {
            0 => predicate = format!("{predicate} AND {}", question(column, &texts, &mut rng)),
            1 => predicate = format!("{predicate} AND id % 7 < 2"),
            2 => predicate = format!("{predicate} AND shared LIKE '%special%'"),
            3 => predicate = format!("{column} IS NULL OR {predicate}"),
            _ => {}
        }
        let columns = *["*", "id", "count(*), sum(id), min(own)", column].choose(&mut rng).unwrap();
        // A filter that changes while the rows come compares text, too.
        let order = if columns == column { format!("ORDER BY {column} {} LIMIT 10", ["", "DESC"].choose(&mut rng).unwrap()) } else { String::new() };
        let query = |table: &str| format!("SELECT {columns} FROM {table} WHERE {predicate} {order}");
        let expected = rows(&ctx, &query("memory")).await;
        matched += usize::from(order.is_empty() && expected.len() > 1 && expected.len() < SENTENCES);
        for table in ["large", "small"] {
            assert_eq!(expected, rows(&ctx, &query(table)).await, "{table}: {predicate}");
        }
    }
    assert!(matched > 20, "only {matched} predicates select some rows and leave some");
}
