//! Sums and averages that files say: those of the rows, and no rows read for them, where that is right.
#![cfg(test)]

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, Decimal128Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringViewArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, UInt64Type};
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionConfig, SessionContext};
use tempfile::TempDir;

const ROWS: i64 = 500;

/// A value of a row, or none.
fn value(row: i64) -> Option<i64> {
    (row % 7 != 0).then_some((row * 37) % 100 - 40)
}

fn unsigned(row: i64) -> Option<u64> {
    (row % 5 != 0).then(|| u64::try_from((row * 41) % 90).unwrap())
}

/// The sum of some of them passes 64 bits.
fn huge(row: i64) -> i64 {
    i64::MAX - row
}

/// Large in the first file, and as far below zero in the second, but for a few.
fn apart(row: i64) -> i64 {
    let large = i64::MAX / 10;
    if row < 200 {
        large
    } else if row < 400 {
        -large
    } else {
        row
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "they are small")]
fn rows(of: std::ops::Range<i64>, has_late: bool) -> Result<RecordBatch> {
    let values = || of.clone().map(value);
    let unsigned = || of.clone().map(unsigned);
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("i8", Arc::new(values().map(|value| value.map(|value| value as i8)).collect::<Int8Array>())),
        ("i16", Arc::new(values().map(|value| value.map(|value| value as i16)).collect::<Int16Array>())),
        ("i32", Arc::new(values().map(|value| value.map(|value| value as i32)).collect::<Int32Array>())),
        ("i64", Arc::new(values().collect::<Int64Array>())),
        ("u8", Arc::new(unsigned().map(|value| value.map(|value| value as u8)).collect::<UInt8Array>())),
        ("u16", Arc::new(unsigned().map(|value| value.map(|value| value as u16)).collect::<UInt16Array>())),
        ("u32", Arc::new(unsigned().map(|value| value.map(|value| value as u32)).collect::<UInt32Array>())),
        ("u64", Arc::new(unsigned().collect::<UInt64Array>())),
        ("d", Arc::new(values().map(|value| value.map(i128::from)).collect::<Decimal128Array>().with_precision_and_scale(9, 2)?)),
        ("huge", Arc::new(Int64Array::from_iter_values(of.clone().map(huge)))),
        ("apart", Arc::new(Int64Array::from_iter_values(of.clone().map(apart)))),
        ("nothing", Arc::new(Int32Array::new_null(usize::try_from(of.end - of.start).unwrap()))),
        ("f", Arc::new(values().map(|value| value.map(|value| value as f64)).collect::<Float64Array>())),
        ("t", Arc::new(StringViewArray::from_iter(values().map(|value| value.map(|value| format!("text {value}")))))),
    ];
    if has_late {
        columns.push(("late", Arc::new(values().collect::<Int64Array>())));
    }
    Ok(RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))?)
}

fn session(has_rule: bool, threads: usize) -> Result<SessionContext> {
    let mut config = SessionConfig::new().with_target_partitions(threads).with_batch_size(64);
    config.options_mut().optimizer.repartition_file_min_size = 0;
    let state = SessionStateBuilder::new().with_config(config).with_default_features();
    let state = if has_rule { datafusion_fermion::with_rules(state) } else { state };
    let context = SessionContext::new_with_state(state.build());
    datafusion_fermion::register(&context)?;
    Ok(context)
}

/// Two files of each format, of which only the second has `late`.
async fn write(dir: &TempDir) -> Result<()> {
    let context = session(false, 1)?;
    for (name, batch) in [("a", rows(0..200, false)?), ("b", rows(200..ROWS, true)?)] {
        let frame = context.read_batch(batch)?.into_view();
        context.register_table(name, frame)?;
        let year = dir.path().join(if name == "a" { "years/year=2021/a.fermion" } else { "years/year=2022/b.fermion" });
        context.sql(&format!("COPY (SELECT i8 FROM {name}) TO '{}' STORED AS FERMION", year.display())).await?.collect().await?;
        for format in ["fermion", "alkaid"] {
            let path = dir.path().join(format).join(format!("{name}.{format}"));
            let options = if format == "fermion" { "OPTIONS ('fermion.stripe_rows' '70')" } else { "" };
            context.sql(&format!("COPY {name} TO '{}' STORED AS {format} {options}", path.display())).await?.collect().await?;
        }
    }
    Ok(())
}

