//! `fermion convert` as a program: values, types and the order of rows come through, and failures leave nothing behind.

use std::fs;

use crate::common::{Bench, texts};

const FORMATS: [&str; 5] = ["parquet", "csv", "json", "arrow", "fermion"];

/// Values that every format can hold, with nulls.
const PLAIN: &str = "SELECT i, CASE WHEN i % 7 = 0 THEN NULL ELSE i * 1.5e0 END AS f, CASE WHEN i % 5 = 0 THEN NULL ELSE concat('row ', i, ', \"q\"') END AS s, \
                     i % 2 = 0 AS b FROM (SELECT value AS i FROM generate_series(1, 1000)) ORDER BY i";

/// One column of each type that Parquet, Arrow and Fermion all have.
const TYPED: &str = "SELECT arrow_cast(1, 'Int8') AS i8, arrow_cast(2, 'UInt64') AS u64, arrow_cast(1.5, 'Float32') AS f32, arrow_cast('a', 'Utf8') AS s, \
                     arrow_cast('b', 'LargeUtf8') AS ls, arrow_cast('c', 'Utf8View') AS sv, arrow_cast('d', 'Binary') AS bin, arrow_cast('e', 'BinaryView') AS bv, \
                     arrow_cast('f', 'Dictionary(Int32, Utf8)') AS dict, arrow_cast('2024-02-29', 'Date32') AS d, arrow_cast(12.34, 'Decimal128(10, 2)') AS dec, \
                     arrow_cast('2024-02-29T12:00:00', 'Timestamp(Millisecond, Some(\"Europe/Zurich\"))') AS ts, arrow_cast('12:34:56', 'Time64(Nanosecond)') AS t, \
                     [1, NULL, 3] AS list, named_struct('x', 1, 'y', [named_struct('z', 'deep')]) AS nested, arrow_cast(NULL, 'Int16') AS nothing";

fn rows(bench: &Bench, file: &str) -> String {
    // By name: what is inferred from JSON has its columns in alphabetical order.
    bench.select(&format!("SELECT i, f, s, b FROM '{file}' ORDER BY i"))
}

/// Names, types and nullability as the file has them.
fn types(bench: &Bench, file: &str) -> String {
    let exact = "SET datafusion.execution.parquet.schema_force_view_types = false; SET fermion.force_view_types = false;";
    bench.select(&format!("{exact} DESCRIBE '{file}'"))
}

#[test]
fn every_format_becomes_every_other() {
    let bench = Bench::new();
    bench.copy(PLAIN, "start.parquet");
    let expected = rows(&bench, "start.parquet");
    assert_eq!(expected.lines().count(), 1001);
    for from in FORMATS {
        let source = format!("start.{from}");
        if from != "parquet" {
            bench.ok(&["convert", "-q", "start.parquet", &source]);
        }
        for to in FORMATS {
            let target = format!("{from}-to.{to}");
            let summary = bench.ok(&["convert", &source, &target]);
            assert!(summary.starts_with("rows       1,000\n"), "{summary}");
            assert!(rows(&bench, &target) == expected, "{source} to {target}");
        }
    }
}

#[test]
fn types_come_back_as_they_were() {
    let bench = Bench::new();
    bench.copy(TYPED, "a.arrow");
    let values = |file: &str| bench.ok(&["-q", "--format", "nd-json", "-c", &format!("SELECT * FROM '{file}'")]);
    let (expected_types, expected_values) = (types(&bench, "a.arrow"), values("a.arrow"));
    assert!(expected_types.contains("\nls,LargeUtf8,") && expected_types.contains("\nsv,Utf8View,"), "{expected_types}");
    for (from, to) in
        [("a.arrow", "b.parquet"), ("b.parquet", "c.parquet"), ("c.parquet", "d.fermion"), ("d.fermion", "e.fermion"), ("e.fermion", "f.arrow")]
    {
        bench.ok(&["convert", "-q", from, to]);
        assert_eq!(types(&bench, to), expected_types, "{from} to {to}");
        assert_eq!(values(to), expected_values, "{from} to {to}");
    }
}

