//! What a conversion will read and write, decided before anything is touched.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs;
use std::path::{Component, Path, PathBuf, absolute};

use percent_encoding::percent_decode_str;

use super::format::{Format, Name};
use crate::engine::Options;
use crate::error::{Doing, Error, Result};

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) input: &'a Path,
    pub(crate) output: &'a Path,
    pub(crate) from: Option<Format>,
    pub(crate) to: Option<Format>,
    pub(crate) overwrite: bool,
}

/// What will be done: every job reads some files and writes one.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) from: Format,
    pub(crate) to: Format,
    pub(crate) jobs: Vec<Job>,
    /// A directory that exists, on the way to the outputs: the place for files that are not yet whole.
    pub(crate) workplace: PathBuf,
}

/// Files that become one file, in this order.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) inputs: Vec<Input>,
    pub(crate) read_options: Options,
    pub(crate) output: PathBuf,
    pub(crate) write_options: Options,
}

/// A file to read.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    /// Absolute.
    pub(crate) path: PathBuf,
    /// Columns that the names of its folders hold, as in `year=2024/`, where they would be lost otherwise.
    pub(crate) partitions: Vec<(String, String)>,
}

impl Plan {
    /// Looks at the file system and decides; nothing is written.
    pub(crate) fn new(request: &Request<'_>) -> Result<Self> {
        let input = local(request.input)?;
        let output = local(request.output)?;
        let metadata = fs::metadata(&input).doing(|| format!("cannot read '{}'", request.input.display()))?;
        let files = if metadata.is_dir() { walk(&input, &mut HashSet::new())? } else { vec![input.clone()] };
        let (from, files) = choose(files, request)?;
        files.iter().try_for_each(|file| check_input(file))?;
        let into_directory = ends_with_separator(request.output) || output.is_dir();
        let to = target(request, from, into_directory)?;
        let base = if metadata.is_dir() { input.as_path() } else { input.parent().unwrap_or(&input) };
        let mut jobs = if into_directory { one_to_one(&files, base, &output, from, to)? } else { vec![all_to_one(&files, base, &output, from, to)?] };
        for job in &mut jobs {
            job.output = followed(&job.output)?;
        }
        check_outputs(&jobs, request.overwrite)?;
        let workplace = match jobs.as_slice() {
            [job] if !into_directory => workplace(&job.output, false)?,
            _ => workplace(&output, true)?,
        };
        Ok(Self { from, to, jobs, workplace })
    }
}

fn local(path: &Path) -> Result<PathBuf> {
    if path.to_string_lossy().contains("://") {
        return Err(Error::failed(format!("'{}' is not on this machine: use COPY in the shell for object stores", path.display())));
    }
    let path = absolute(path).doing(|| format!("cannot find '{}'", path.display()))?;
    Ok(if path.components().any(|part| part == Component::ParentDir) { without_parents(&path) } else { path })
}

/// The same place without `..`, which stores refuse. What does not exist is left as it is, below what does.
fn without_parents(path: &Path) -> PathBuf {
    match (fs::canonicalize(path), path.parent(), path.file_name()) {
        (Ok(real), ..) => real,
        (Err(_), Some(parent), Some(name)) => without_parents(parent).join(name),
        (Err(_), ..) => path.into(),
    }
}

fn ends_with_separator(path: &Path) -> bool {
    path.to_string_lossy().ends_with(std::path::is_separator)
}

/// Where `path` leads if it is a link: the file is to be replaced, and not the link to it.
fn followed(path: &Path) -> Result<PathBuf> {
    if !path.is_symlink() {
        return Ok(path.into());
    }
    fs::canonicalize(path).map_err(|_| {
        let target = fs::read_link(path).unwrap_or_default();
        Error::failed(format!("'{}' is a link to '{}', which does not exist: name that, or remove the link", path.display(), target.display()))
    })
}

/// What is not a file may never end, as a pipe that nobody writes to.
fn check_input(file: &Path) -> Result<()> {
    let metadata = fs::metadata(file).doing(|| format!("cannot read '{}'", file.display()))?;
    if metadata.is_file() { Ok(()) } else { Err(Error::failed(format!("'{}' is neither a file nor a directory", file.display()))) }
}