/// The session with the tables `t`, of Fermion, `o`, of Alkaid, and `years`, by year.
async fn with_tables(context: SessionContext, dir: &TempDir) -> Result<SessionContext> {
    let schema = rows(0..1, true)?.schema();
    let columns: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let types = ["TINYINT", "SMALLINT", "INT", "BIGINT", "TINYINT UNSIGNED", "SMALLINT UNSIGNED", "INT UNSIGNED", "BIGINT UNSIGNED"];
    let types = types.into_iter().chain(["DECIMAL(9, 2)", "BIGINT", "BIGINT", "INT", "DOUBLE", "VARCHAR", "BIGINT"]);
    let columns: Vec<String> = columns.iter().zip(types).map(|(name, data_type)| format!("{name} {data_type}")).collect();
    for (name, format) in [("t", "fermion"), ("o", "alkaid")] {
        let location = dir.path().join(format);
        let sql = format!("CREATE EXTERNAL TABLE {name} ({}) STORED AS {format} LOCATION '{}/'", columns.join(", "), location.display());
        context.sql(&sql).await?.collect().await?;
    }
    let location = dir.path().join("years");
    let sql =
        format!("CREATE EXTERNAL TABLE years (i8 TINYINT, year INT) STORED AS FERMION PARTITIONED BY (year) LOCATION '{}/'", location.display());
    context.sql(&sql).await?.collect().await?;
    Ok(context)
}

/// The rows of a query, and whether it reads none.
async fn run(context: &SessionContext, sql: &str) -> Result<(String, bool)> {
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    let is_known = !displayable(plan.as_ref()).indent(false).to_string().contains("DataSourceExec");
    let batches = datafusion::physical_plan::collect(plan, context.task_ctx()).await?;
    Ok((pretty_format_batches(&batches)?.to_string(), is_known))
}

#[tokio::test]
#[expect(clippy::cast_precision_loss, reason = "as averages are")]
async fn sums_are_those_of_the_rows() -> Result<()> {
    let dir = TempDir::new()?;
    write(&dir).await?;
    let values: Vec<i64> = (0..ROWS).filter_map(value).collect();
    let (sum, count) = (values.iter().sum::<i64>(), i64::try_from(values.len()).unwrap());
    let unsigned: Vec<u64> = (0..ROWS).filter_map(unsigned).collect();
    let huge: i128 = (0..ROWS).map(|row| i128::from(huge(row))).sum();
    let sql = "SELECT sum(i8), sum(i16), sum(i32), sum(i64), sum(i8 - 3), sum(i32 + 7), sum(CAST(i16 AS BIGINT) - 9), sum(u8), sum(u64), avg(i16), \
               avg(huge), avg(u32), sum(d), avg(apart) FROM t";
    for threads in [1, 3] {
        let context = with_tables(session(true, threads)?, &dir).await?;
        let batches = context.sql(sql).await?.collect().await?;
        let number = |column: usize| batches[0].column(column).as_primitive::<Int64Type>().value(0);
        assert_eq!([0, 1, 2, 3].map(number), [sum; 4]);
        assert_eq!([4, 5, 6].map(number), [sum - 3 * count, sum + 7 * count, sum - 9 * count]);
        assert_eq!([7, 8].map(|column| batches[0].column(column).as_primitive::<UInt64Type>().value(0)), [unsigned.iter().sum::<u64>(); 2]);
        let averages = [9, 10, 11].map(|column| batches[0].column(column).as_primitive::<Float64Type>().value(0));
        let expected = [sum as f64 / count as f64, huge as f64 / ROWS as f64, unsigned.iter().sum::<u64>() as f64 / unsigned.len() as f64];
        assert_eq!(averages.map(f64::to_bits), expected.map(f64::to_bits));
        assert_eq!(batches[0].column(12).as_primitive::<Decimal128Type>().value(0), i128::from(sum));
        let apart = batches[0].column(13).as_primitive::<Float64Type>().value(0);
        assert_eq!(apart.to_bits(), ((400..ROWS).sum::<i64>() as f64 / ROWS as f64).to_bits());
        assert!(run(&context, sql).await?.1, "rows are read");
    }
    Ok(())
}

