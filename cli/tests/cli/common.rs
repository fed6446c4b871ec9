//! Driving the `fermion` binary in a directory of its own.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A directory to run in, removed at the end.
pub(crate) struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fermion"));
        command.args(args).current_dir(self.dir.path()).env("HOME", self.dir.path()).env_remove("RUST_BACKTRACE").stdin(Stdio::null());
        command
    }

    /// Runs, whatever comes of it.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Types `text` at the prompt of a terminal of its own, and gives all that it shows.
    pub(crate) fn types(&self, args: &str, text: &[u8]) -> String {
        let mut command = Command::new("script");
        command.args(["-qec", &format!("{} {args}", env!("CARGO_BIN_EXE_fermion")), "/dev/null"]).env("TERM", "dumb");
        let mut child =
            command.current_dir(self.dir.path()).env("HOME", self.dir.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs with `text` piped to standard input, whatever comes of it.
    pub(crate) fn pipe(&self, args: &[&str], text: &[u8]) -> Output {
        let mut child = self.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Who has failed reads no further.
        let _ = child.stdin.take().unwrap().write_all(text);
        child.wait_with_output().unwrap()
    }

    /// Runs, which must work; returns standard output.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let (out, err) = texts(&output);
        assert!(output.status.success(), "fermion {args:?}\n{out}\n{err}");
        assert_eq!(err, "", "fermion {args:?}");
        out
    }

    /// Runs, which must fail with code 1 and one line; returns that line.
    pub(crate) fn fails(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(1), "fermion {args:?}\n{out}\n{err}");
        assert_eq!(out, "", "fermion {args:?}");
        assert_eq!(err.lines().count(), 1, "{err}");
        err.trim_end().strip_prefix("fermion: ").unwrap().to_owned()
    }

    /// What a query selects, as CSV.
    pub(crate) fn select(&self, sql: &str) -> String {
        self.ok(&["-q", "--format", "csv", "--maxrows", "inf", "-c", sql])
    }

    /// Writes a query's result to a file.
    pub(crate) fn copy(&self, sql: &str, file: &str) {
        self.ok(&["-q", "--format", "csv", "-c", &format!("COPY ({sql}) TO '{file}'")]);
    }

    /// The names of what is in the directory itself, hidden ones too.
    pub(crate) fn entries(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The names of all files below the directory, hidden ones too.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        collect(self.dir.path(), self.dir.path(), &mut files);
        files.sort();
        files
    }
}

fn collect(base: &Path, dir: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(base, &path, files);
        } else {
            files.push(path.strip_prefix(base).unwrap().to_str().unwrap().to_owned());
        }
    }
}

pub(crate) fn texts(output: &Output) -> (String, String) {
    (String::from_utf8(output.stdout.clone()).unwrap(), String::from_utf8(output.stderr.clone()).unwrap())
}