#[test]
fn rows_keep_their_order() {
    let bench = Bench::new();
    let lines: Vec<String> = (0..200_000u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40).to_string()).collect();
    let text = format!("x\n{}\n", lines.join("\n"));
    fs::write(bench.path("a.csv"), &text).unwrap();
    for (from, to) in [("a.csv", "b.parquet"), ("b.parquet", "c.fermion"), ("c.fermion", "d.arrow"), ("d.arrow", "e.json"), ("e.json", "f.csv")] {
        bench.ok(&["convert", "-q", from, to]);
    }
    assert!(fs::read_to_string(bench.path("f.csv")).unwrap() == text, "the order of rows changed");
}

#[test]
fn a_directory_becomes_a_directory() {
    let bench = Bench::new();
    fs::create_dir_all(bench.path("in/sub")).unwrap();
    fs::write(bench.path("in/a.csv"), "x\n1\n").unwrap();
    fs::write(bench.path("in/sub/b.csv"), "y\n2\n").unwrap();
    fs::write(bench.path("in/_SUCCESS"), "").unwrap();
    let summary = bench.ok(&["convert", "in", "out/", "--to", "parquet"]);
    assert!(summary.contains("in 2 csv files") && summary.contains("in 2 parquet files"), "{summary}");
    assert_eq!(bench.files(), ["in/_SUCCESS", "in/a.csv", "in/sub/b.csv", "out/a.parquet", "out/sub/b.parquet"]);
    assert_eq!(bench.select("SELECT * FROM 'out/sub/b.parquet'"), "y\n2\n");
}

#[test]
fn a_directory_becomes_one_file_in_order_and_with_its_partitions() {
    let bench = Bench::new();
    for (folder, text) in [("k=b", "x\n3\n"), ("k=a", "x\n1\n2.5\n"), ("k=__HIVE_DEFAULT_PARTITION__", "x\n0\n")] {
        fs::create_dir_all(bench.path(&format!("in/{folder}"))).unwrap();
        fs::write(bench.path(&format!("in/{folder}/part.csv")), text).unwrap();
    }
    bench.ok(&["convert", "-q", "in", "one.csv"]);
    assert_eq!(fs::read_to_string(bench.path("one.csv")).unwrap(), "x,k\n0.0,\n1.0,a\n2.5,a\n3.0,b\n");
}

#[test]
fn csv_files_with_other_columns_are_not_mixed_up() {
    let bench = Bench::new();
    fs::create_dir(bench.path("in")).unwrap();
    fs::write(bench.path("in/1.csv"), "x,y\n1,2\n").unwrap();
    fs::write(bench.path("in/2.csv"), "y,x\n2,1\n").unwrap();
    let line = bench.fails(&["convert", "in", "one.fermion"]);
    assert_eq!(line, format!("'{}' does not have the columns of '{}'", bench.path("in/2.csv").display(), bench.path("in/1.csv").display()));
    assert_eq!(bench.entries(), ["in"]);
}

#[test]
fn options_reach_both_formats() {
    let bench = Bench::new();
    fs::write(bench.path("a.txt"), "x;y\n1;a\n").unwrap();
    let read = ["--from", "csv", "--read-option", "delimiter=;"];
    bench.ok(&[&["convert", "-q", "a.txt", "b.tsv.gz"], &read[..]].concat());
    bench.ok(&["convert", "-q", "b.tsv.gz", "c.csv", "--option", "delimiter=|", "--option", "has_header=false"]);
    assert_eq!(fs::read_to_string(bench.path("c.csv")).unwrap(), "1|a\n");
    let line = bench.fails(&["convert", "b.tsv.gz", "d.csv", "--option", "nonsense=1"]);
    assert!(line.starts_with("cannot write with these options: ") && line.contains("nonsense"), "{line}");
}

#[test]
fn odd_names_are_only_names() {
    let bench = Bench::new();
    fs::write(bench.path("a b%20#*?[x].csv"), "x\n1\n").unwrap();
    bench.ok(&["convert", "-q", "a b%20#*?[x].csv", "ü %41 b.json"]);
    assert_eq!(fs::read_to_string(bench.path("ü %41 b.json")).unwrap(), "{\"x\":1}\n");
}

