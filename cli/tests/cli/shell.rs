//! The SQL shell as a program: statements in, results and exit codes out.

use std::fs;
use std::process::{Output, Stdio};

use crate::common::{Bench, texts};

#[test]
fn a_command_prints_its_result() {
    let bench = Bench::new();
    assert_eq!(bench.ok(&["-q", "--format", "csv", "-c", "SELECT 1 AS a, 'x' AS b"]), "a,b\n1,x\n");
    assert_eq!(bench.ok(&["-q", "--format", "nd-json", "-c", "SELECT 1 AS a"]), "{\"a\":1}\n");
}

#[test]
fn what_programs_read_is_not_cut() {
    let bench = Bench::new();
    let print = |arguments: &[&str]| {
        bench.ok(&[&["-q"], arguments, &["-b", "100", "-c", "SELECT value FROM generate_series(1, 30000) AS t(value)"]].concat())
    };
    assert_eq!(print(&["--format", "csv"]).lines().count(), 1 + 30_000);
    assert_eq!(print(&["--format", "nd-json"]).lines().count(), 30_000);
    assert!(print(&["--maxrows", "3"]).lines().count() < 12);
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
    let output = bench.pipe(&["-q", "--format", "csv", "-r", "start.sql"], b"SELECT sum(column1) AS answer FROM t;\n");
    assert_eq!((output.status.code(), texts(&output)), (Some(0), ("answer\n42\n".into(), String::new())));
}

#[test]
fn a_script_ends_at_its_first_failure() {
    let bench = Bench::new();
    let script = "SELECT 1 AS a;\n\n-- wrong\nSELECT nothing\nFROM nowhere;\nSELECT 2 AS b;\n";
    fs::write(bench.path("bad.sql"), script).unwrap();
    let check = |output: Output, name: &str| {
        let (out, err) = texts(&output);
        assert_eq!((output.status.code(), out.as_str()), (Some(1), "a\n1\n"), "{err}");
        assert!(err.starts_with(&format!("fermion: {name}, line 3: ")) && err.contains("nowhere") && err.lines().count() == 1, "{err}");
    };
    check(bench.run(&["-q", "--format", "csv", "-f", "bad.sql"]), "bad.sql");
    check(bench.pipe(&["-q", "--format", "csv"], script.as_bytes()), "standard input");
    // A startup file that fails leaves nothing to go on from.
    check(bench.pipe(&["-q", "--format", "csv", "-r", "bad.sql"], b"SELECT 3;"), "bad.sql");
}

#[test]
fn a_script_is_read_to_the_letter() {
    let bench = Bench::new();
    let script = "#!/usr/bin/env fermion\nSELECT 'a\n-- b;\n#! c' AS text; -- and\nSELECT 2 -- two;\n AS two;\n-- the end;\n";
    fs::write(bench.path("a.sql"), script).unwrap();
    let expected = "text\n\"a\n-- b;\n#! c\"\ntwo\n2\n";
    assert_eq!(bench.ok(&["-q", "--format", "csv", "-f", "a.sql"]), expected);
    let output = bench.pipe(&["-q", "--format", "csv"], script.as_bytes());
    assert_eq!((output.status.code(), texts(&output)), (Some(0), (expected.into(), String::new())));
}

#[test]
fn a_script_that_is_no_text_fails() {
    let bench = Bench::new();
    let script = b"SELECT 1 AS a;\nSELECT '\xff';\n";
    fs::write(bench.path("a.sql"), script).unwrap();
    for (output, name) in
        [(bench.run(&["-q", "--format", "csv", "-f", "a.sql"]), "a.sql"), (bench.pipe(&["-q", "--format", "csv"], script), "standard input")]
    {
        let expected = format!("fermion: cannot read '{name}' after line 1: stream did not contain valid UTF-8\n");
        assert_eq!((output.status.code(), texts(&output)), (Some(1), ("a\n1\n".into(), expected)));
    }
}

#[test]
fn commands_of_the_prompt_can_be_piped() {
    let bench = Bench::new();
    let output = bench.pipe(&["-q"], b"\\pset format csv\nSELECT 1 AS a;\n\\q\nSELECT 2 AS b;\n");
    assert_eq!((output.status.code(), texts(&output)), (Some(0), ("Output format is Csv.\na\n1\n".into(), String::new())));
    let output = bench.pipe(&["-q"], b"\\nonsense\n");
    assert_eq!(
        (output.status.code(), texts(&output).1.as_str()),
        (Some(1), "fermion: standard input, line 1: '\\nonsense' is not a command ('\\?' lists them)\n")
    );
}

