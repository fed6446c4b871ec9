//! Rules about the source tree that the compiler does not hold: what may import what, and what no file may contain.
//!
//! A rule that cannot be kept for one file gets an entry in that rule's list of exceptions, and an entry that is no longer needed fails too.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Where the sources are, and what is read there.
const FOLDERS: [&str; 7] = ["src", "cli", "conformance", "tests", "benches", "examples", ".ci"];
const LINES_MAX: usize = 600;
const ARCHITECTURE_LINES_MAX: usize = 200;

/// Files that are longer than [`LINES_MAX`], and why.
const LONG_FILES: [(&str, &str); 0] = [];

/// Files that may contain `unsafe`, each block with its proof.
const UNSAFE_FILES: [&str; 4] = ["src/format/alkaid/lz4.rs", "src/format/array/offsets.rs", "src/format/array/views.rs", "src/provider/local.rs"];

/// Split so that this file does not contain them.
const BANNED: [&str; 10] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/far", "m/"),
    concat!("/home", "/"),
];

/// The files whose path starts with `of` may not name these modules or crates.
struct Layer {
    of: &'static str,
    not: &'static [&'static str],
}

const LAYERS: [Layer; 20] = [
    Layer { of: "src/format/error.rs", not: &["wire", "codec", "fermion", "alkaid"] },
    Layer { of: "src/format/search.rs", not: &["wire", "scan", "codec", "fermion", "alkaid"] },
    Layer { of: "src/format/share.rs", not: &["wire", "scan", "codec", "fermion", "alkaid"] },
    Layer { of: "src/format/scan.rs", not: &["wire", "codec", "fermion", "alkaid"] },
    Layer { of: "src/format/file.rs", not: &["wire", "codec", "fermion", "alkaid"] },
    Layer { of: "src/format/requests.rs", not: &["wire", "codec", "fermion", "alkaid"] },
    Layer { of: "src/format/groups.rs", not: &["wire", "codec", "fermion", "alkaid"] },
    Layer { of: "src/format/parallel.rs", not: &["wire", "codec", "fermion", "alkaid"] },
    Layer { of: "src/format/patience.rs", not: &["wire", "codec", "fermion", "alkaid"] },
    Layer { of: "src/format/pending.rs", not: &["wire", "codec", "fermion", "alkaid"] },
    Layer { of: "src/format/wire.rs", not: &["scan", "codec", "fermion", "alkaid"] },
    Layer { of: "src/format/zstd.rs", not: &["wire", "scan", "codec", "fermion", "alkaid"] },
    Layer { of: "src/format/codec/", not: &["scan", "fermion", "alkaid"] },
    Layer { of: "src/format/array/", not: &["read", "write", "scan", "alkaid"] },
    Layer { of: "src/format/fermion/", not: &["alkaid"] },
    Layer { of: "src/format/alkaid/", not: &["fermion", "codec"] },
    Layer { of: "src/format/alkaid/read/", not: &["write"] },
    Layer { of: "src/format/alkaid/array/", not: &["read", "write"] },
    Layer { of: "src/format/fermion/read/", not: &["write"] },
    Layer { of: "src/format/fermion/write/", not: &["read"] },
];

/// What the formats never name, not even in tests: engine, runtimes, stores.
const ENGINE: [&str; 7] = ["datafusion", "tokio", "object_store", "futures", "async_trait", "async_std", "provider"];

/// Only `io.rs` may look into bytes: the rest of the engine's side carries ranges and buffers through unopened.
const PROVIDER_BANNED: [&str; 6] = ["from_le_bytes", "from_be_bytes", "to_le_bytes", "get_u32_le", "zerocopy", "wire"];

#[test]
fn layers_import_downward_only() {
    let mut found = Vec::new();
    for file in sources("rs") {
        for layer in LAYERS.iter().filter(|layer| file.path.starts_with(layer.of)) {
            for (number, line) in file.code() {
                let named = paths(line).into_iter().filter(|name| layer.not.contains(name));
                found.extend(named.map(|name| format!("{}:{number}: `{name}` in {}", file.path, layer.of)));
            }
        }
    }
    none(&found);
}

#[test]
fn formats_know_no_engine() {
    let mut found = Vec::new();
    for file in sources("rs").into_iter().filter(|file| file.path.starts_with("src/format/")) {
        for (number, line) in file.lines_without_comments() {
            let named = paths(line).into_iter().filter(|name| ENGINE.contains(name));
            found.extend(named.map(|name| format!("{}:{number}: `{name}` in src/format", file.path)));
        }
    }
    none(&found);
}

#[test]
fn provider_opens_no_bytes() {
    let provider = sources("rs").into_iter().filter(|file| file.path.starts_with("src/provider/") && !file.path.ends_with("/io.rs"));
    let mut found = Vec::new();
    for file in provider {
        for (number, line) in file.code() {
            let named = identifiers(line).into_iter().filter(|name| PROVIDER_BANNED.contains(name));
            found.extend(named.map(|name| format!("{}:{number}: `{name}` outside of io.rs", file.path)));
        }
    }
    none(&found);
}

#[test]
fn every_file_says_what_it_is() {
    let silent = sources("rs").into_iter().filter(|file| !file.text.starts_with("//!") && !file.text.starts_with("#![doc"));
    none(&silent.map(|file| format!("{}: begins without `//!`", file.path)).collect::<Vec<_>>());
}