/// Aggregations, and whether they are known.
const QUERIES: [(&str, bool); 44] = [
    ("SELECT sum(i8), count(*), count(i16), min(i64), max(d), sum(d) FROM t", true),
    ("SELECT min(t), sum(u16) AS s, avg(u64) + 1, sum(7 + u16) FROM t", true),
    ("SELECT count(CAST(i8 AS BIGINT)), sum(i8 + 1), sum(i8 - 1) FROM t", true),
    ("SELECT sum(i8) FROM t HAVING sum(i8) > 0", true),
    ("SELECT (SELECT sum(i8) FROM t) + 1", true),
    ("SELECT sum(CAST(i64 AS TINYINT)), sum(CAST(u8 AS INT) - 100) FROM t", true),
    // Numbers of 8 bits that pass them, and sums that pass 64.
    ("SELECT sum(i8 - arrow_cast(100, 'Int8')) FROM t", false),
    ("SELECT sum(u8 - arrow_cast(9, 'UInt8')) FROM t", false),
    ("SELECT sum(huge) FROM t", false),
    ("SELECT sum(huge - 9223372036854775000) FROM t", true),
    ("SELECT avg(huge), sum(i8) FROM t", true),
    ("SELECT sum(nothing), sum(i8) FROM t", false),
    ("SELECT avg(nothing), sum(i8) FROM t", false),
    ("SELECT sum(f) FROM t", false),
    ("SELECT avg(f) FROM t", false),
    ("SELECT sum(d + 1) FROM t", false),
    ("SELECT sum(CAST(d AS BIGINT)) FROM t", false),
    ("SELECT avg(d) FROM t", false),
    ("SELECT sum(late) FROM t", false),
    ("SELECT sum(DISTINCT i8), avg(DISTINCT i8) FROM t", false),
    ("SELECT sum(i8) FILTER (WHERE i8 > 3) FROM t", false),
    ("SELECT sum(i8) FROM t WHERE i16 > 3", false),
    ("SELECT sum(i8) FROM (SELECT i8 FROM t WHERE i8 IS NOT NULL ORDER BY i8 LIMIT 3)", false),
    ("SELECT i8 % 2 AS two, sum(i8) FROM t GROUP BY i8 % 2 ORDER BY two", false),
    ("SELECT sum(i8) FROM t GROUP BY GROUPING SETS ((), ())", false),
    ("SELECT sum(i8 * 2), sum(-i8), sum(2 - i8) FROM t", false),
    ("SELECT sum(a.i8) FROM t a JOIN t b ON a.i64 = b.i64", false),
    ("SELECT sum(i8) FROM (SELECT i8 FROM t UNION ALL SELECT i8 FROM t)", false),
    ("SELECT sum(i8), avg(i8) FROM o", false),
    ("SELECT bit_xor(i8), sum(i8) FROM t", false),
    // Of what is made of columns the bounds are not those of the columns.
    ("SELECT sum(x), count(x), avg(x) FROM (SELECT i8 + 1 AS x FROM t)", true),
    ("SELECT sum(x + 1), count(y), max(y) FROM (SELECT CAST(u8 AS SMALLINT) - 3 AS x, t AS y FROM t)", true),
    ("SELECT max(x), sum(y) FROM (SELECT CAST(i8 AS VARCHAR) AS x, i8 AS y FROM t)", false),
    ("SELECT min(CAST(i8 AS VARCHAR)), max(CAST(i8 AS VARCHAR)), sum(i8) FROM t", false),
    ("SELECT count(DISTINCT x), avg(y) FROM (SELECT CAST(NULL AS INT) AS x, i8 AS y FROM t)", false),
    ("SELECT sum(x), sum(y) FROM (SELECT 0.5 AS x, i8 AS y FROM t)", false),
    ("SELECT sum(i8), count(year), max(year) FROM years", true),
    ("SELECT sum(i8), count(DISTINCT year) FROM years", false),
    ("SELECT sum(i8), min(year) FROM years WHERE year = 2022", true),
    // Neither file's sum is one of 64 bits, but that of both is.
    ("SELECT sum(apart) FROM t", true),
    ("SELECT sum(i8) + (SELECT sum(i16 - 5) FROM t) FROM t", true),
    ("SELECT s + 1 AS s FROM (SELECT sum(i8) AS s FROM t UNION ALL SELECT sum(u8) FROM t) ORDER BY s", true),
    ("SELECT count(*) FROM t JOIN (SELECT sum(i8) AS s FROM t) ON s > i64", false),
    ("SELECT sum(year), sum(i8) FROM years", false),
];

