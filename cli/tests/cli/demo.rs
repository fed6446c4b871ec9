//! `fermion demo` as a program, on very little data.

use std::fs;

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

    let sql = b"SELECT (SELECT count(*) FROM lineitem) AS f, (SELECT count(*) FROM parquet.lineitem) AS p;\n";
    let output = bench.pipe(&["-q", "--format", "csv", "-r", "a demo/tables.sql"], sql);
    assert_eq!((output.status.code(), texts(&output)), (Some(0), ("f,p\n6005,6005\n".into(), String::new())));
}

#[test]
fn files_that_are_damaged_are_made_again() {
    let bench = Bench::new();
    let demo = ["demo", "--scale", "0.001", "--dir", "d"];
    bench.ok(&demo);
    let file = bench.path("d/fermion/orders.fermion");
    let whole = fs::read(&file).unwrap();

    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    assert!(!bench.ok(&demo).contains("earlier run"));
    assert!(fs::read(&file).unwrap() == whole);

    // What has the right length is only found out when it is read.
    let mut damaged = whole.clone();
    damaged[100..whole.len() / 2].fill(0xA5);
    fs::write(&file, damaged).unwrap();
    let output = bench.run(&demo);
    let (_, err) = texts(&output);
    let way_out = format!("(the files are from an earlier run: delete '{}' to have them made again)\n", bench.path("d").display());
    assert!(output.status.code() == Some(1) && err.ends_with(&way_out), "{err}");
}

#[test]
fn a_directory_of_somebody_else_is_left_alone() {
    let bench = Bench::new();
    fs::create_dir_all(bench.path("mine/fermion")).unwrap();
    fs::write(bench.path("mine/fermion/orders.fermion"), "precious").unwrap();
    let output = bench.run(&["demo", "--scale", "0.001", "--dir", "mine"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(texts(&output).1.contains("holds other files: name a new or an empty directory with --dir"), "{:?}", texts(&output));
    assert_eq!(bench.files(), ["mine/fermion/orders.fermion"]);
    assert_eq!(fs::read_to_string(bench.path("mine/fermion/orders.fermion")).unwrap(), "precious");
}
