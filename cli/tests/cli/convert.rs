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
fn columns_of_several_files_are_matched_by_name() {
    for format in FORMATS {
        let bench = Bench::new();
        fs::create_dir(bench.path("in")).unwrap();
        for (number, sql) in
            ["SELECT 1 AS x, 'one' AS y", "SELECT 'two' AS y, 2 AS x", "SELECT 3 AS x, true AS z, 'three' AS y", "SELECT 4 AS x"].iter().enumerate()
        {
            bench.copy(sql, &format!("in/{number}.{format}"));
        }
        bench.ok(&["convert", "-q", "in", "one.fermion"]);
        assert_eq!(bench.select("SELECT x, y, z FROM 'one.fermion'"), "x,y,z\n1,one,\n2,two,\n3,three,true\n4,,\n", "{format}");
        let folded = bench.select("SELECT sum(x) AS x, count(y) AS y, count(z) AS z FROM 'one.fermion'");
        assert_eq!(folded, "x,y,z\n10,3,1\n", "{format}");
    }
}

#[test]
fn types_of_several_files_are_widened() {
    let bench = Bench::new();
    fs::create_dir(bench.path("in")).unwrap();
    bench.copy("SELECT arrow_cast(1, 'Int16') AS n, arrow_cast(1.25, 'Float32') AS f, 'a' AS s", "in/1.parquet");
    bench.copy("SELECT arrow_cast(3000000000, 'UInt32') AS n, arrow_cast(2, 'Int32') AS f, arrow_cast('b', 'LargeUtf8') AS s", "in/2.parquet");
    bench.ok(&["convert", "-q", "in", "one.fermion"]);
    assert_eq!(bench.select("SELECT * FROM 'one.fermion'"), "n,f,s\n1,1.25,a\n3000000000,2.0,b\n");
    assert_eq!(types(&bench, "one.fermion"), "column_name,data_type,is_nullable\nn,Int64,NO\nf,Float64,NO\ns,LargeUtf8,NO\n");

    bench.copy("SELECT 'text' AS n", "in/3.parquet");
    let line = bench.fails(&["convert", "in", "two.fermion"]);
    assert_eq!(line, format!("column 'n' is Utf8 in '{}' and Int64 before", bench.path("in/3.parquet").display()));
    assert_eq!(bench.entries(), ["in", "one.fermion"]);
}

#[test]
fn a_guess_that_is_wrong_elsewhere_does_not_change_text() {
    let bench = Bench::new();
    fs::create_dir(bench.path("in")).unwrap();
    fs::write(bench.path("in/1.csv"), "x,y\n007,1\n").unwrap();
    fs::write(bench.path("in/2.csv"), "y,x\n2,agent\n").unwrap();
    bench.ok(&["convert", "-q", "in", "one.csv"]);
    assert_eq!(fs::read_to_string(bench.path("one.csv")).unwrap(), "x,y\n007,1\nagent,2\n");
}

#[test]
fn the_order_of_sorted_rows_is_not_forgotten() {
    let bench = Bench::new();
    bench.copy("SELECT value AS id, value % 7 AS k FROM generate_series(1, 1000) ORDER BY k, id DESC", "a.fermion");
    bench.ok(&["convert", "-q", "a.fermion", "b.fermion"]);
    let plan = |file: &str| {
        let table = format!("CREATE EXTERNAL TABLE {file} STORED AS FERMION LOCATION '{file}.fermion'");
        bench.select(&format!("SET datafusion.explain.format = 'indent'; {table}; EXPLAIN SELECT id, k FROM {file}"))
    };
    for file in ["a", "b"] {
        assert!(plan(file).contains("output_ordering=[k@1 ASC NULLS LAST, id@0 DESC]"), "{file}: {}", plan(file));
    }

    // Two files that are sorted are not one that is.
    fs::create_dir(bench.path("in")).unwrap();
    fs::copy(bench.path("a.fermion"), bench.path("in/1.fermion")).unwrap();
    fs::copy(bench.path("b.fermion"), bench.path("in/2.fermion")).unwrap();
    bench.ok(&["convert", "-q", "in", "c.fermion"]);
    assert!(!plan("c").contains("output_ordering"), "{}", plan("c"));
}

