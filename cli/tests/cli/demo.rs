//! `fermion demo` as a program, on very little data.

use std::io::Write;
use std::process::Stdio;

use crate::common::{Bench, texts};

#[test]
fn the_formats_agree_and_the_shell_opens_on_the_tables() {
    let bench = Bench::new();
    let demo = ["demo", "--scale", "0.001", "--dir", "a demo"];
    let out = bench.ok(&demo);
    assert!(out.contains("\nEvery query gave equal results over both."), "{out}");
    assert!(out.contains("\nlineitem         6,005 "), "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 100 || line.contains("fermion -r") || line.contains("TPC-H")), "{out}");
    assert!(!out.contains('\u{1b}'), "colours in a pipe");
    assert!(out.trim_end().ends_with(&format!("fermion -r '{}'", bench.path("a demo/tables.sql").display())), "{out}");

    let again = bench.ok(&demo);
    assert!(again.contains(", written by an earlier run\n"), "{again}");

    let mut command = bench.command(&["-q", "--format", "csv", "-r", "a demo/tables.sql"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let sql = "SELECT (SELECT count(*) FROM lineitem) AS f, (SELECT count(*) FROM parquet.lineitem) AS p;\n";
    child.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
    let (out, err) = texts(&child.wait_with_output().unwrap());
    assert!(out.contains("f,p\n6005,6005\n") && err.is_empty(), "{out}\n{err}");
}
