//! The SQL shell as a program: statements in, results and exit codes out.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::common::{Bench, texts};

#[test]
fn a_command_prints_its_result() {
    let bench = Bench::new();
    assert_eq!(bench.ok(&["-q", "--format", "csv", "-c", "SELECT 1 AS a, 'x' AS b"]), "a,b\n1,x\n");
    assert_eq!(bench.ok(&["-q", "--format", "nd-json", "-c", "SELECT 1 AS a"]), "{\"a\":1}\n");
}

#[test]
fn files_are_run_in_order_and_share_a_session() {
    let bench = Bench::new();
    fs::write(bench.path("1.sql"), "CREATE TABLE t AS VALUES (1), (2);\n").unwrap();
    fs::write(bench.path("2.sql"), "-- a note\nSELECT sum(column1)\nFROM t;\n").unwrap();
    let out = bench.ok(&["-q", "--format", "csv", "-f", "1.sql", "2.sql"]);
    assert!(out.ends_with("sum(t.column1)\n3\n"), "{out}");
}

#[test]
fn statements_can_be_piped_after_a_startup_file() {
    let bench = Bench::new();
    fs::write(bench.path("start.sql"), "CREATE TABLE t AS VALUES (20), (22);\n").unwrap();
    let mut command = bench.command(&["-q", "--format", "csv", "-r", "start.sql"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"SELECT sum(column1) AS answer FROM t;\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let (out, err) = texts(&output);
    assert!(output.status.success() && out.contains("answer\n42\n"), "{out}\n{err}");
}

#[test]
fn files_are_tables_and_the_functions_of_datafusion_are_there() {
    let bench = Bench::new();
    bench.copy("VALUES (1, 'x'), (2, NULL)", "t.parquet");
    assert_eq!(bench.select("SELECT * FROM 't.parquet' ORDER BY 1"), "column1,column2\n1,x\n2,\n");
    assert_eq!(bench.select("SELECT count(*) AS n FROM parquet_metadata('t.parquet')"), "n\n2\n");
    assert_eq!(bench.select("SELECT count(*) AS n FROM metadata_cache()"), "n\n0\n");
}

#[test]
fn fermion_is_a_format_like_any_other() {
    let bench = Bench::new();
    bench.copy("VALUES (1, 'x'), (2, NULL)", "t.fermion");
    assert_eq!(bench.select("SELECT * FROM 't.fermion' ORDER BY 1"), "column1,column2\n1,x\n2,\n");
    let sql = "CREATE EXTERNAL TABLE t STORED AS FERMION LOCATION 't.fermion' OPTIONS ('fermion.pruning' 'false'); SELECT count(*) AS n FROM t";
    assert!(bench.select(sql).ends_with("n\n2\n"));
    let line = bench.fails(&["-q", "-c", "COPY (SELECT 1) TO 'x.fermion' OPTIONS ('page_rows' '10')"]);
    assert!(line.contains("'fermion.'"), "{line}");
}

#[test]
fn a_failure_is_one_line_and_code_1() {
    let bench = Bench::new();
    let line = bench.fails(&["-q", "-c", "SELECT * FROM nowhere"]);
    assert!(line.contains("nowhere") && line.contains("not found"), "{line}");
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let bench = Bench::new();
    let mut command = bench.command(&["-q", "--format", "csv", "--maxrows", "inf", "-c", "SELECT * FROM generate_series(1, 1000000)"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), texts(&output).1.as_str()), (Some(0), ""));
}

#[test]
fn wrong_usage_is_code_2() {
    let bench = Bench::new();
    for args in
        [&["--no-such-option"][..], &["-f", "missing.sql"], &["-m", "lots", "-c", "SELECT 1"], &["convert", "only-one"], &["demo", "--scale", "0"]]
    {
        assert_eq!(bench.run(args).status.code(), Some(2), "{args:?}");
    }
}