#[test]
fn what_json_cannot_hold_is_not_lost_in_silence() {
    let bench = Bench::new();
    bench.copy("SELECT 1 AS i, [named_struct('f', 'NaN'::double)] AS nested", "a.parquet");
    bench.copy("SELECT 1.5e0 AS f, [1.5e0, NULL] AS nested", "fine.parquet");
    bench.ok(&["convert", "-q", "fine.parquet", "fine.json"]);
    let output = bench.run(&["convert", "-q", "a.parquet", "a.json"]);
    let warning = "fermion: warning: NaN and infinities, as in column 'nested', became null: JSON cannot hold them\n";
    assert_eq!((output.status.code(), texts(&output).1.as_str()), (Some(0), warning));
}

#[test]
fn arrow_and_alkaid_are_read_and_written_as_files_and_as_streams() {
    let bench = Bench::new();
    let column: arrow::array::ArrayRef = std::sync::Arc::new(arrow::array::Int64Array::from(vec![1, 2]));
    let batch = arrow::array::RecordBatch::try_from_iter([("x", column)]).unwrap();
    let mut writer = arrow::ipc::writer::StreamWriter::try_new(fs::File::create(bench.path("a.arrows")).unwrap(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    bench.ok(&["convert", "-q", "a.arrows", "b.csv"]);
    assert_eq!(fs::read_to_string(bench.path("b.csv")).unwrap(), "x\n1\n2\n");
    for (name, magic) in
        [("c.arrow", "ARROW1"), ("c.feather", "ARROW1"), ("c.arrows", ""), ("c.ipc", "ALKAID1"), ("c.alkaid", "ALKAID1"), ("c.ipcs", "")]
    {
        bench.ok(&["convert", "-q", "b.csv", name]);
        let bytes = fs::read(bench.path(name)).unwrap();
        let is_file = bytes.starts_with(b"ARROW1") || bytes.starts_with(b"ALKAID1");
        assert!(is_file != magic.is_empty() && bytes.starts_with(magic.as_bytes()) && bytes.ends_with(magic.as_bytes()), "{name}");
        bench.ok(&["convert", "-q", "--overwrite", name, "d.csv"]);
        assert_eq!(fs::read_to_string(bench.path("d.csv")).unwrap(), "x\n1\n2\n", "{name}");
    }
    let theirs = arrow::ipc::reader::StreamReader::try_new(fs::File::open(bench.path("c.arrows")).unwrap(), None).unwrap();
    assert_eq!(theirs.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 2);
}

#[test]
fn partition_values_are_unescaped() {
    let bench = Bench::new();
    bench.ok(&["-q", "-c", "COPY (SELECT 1 AS x, 'a/b c%' AS k) TO 'in/' STORED AS PARQUET PARTITIONED BY (k)"]);
    bench.ok(&["convert", "-q", "in", "one.csv"]);
    assert_eq!(fs::read_to_string(bench.path("one.csv")).unwrap(), "x,k\n1,a/b c%\n");
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
fn paths_may_go_up() {
    let bench = Bench::new();
    fs::create_dir(bench.path("sub")).unwrap();
    fs::write(bench.path("a.csv"), "x\n1\n").unwrap();
    bench.ok(&["convert", "-q", "sub/../a.csv", "sub/../new/", "--to", "csv"]);
    bench.ok(&["convert", "-q", "sub/../new", "sub/../b.json"]);
    assert_eq!(fs::read_to_string(bench.path("b.json")).unwrap(), "{\"x\":1}\n");
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

#[test]
fn a_damaged_file_is_named_once_and_as_it_was_given() {
    let bench = Bench::new();
    bench.copy("SELECT value AS id FROM generate_series(1, 1000)", "a.fermion");
    let mut bytes = fs::read(bench.path("a.fermion")).unwrap();
    bytes[60] ^= 0xFF;
    fs::write(bench.path("a.fermion"), bytes).unwrap();
    let shown = bench.path("a.fermion").display().to_string();
    let fault = "checksum mismatch: a page is damaged (data, column \"id\", offset 8)";
    assert_eq!(bench.fails(&["convert", "a.fermion", "b.csv"]), format!("cannot read '{shown}': {fault}"));
    assert_eq!(bench.fails(&["-q", "-c", "SELECT sum(abs(id)) FROM 'a.fermion'"]), format!("{shown}: {fault}"));
}

#[test]
fn no_error_names_a_file_that_nobody_knows() {
    let bench = Bench::new();
    fs::write(bench.path("a.csv"), "x\n1\n").unwrap();
    let line = bench.fails(&["convert", "a.csv", "b.fermion", "-o", "page_rows=0"]);
    assert!(line.contains("page_rows is 0; it must be between") && !line.contains(".part"), "{line}");
}

/// A limit on the size of files is, to the program, a disk that is full.
#[cfg(unix)]
#[test]
fn a_full_disk_is_called_that() {
    use std::process::{Command, Stdio};

    let bench = Bench::new();
    bench.copy("SELECT value AS id, random() AS noise FROM generate_series(1, 200000)", "a.parquet");
    for format in FORMATS {
        let script = format!("trap '' XFSZ; ulimit -f 100; exec '{}' convert a.parquet b.{format}", env!("CARGO_BIN_EXE_fermion"));
        let output = Command::new("sh").args(["-c", &script]).current_dir(bench.path(".")).stdin(Stdio::null()).output().unwrap();
        let expected = format!("fermion: cannot write '{}': File too large (os error 27)\n", bench.path(&format!("b.{format}")).display());
        assert_eq!((output.status.code(), texts(&output).1), (Some(1), expected));
        assert_eq!(bench.entries(), ["a.parquet"]);
    }
}

#[cfg(unix)]
#[test]
fn only_files_are_read_and_only_files_are_replaced() {
    let bench = Bench::new();
    fs::write(bench.path("a.csv"), "x\n1\n").unwrap();
    fs::create_dir(bench.path("in")).unwrap();
    for pipe in ["pipe.csv", "in/pipe.csv"] {
        assert!(std::process::Command::new("mkfifo").arg(bench.path(pipe)).status().unwrap().success());
    }
    let shown = |name: &str| bench.path(name).display().to_string();
    assert_eq!(bench.fails(&["convert", "pipe.csv", "b.json"]), format!("'{}' is neither a file nor a directory", shown("pipe.csv")));
    assert_eq!(bench.fails(&["convert", "in", "b.json"]), format!("'{}' is neither a file nor a directory", shown("in/pipe.csv")));
    let line = bench.fails(&["convert", "a.csv", "pipe.csv", "--overwrite"]);
    assert_eq!(line, format!("'{}' is not a regular file, and is not replaced", shown("pipe.csv")));
}

#[cfg(unix)]
#[test]
fn a_link_stays_and_its_file_is_replaced() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let bench = Bench::new();
    fs::write(bench.path("a.csv"), "x\n1\n").unwrap();
    fs::create_dir(bench.path("elsewhere")).unwrap();
    fs::write(bench.path("elsewhere/real.json"), "old").unwrap();
    fs::set_permissions(bench.path("elsewhere/real.json"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink("elsewhere/real.json", bench.path("link.json")).unwrap();
    symlink("nowhere.json", bench.path("dangling.json")).unwrap();

    bench.ok(&["convert", "-q", "a.csv", "link.json", "--overwrite"]);
    assert!(bench.path("link.json").is_symlink());
    assert_eq!(fs::read_to_string(bench.path("elsewhere/real.json")).unwrap(), "{\"x\":1}\n");
    assert_eq!(fs::metadata(bench.path("elsewhere/real.json")).unwrap().permissions().mode() & 0o777, 0o600);

    let line = bench.fails(&["convert", "a.csv", "dangling.json"]);
    assert!(line.contains("is a link to 'nowhere.json', which does not exist"), "{line}");
    assert!(!bench.path("nowhere.json").exists());
}

/// A conversion that is stopped half-way removes what it wrote.
#[cfg(unix)]
#[test]
fn an_interruption_leaves_nothing_behind() {
    for signal in ["-TERM", "-HUP"] {
        interrupt(signal);
    }
}

#[cfg(unix)]
fn interrupt(signal: &str) {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    let bench = Bench::new();
    fs::write(bench.path("a.csv"), format!("x\n{}", "123456789\n".repeat(4_000_000))).unwrap();
    let child = bench.command(&["convert", "a.csv", "b.parquet"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while bench.entries().len() < 2 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), texts(&output).1.as_str()), (Some(130), "fermion: interrupted\n"));
    assert_eq!(bench.entries(), ["a.csv"]);
}