#[tokio::test]
async fn answers_are_those_of_the_engine() -> Result<()> {
    let dir = TempDir::new()?;
    write(&dir).await?;
    for threads in [1, 3] {
        let context = with_tables(session(true, threads)?, &dir).await?;
        let plain = with_tables(session(false, threads)?, &dir).await?;
        for (sql, is_known) in QUERIES {
            let (found, expected) = (run(&context, sql).await?, run(&plain, sql).await?);
            assert_eq!(found.0, expected.0, "{sql}");
            assert_eq!((found.1, expected.1), (is_known, false), "{sql}");
        }
        // A cast that fails is not counted.
        let sql = "SELECT count(x), sum(y) FROM (SELECT CAST(t AS INT) AS x, i8 AS y FROM t)";
        assert!(run(&context, sql).await.is_err() && run(&plain, sql).await.is_err());
    }
    Ok(())
}

/// A sum of a user's, by the engine's name: of squares.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Squares(Signature);

impl AggregateUDFImpl for Squares {
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(SquareSum(0)))
    }
}

#[derive(Debug)]
struct SquareSum(i64);

impl Accumulator for SquareSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0 += values[0].as_primitive::<Int64Type>().iter().flatten().map(|value| value * value).sum::<i64>();
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0 += states[0].as_primitive::<Int64Type>().values().iter().sum::<i64>();
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(Some(self.0)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Int64(Some(self.0))])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

#[tokio::test]
async fn a_function_of_the_same_name_is_another() -> Result<()> {
    let dir = TempDir::new()?;
    write(&dir).await?;
    let context = with_tables(session(true, 2)?, &dir).await?;
    context.register_udaf(AggregateUDF::from(Squares(Signature::exact(vec![DataType::Int64], Volatility::Immutable))));
    let batches = context.sql("SELECT sum(i64) FROM t").await?.collect().await?;
    let squares: i64 = (0..ROWS).filter_map(value).map(|value| value * value).sum();
    assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().value(0), squares);
    Ok(())
}

#[tokio::test]
async fn what_files_do_not_say_is_read() -> Result<()> {
    let dir = TempDir::new()?;
    write(&dir).await?;
    let context = session(true, 2)?;
    context.sql("SET datafusion.execution.collect_statistics = false").await?.collect().await?;
    let (unaware, aware) = (with_tables(context, &dir).await?, with_tables(session(true, 2)?, &dir).await?);
    let sql = "SELECT sum(i8) FROM t";
    assert_eq!((run(&unaware, sql).await?, run(&aware, sql).await?.1), ((run(&aware, sql).await?.0, false), true));
    // Which rows these are, nobody says.
    let (found, is_known) = run(&aware, "SELECT sum(i8) < 1000, count(*) FROM (SELECT i8 FROM t LIMIT 3)").await?;
    assert!(found.contains("| true ") && found.contains(" 3 ") && !is_known, "{found}");
    Ok(())
}
