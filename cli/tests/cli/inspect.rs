//! `fermion inspect` and `fermion verify`.

use std::fs;

use crate::common::Bench;

/// A file whose column names hold what could end a script or a query.
fn bench() -> Bench {
    let bench = Bench::new();
    let columns = "value AS id, md5(CAST(value AS VARCHAR)) AS \"</script>'\", CAST(NULL AS INT) AS nothing, {a: value, l: make_array(value)} AS s";
    let sql = format!("COPY (SELECT {columns} FROM generate_series(1, 1000)) TO 'it''s.fermion' STORED AS FERMION");
    bench.ok(&["-q", "-c", &sql]);
    bench
}

#[test]
fn a_file_is_shown_as_text() {
    let text = bench().ok(&["inspect", "it's.fermion"]);
    assert!(text.starts_with("it's.fermion: Fermion 1.0, 1,000 rows, 4 columns, 1 stripe, "), "{text}");
    assert!(text.contains("with checksums\nin the order of \"id\" ASC NULLS LAST\n"), "{text}");
    let row = |name: &str| {
        text.lines().find(|line| line.starts_with(&format!("| {name} "))).unwrap().split('|').map(str::trim).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!((row("id")[2].as_str(), &row("id")[4..7]), ("Int64", &["0", "1", "1000"].map(str::to_owned)[..]));
    assert_eq!(row("nothing")[3..5], ["0", "1000"]);
    assert!(row("</script>'")[3].parse::<u64>().unwrap() > 10_000);
}

#[test]
fn the_pages_of_a_column_are_shown() {
    let bench = bench();
    let text = bench.ok(&["inspect", "it's.fermion", "--column", "s"]);
    let holds: Vec<&str> = text.lines().filter(|line| line.starts_with("| page ")).map(|line| line.split('|').nth(4).unwrap().trim()).collect();
    assert_eq!(holds, ["data", "offsets", "data"]);
    assert!(bench.ok(&["inspect", "it's.fermion", "--column", "</script>'"]).contains("| data "));
    assert!(bench.fails(&["inspect", "it's.fermion", "--column", "x"]).ends_with("has no column \"x\""));
}

#[test]
fn json_has_all_and_html_is_one_page() {
    let bench = bench();
    let json = bench.ok(&["inspect", "it's.fermion", "--format", "json"]);
    assert!(json.starts_with("{\"file\":{\"version\":\"1.0\",\"rows\":1000,\"columns\":4,"), "{json}");
    assert!(json.contains("{\"column_index\":2,\"column\":\"nothing\",\"type\":\"Int32\",\"nullable\":true,\"bytes\":0,"), "{json}");
    assert_eq!(json.matches("\"column_index\":").count(), 4);

    assert_eq!(bench.ok(&["inspect", "it's.fermion", "--format", "html", "--output", "map.html"]), "");
    let page = fs::read_to_string(bench.path("map.html")).unwrap();
    assert_eq!(page.matches("</script>").count(), 1, "a name has ended the script");
    assert!(
        page.contains("<title>it's.fermion</title>")
            && page.contains("\"part\":\"page\"")
            && page.contains("\\u003c/script>'")
            && !page.contains("/*parts*/")
    );
    for elsewhere in ["http:", "https:", "src=", "@import"] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
}

#[test]
fn a_whole_file_is_whole_and_a_damaged_one_is_not() {
    let bench = bench();
    let whole = bench.ok(&["verify", "it's.fermion"]);
    assert!(whole.starts_with("it's.fermion: whole (1,000 rows, 4 columns, "), "{whole}");
    let mut bytes = fs::read(bench.path("it's.fermion")).unwrap();
    bytes[1000] ^= 1;
    fs::write(bench.path("damaged.fermion"), bytes).unwrap();
    let output = bench.run(&["verify", "it's.fermion", "damaged.fermion"]);
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!((output.status.code(), err.as_str()), (Some(1), "fermion: 1 fault in 1 of 2 files\n"));
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("it's.fermion: whole"), "{out}");
    assert!(lines[1].starts_with("damaged.fermion: checksum mismatch: a page is damaged (data, column \"</script>'\", offset "), "{out}");
    assert_eq!(lines.len(), 2);
}

#[test]
fn a_name_is_no_pattern_and_a_missing_file_does_not_hide_the_others() {
    let bench = bench();
    fs::rename(bench.path("it's.fermion"), bench.path("i.fermion")).unwrap();
    let mut bytes = fs::read(bench.path("i.fermion")).unwrap();
    bytes[1000] ^= 1;
    fs::write(bench.path("[i].fermion"), bytes).unwrap();
    let output = bench.run(&["verify", "[i].fermion", "none.fermion", "i.fermion"]);
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("[i].fermion: checksum mismatch") && lines[1].starts_with("none.fermion: cannot open"), "{out}");
    assert!(lines[2].starts_with("i.fermion: whole"), "{out}");
    assert_eq!(err, "fermion: 2 faults in 2 of 3 files\n");
}

#[test]
fn what_is_no_file_is_refused() {
    let bench = bench();
    assert!(bench.fails(&["inspect", "none.fermion"]).starts_with("cannot open 'none.fermion'"));
    assert_eq!(bench.fails(&["inspect", "."]), "'.' is a directory; name a file");
    fs::write(bench.path("x.csv"), "a,b\n1,2\n".repeat(100)).unwrap();
    assert!(bench.fails(&["inspect", "x.csv"]).contains("not a Fermion file"));
}