/// The files below `dir`, in order of their paths. Names that begin with a dot or an underscore are notes of other tools. A directory that
/// links lead to again is not read again: its rows would be there twice, or without end.
fn walk(dir: &Path, seen: &mut HashSet<PathBuf>) -> Result<Vec<PathBuf>> {
    if !seen.insert(fs::canonicalize(dir).doing(|| format!("cannot list '{}'", dir.display()))?) {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(dir).doing(|| format!("cannot list '{}'", dir.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.doing(|| format!("cannot list '{}'", dir.display()))?.path());
    }
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(['.', '_']) {
            continue;
        }
        if path.is_dir() {
            files.extend(walk(&path, seen)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

/// The format to read, and the files that have it.
fn choose(files: Vec<PathBuf>, request: &Request<'_>) -> Result<(Format, Vec<PathBuf>)> {
    let shown = request.input.display();
    let is_dir = request.input.is_dir();
    if let Some(from) = request.from {
        // A file named alone is what the person says it is; in a folder, names that tell another format are left out.
        let fits = |file: &PathBuf| !is_dir || Name::of(file).format.is_none_or(|format| format == from);
        let files: Vec<_> = files.into_iter().filter(fits).collect();
        return if files.is_empty() { Err(Error::failed(format!("'{shown}' holds no {from} files"))) } else { Ok((from, files)) };
    }
    let mut found: Vec<Format> = Vec::new();
    let mut known = Vec::new();
    for file in files {
        if let Some(format) = Name::of(&file).format {
            if !found.contains(&format) {
                found.push(format);
            }
            known.push(file);
        }
    }
    match found.as_slice() {
        [from] => Ok((*from, known)),
        [] if is_dir => Err(Error::failed(format!("'{shown}' holds no files of a known format: name it with --from"))),
        [] => Err(Error::failed(format!("the name '{shown}' does not tell its format: name it with --from"))),
        [first, second, ..] => Err(Error::failed(format!("'{shown}' holds {first} and {second} files: choose with --from"))),
    }
}

/// The format to write: as told, else as the name tells, else Fermion where a directory is to be filled.
fn target(request: &Request<'_>, from: Format, into_directory: bool) -> Result<Format> {
    let by_name = if into_directory { None } else { Name::of(request.output).format };
    let default = (into_directory && from != Format::Fermion).then_some(Format::Fermion);
    let unknown = || Error::failed(format!("the name '{}' does not tell its format: name it with --to", request.output.display()));
    request.to.or(by_name).or(default).ok_or_else(unknown)
}

fn one_to_one(files: &[PathBuf], base: &Path, output: &Path, from: Format, to: Format) -> Result<Vec<Job>> {
    let mut jobs = Vec::with_capacity(files.len());
    for file in files {
        let name = Name::of(file);
        let folder = file.parent().and_then(|parent| parent.strip_prefix(base).ok()).unwrap_or(Path::new(""));
        let input = Input { path: file.clone(), partitions: vec![] };
        let output = output.join(folder).join(format!("{}.{to}", name.stem));
        jobs.push(Job { inputs: vec![input], read_options: name.options(from), output, write_options: Options::new() });
    }
    Ok(jobs)
}

fn all_to_one(files: &[PathBuf], base: &Path, output: &Path, from: Format, to: Format) -> Result<Job> {
    let mut inputs: Vec<Input> = Vec::with_capacity(files.len());
    let mut read_options: Option<Options> = None;
    for file in files {
        let input = Input { path: file.clone(), partitions: partitions(file, base) };
        let options = Name::of(file).options(from);
        if inputs.first().is_some_and(|first| keys(first) != keys(&input)) {
            return Err(Error::failed(format!("'{}' is not partitioned as the other files are", file.display())));
        }
        if read_options.as_ref().is_some_and(|first| *first != options) {
            return Err(Error::failed(format!("'{}' is not compressed or delimited as the other files are", file.display())));
        }
        read_options = Some(options);
        inputs.push(input);
    }
    let write_options = Name::of(output).options(to);
    Ok(Job { inputs, read_options: read_options.unwrap_or_default(), output: output.into(), write_options })
}

fn keys(input: &Input) -> Vec<&str> {
    input.partitions.iter().map(|(key, _)| key.as_str()).collect()
}

/// The `key=value` folders between `base` and `file`, with what had to be escaped in a name as it was.
fn partitions(file: &Path, base: &Path) -> Vec<(String, String)> {
    let folders = file.parent().and_then(|parent| parent.strip_prefix(base).ok()).unwrap_or(Path::new(""));
    let pair = |folder: Component<'_>| {
        let (key, value) = folder.as_os_str().to_str()?.split_once('=')?;
        let plain = |text| percent_decode_str(text).decode_utf8().map_or_else(|_| text.to_owned(), Cow::into_owned);
        (!key.is_empty()).then(|| (plain(key), plain(value)))
    };
    folders.components().filter_map(pair).collect()
}

fn check_outputs(jobs: &[Job], overwrite: bool) -> Result<()> {
    let mut outputs = HashSet::new();
    for output in jobs.iter().map(|job| &job.output) {
        let shown = output.display();
        if !outputs.insert(output) {
            return Err(Error::failed(format!("two files would become '{shown}'")));
        }
        let Ok(found) = fs::metadata(output) else { continue };
        if found.is_dir() {
            return Err(Error::failed(format!("'{shown}' is a directory")));
        }
        if !found.is_file() {
            return Err(Error::failed(format!("'{shown}' is not a regular file, and is not replaced")));
        }
        if !overwrite {
            return Err(Error::failed(format!("'{shown}' exists: pass --overwrite to replace it")));
        }
    }
    Ok(())
}

/// The nearest directory above the outputs that exists; a single file's own must.
fn workplace(output: &Path, into_directory: bool) -> Result<PathBuf> {
    let place = if into_directory { output.ancestors().find(|place| place.is_dir()) } else { output.parent().filter(|place| place.is_dir()) };
    place.map(Path::to_path_buf).ok_or_else(|| Error::failed(format!("there is no directory for '{}'", output.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request<'a>(input: &'a Path, output: &'a Path) -> Request<'a> {
        Request { input, output, from: None, to: None, overwrite: false }
    }

    fn touch(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    fn outputs(plan: &Plan, base: &Path) -> Vec<String> {
        plan.jobs.iter().map(|job| job.output.strip_prefix(base).unwrap().to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_directory_becomes_a_directory_with_the_same_names() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["in/b.csv", "in/sub/a.csv.gz", "in/_SUCCESS", "in/.hidden.parquet", "in/notes.txt"] {
            touch(&dir.path().join(name));
        }
        let plan = Plan::new(&request(&dir.path().join("in"), &dir.path().join("out/"))).unwrap();
        assert_eq!((plan.from, plan.to), (Format::Csv, Format::Fermion));
        assert_eq!(outputs(&plan, dir.path()), ["out/b.fermion", "out/sub/a.fermion"]);
        assert_eq!(plan.workplace, dir.path());
    }

    #[test]
    fn partition_folders_become_columns_of_a_single_file() {
        let dir = tempfile::tempdir().unwrap();
        touch(&dir.path().join("in/year=2024/x.parquet"));
        touch(&dir.path().join("in/year=2023/y.parquet"));
        let plan = Plan::new(&request(&dir.path().join("in"), &dir.path().join("all.fermion"))).unwrap();
        let years: Vec<_> = plan.jobs[0].inputs.iter().map(|input| input.partitions.clone()).collect();
        assert_eq!(years, [2023, 2024].map(|year| vec![("year".to_owned(), year.to_string())]));
    }

    #[test]
    fn names_of_folders_are_unescaped() {
        let pairs = partitions(Path::new("/in/a%20b=x%2Fy%3D1/50%=50%/x.csv"), Path::new("/in"));
        assert_eq!(pairs, [("a b", "x/y=1"), ("50%", "50%")].map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    #[cfg(unix)]
    #[test]
    fn links_do_not_lead_around_in_circles() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        touch(&path("in/a/x.csv"));
        std::os::unix::fs::symlink(path("in"), path("in/a/up")).unwrap();
        std::os::unix::fs::symlink(path("in/a"), path("in/b")).unwrap();
        let plan = Plan::new(&request(&path("in"), &path("out/"))).unwrap();
        assert_eq!(outputs(&plan, dir.path()), ["out/a/x.fermion"]);
    }

    #[test]
    fn what_cannot_be_decided_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["mixed/a.csv", "mixed/b.json", "twice/a.json", "twice/a.ndjson", "odd/a", "a.csv", "there.fermion", "empty/_x"] {
            touch(&path(name));
        }
        let refusal = |input: &str, output: &str| {
            Plan::new(&request(&path(input), &path(output))).unwrap_err().to_string().replace(dir.path().to_str().unwrap(), "~")
        };
        assert_eq!(refusal("mixed", "out/"), "'~/mixed' holds csv and json files: choose with --from");
        assert_eq!(refusal("twice", "out/"), "two files would become '~/out/a.fermion'");
        assert_eq!(refusal("odd/a", "x.csv"), "the name '~/odd/a' does not tell its format: name it with --from");
        assert_eq!(refusal("empty", "x.csv"), "'~/empty' holds no files of a known format: name it with --from");
        assert_eq!(refusal("a.csv", "x"), "the name '~/x' does not tell its format: name it with --to");
        assert_eq!(refusal("a.csv", "there.fermion"), "'~/there.fermion' exists: pass --overwrite to replace it");
        assert_eq!(refusal("a.csv", "none/x.csv"), "there is no directory for '~/none/x.csv'");
    }
}