#[test]
fn a_file_that_exists_is_replaced_only_when_asked() {
    let bench = Bench::new();
    fs::write(bench.path("a.csv"), "x\n1\n").unwrap();
    fs::write(bench.path("b.json"), "mine").unwrap();
    assert_eq!(bench.fails(&["convert", "a.csv", "b.json"]), format!("'{}' exists: pass --overwrite to replace it", bench.path("b.json").display()));
    assert_eq!(fs::read_to_string(bench.path("b.json")).unwrap(), "mine");
    bench.ok(&["convert", "-q", "a.csv", "b.json", "--overwrite"]);
    assert_eq!(fs::read_to_string(bench.path("b.json")).unwrap(), "{\"x\":1}\n");
    bench.ok(&["convert", "-q", "a.csv", "a.csv", "--overwrite", "--option", "has_header=false"]);
    assert_eq!(fs::read_to_string(bench.path("a.csv")).unwrap(), "1\n");
}

#[test]
fn bad_input_leaves_nothing_behind() {
    let bench = Bench::new();
    bench.copy("SELECT value AS i FROM generate_series(1, 100000)", "good.parquet");
    let good = fs::read(bench.path("good.parquet")).unwrap();
    let mut bad = good.clone();
    let middle = good.len() / 2;
    bad[middle - 1000..middle].fill(0xA5);
    fs::create_dir(bench.path("in")).unwrap();
    fs::write(bench.path("in/1.parquet"), &good).unwrap();
    fs::write(bench.path("in/2.parquet"), &bad).unwrap();
    fs::write(bench.path("cut.parquet"), &good[..middle]).unwrap();
    let before = bench.files();

    let line = bench.fails(&["convert", "in", "out/", "--to", "arrow"]);
    assert!(line.starts_with(&format!("cannot read '{}': ", bench.path("in/2.parquet").display())), "{line}");
    let line = bench.fails(&["convert", "in", "one.csv"]);
    assert!(line.starts_with(&format!("cannot read '{}': ", bench.path("in/2.parquet").display())), "{line}");
    let line = bench.fails(&["convert", "cut.parquet", "good.parquet", "--overwrite"]);
    assert!(line.starts_with(&format!("cannot read '{}': ", bench.path("cut.parquet").display())), "{line}");
    bench.fails(&["convert", "missing.csv", "x.json"]);

    assert_eq!(bench.files(), before);
    assert!(bench.entries().iter().all(|name| !name.starts_with('.')), "{:?}", bench.entries());
    assert!(!bench.path("out").exists());
    assert!(fs::read(bench.path("good.parquet")).unwrap() == good, "the file to be replaced is not the one it was");
}

#[test]
fn what_a_format_cannot_hold_leaves_nothing_behind() {
    let bench = Bench::new();
    bench.copy("SELECT [1, 2] AS list", "a.parquet");
    let line = bench.fails(&["convert", "a.parquet", "b.csv"]);
    assert!(line.starts_with(&format!("cannot write '{}': ", bench.path("b.csv").display())), "{line}");
    assert_eq!(bench.entries(), ["a.parquet"]);
}

#[test]
fn a_column_that_does_not_keep_its_type_is_explained() {
    let bench = Bench::new();
    fs::write(bench.path("a.csv"), "x\n1\n2\nthree\n").unwrap();
    let line = bench.fails(&["convert", "a.csv", "b.json", "--read-option", "schema_infer_max_rec=2"]);
    assert!(line.starts_with("cannot read ") && line.contains("schema_infer_max_rec"), "{line}");
    bench.ok(&["convert", "-q", "a.csv", "b.json"]);
    assert_eq!(bench.files(), ["a.csv", "b.json"]);
}

/// A conversion that is stopped half-way removes what it wrote.
#[cfg(unix)]
#[test]
fn an_interruption_leaves_nothing_behind() {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    let bench = Bench::new();
    fs::write(bench.path("a.csv"), format!("x\n{}", "123456789\n".repeat(4_000_000))).unwrap();
    let child = bench.command(&["convert", "a.csv", "b.parquet"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while bench.entries().len() < 2 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), texts(&output).1.as_str()), (Some(130), "fermion: interrupted\n"));
    assert_eq!(bench.entries(), ["a.csv"]);
}