/// The writer of Parquet panics over unions, and whoever copies a file that has some should be told as of all else.
#[test]
fn a_panic_of_the_engine_is_an_error() {
    let bench = Bench::new();
    let output = bench.run(&["-q", "-c", "COPY (SELECT arrow_cast('x', 'Dictionary(Int32, Utf8View)') AS d) TO 'd.parquet'"]);
    let (out, err) = texts(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""), "{err}");
    assert!(err.lines().last().unwrap().starts_with("fermion: the engine panicked: "), "{err}");
}

/// Some of datafusion-cli prints with `print!`, which panics where nobody reads.
#[test]
fn nobody_need_read_what_is_printed() {
    let bench = Bench::new();
    for script in ["\\quiet true\n\\quiet false\n", "\\h\n", "\\pset format csv\n\\pset\n", "SELECT 1;\n"] {
        fs::write(bench.path("a.sql"), script).unwrap();
        let mut closed = bench.command(&["-q", "-f", "a.sql"]);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = closed.stdout(writer).output().unwrap();
        assert_eq!((output.status.code(), texts(&output).1.as_str()), (Some(0), ""), "{script}");
        let full = bench.command(&["-q", "-f", "a.sql"]).stdout(fs::File::create("/dev/full").unwrap()).output().unwrap();
        assert_eq!(full.status.code(), Some(1), "{script}");
        assert!(texts(&full).1.contains("No space left on device"), "{}", texts(&full).1);
    }
    for arguments in [&["-q", "-c", "SELECT nope"][..], &["verify", "nothing.fermion"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(bench.command(arguments).stderr(writer).stdout(Stdio::null()).status().unwrap().code(), Some(1), "{arguments:?}");
    }
}

#[test]
fn what_is_typed_is_run_as_a_script_is() {
    let bench = Bench::new();
    fs::write(bench.path(".datafusionrc"), "SELECT * FROM nowhere;\nCREATE VIEW started AS SELECT 40 + 2 AS answer;\n").unwrap();
    let copy = "COPY (SELECT value AS a FROM generate_series(1, 100000)) TO 'x.ipc' OPTIONS ('compression' 'zstd');\n";
    let typed = ["SELECT *\nFROM started;\n", "SELECT * FROM typo;\n", copy, "\\pset format csv\nSELECT sum(a) AS s FROM 'x.ipc';\n\\q\nSELECT 7;\n"];
    let shown = bench.types("-q", typed.concat().as_bytes());
    for text in ["| answer |", "nowhere", "typo", "Output format is Csv", "5000050000"] {
        assert!(shown.contains(text), "{text} is not in:\n{shown}");
    }
    assert!(!shown.contains("Int64(7)"), "{shown}");
    assert!(fs::metadata(bench.path("x.ipc")).unwrap().len() < 400_000);
    assert!(fs::read_to_string(bench.path(".history")).unwrap().contains("compression"));
}

#[test]
fn a_file_that_is_not_there_is_called_a_file() {
    let bench = Bench::new();
    for file in ["nosuch.fermion", "dir/nosuch.parquet"] {
        assert_eq!(bench.fails(&["-q", "-c", &format!("SELECT * FROM '{file}'")]), format!("there is no file '{file}'"));
    }
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
}

#[test]
fn options_are_those_of_the_format_that_a_statement_is_about() {
    let bench = Bench::new();
    let copy = |options: &str| format!("COPY (SELECT value AS a FROM generate_series(1, 100000)) TO 'x.ipc' STORED AS ALKAID OPTIONS ({options})");
    let bytes = |options: &str| {
        bench.select(&copy(options));
        fs::metadata(bench.path("x.ipc")).unwrap().len()
    };
    let plain = bytes("'compression' 'none'");
    assert!(plain > 800_000);
    for options in ["'compression' 'zstd'", "compression zstd", "format.compression 'ZSTD'", "'alkaid.compression' 'zstd'"] {
        assert!(bytes(options) < plain / 2, "{options}");
    }
    assert_eq!(bench.select("SELECT sum(a) AS s FROM 'x.ipc'"), "s\n5000050000\n");
    let line = bench.fails(&["-q", "-c", &copy("'page_rows' '10'")]);
    assert!(line.contains("there is no option \"page_rows\" of alkaid"), "{line}");
    let line = bench.fails(&["-q", "-c", "COPY (SELECT 1 AS a) TO 'y.fermion' OPTIONS ('compression' 'most')"]);
    assert!(line.contains("fermion.compression cannot be"), "{line}");
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
    for args in [
        &["--no-such-option"][..],
        &["-c"],
        &["-f"],
        &["-f", "missing.sql"],
        &["-f", "."],
        &["-m", "lots", "-c", "SELECT 1"],
        &["convert", "only-one"],
        &["demo", "--scale", "0"],
    ] {
        assert_eq!(bench.run(args).status.code(), Some(2), "{args:?}");
    }
}