#[test]
fn no_file_is_long() {
    let long: Vec<_> = sources("rs").into_iter().filter(|file| file.text.lines().count() > LINES_MAX).collect();
    let excused: BTreeSet<_> = LONG_FILES.iter().map(|(path, _)| *path).collect();
    let mut found: Vec<_> =
        long.iter().filter(|file| !excused.contains(file.path.as_str())).map(|file| format!("{}: over {LINES_MAX} lines", file.path)).collect();
    let stale = excused.iter().filter(|path| !long.iter().any(|file| file.path == **path));
    found.extend(stale.map(|path| format!("{path}: no longer long, take it off the list")));
    none(&found);
}

#[test]
fn no_banned_words() {
    let mut found = Vec::new();
    for file in ["rs", "md", "toml", "run"].into_iter().flat_map(sources) {
        for (number, line) in file.text.lines().enumerate() {
            let words = BANNED.iter().filter(|word| line.contains(**word));
            found.extend(words.map(|word| format!("{}:{}: `{word}`", file.path, number + 1)));
        }
    }
    none(&found);
}

#[test]
fn unsafe_is_where_it_may_be() {
    let uses: BTreeSet<_> = sources("rs")
        .into_iter()
        .filter(|file| file.lines_without_comments().any(|(_, line)| identifiers(line).contains(&concat!("un", "safe"))))
        .map(|file| file.path)
        .collect();
    let allowed: BTreeSet<_> = UNSAFE_FILES.iter().map(|path| (*path).to_owned()).collect();
    assert_eq!(uses, allowed, "files that use it (left), files that may (right)");
}

#[test]
fn every_dependency_is_explained() {
    let architecture = read("ARCHITECTURE.md");
    assert!(architecture.lines().count() <= ARCHITECTURE_LINES_MAX, "ARCHITECTURE.md is over {ARCHITECTURE_LINES_MAX} lines");
    let mut found = Vec::new();
    for manifest in ["Cargo.toml", "cli/Cargo.toml", "conformance/Cargo.toml", "benches/peers/Cargo.toml"] {
        for name in dependencies(&read(manifest)) {
            if !architecture.contains(&format!("`{name}`")) {
                found.push(format!("{manifest}: `{name}` has no line in ARCHITECTURE.md"));
            }
        }
    }
    none(&found);
}

#[test]
fn the_rules_see_what_they_forbid() {
    assert_eq!(paths("use crate::format::{codec, fermion::read};"), ["crate", "format", "codec", "fermion", "read"]);
    assert_eq!(paths("let x = super::write::Writer::new(write);"), ["super", "write", "Writer"]);
    assert_eq!(paths("write!(f, read)?; file.read(&mut scan)"), Vec::<&str>::new());
    let file = Source { path: String::new(), text: "a\n// b\n#[cfg(test)]\nmod tests {}\n".to_owned() };
    assert_eq!(file.code().collect::<Vec<_>>(), [(1, "a"), (2, "")]);
    assert_eq!(dependencies("[dependencies]\na = 1\n# b\n\n[features]\nc = []\n[dev-dependencies]\nd = 1\n"), ["a", "d"]);
}

fn none(found: &[String]) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// One file, by its path from the root.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// Numbered lines, without what follows `//`.
    fn lines_without_comments(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line.split("//").next().unwrap_or(line)))
    }

    /// The same up to the tests, which may import what they like.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_test = self.path.ends_with("/tests.rs") || self.path.contains("/tests/");
        self.lines_without_comments().take_while(move |(_, line)| !is_test && line.trim() != "#[cfg(test)]")
    }
}

/// The identifiers of a line.
fn identifiers(line: &str) -> Vec<&str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect()
}

/// The identifiers of a line that are part of a path: all of those of a `use`, else those next to `::`, without what a path ends in.
fn paths(line: &str) -> Vec<&str> {
    let declaration = line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
    if let Some(imported) = declaration.strip_prefix("use ") {
        return identifiers(imported);
    }
    let mut segments = line.split("::").peekable();
    let mut found = Vec::new();
    while let Some(segment) = segments.next() {
        if segments.peek().is_some() {
            found.extend(identifiers(segment).last());
        }
    }
    found
}

/// The names in the dependency sections of a manifest.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut inside = false;
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = matches!(line, "[dependencies]" | "[dev-dependencies]" | "[build-dependencies]");
        } else if let Some((name, _)) = line.split_once('=').filter(|_| inside && !line.starts_with('#')) {
            names.push(name.trim().to_owned());
        }
    }
    names
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The files under [`FOLDERS`] and in the root whose names end in `ending`.
fn sources(ending: &str) -> Vec<Source> {
    let mut found = Vec::new();
    visit(root(), false, ending, &mut found);
    for folder in FOLDERS {
        visit(&root().join(folder), true, ending, &mut found);
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn visit(folder: &Path, deep: bool, ending: &str, found: &mut Vec<Source>) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            if deep && !path.ends_with("target") {
                visit(&path, deep, ending, found);
            }
        } else if is_text(&path, ending) {
            let relative = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
            found.push(Source { path: relative, text: fs::read_to_string(&path).unwrap() });
        }
    }
}

fn is_text(path: &Path, ending: &str) -> bool {
    path.extension().or(path.file_name()).is_some_and(|name| name == ending)
}
