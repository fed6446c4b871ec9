//! Runs a file of the suite, and runs it again.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use datafusion_sqllogictest::{DFColumnType, df_value_validator, value_normalizer};
use sqllogictest::{Location, MakeConnection, Record, RecordOutput, Runner, parse_file, strict_column_validator};

use crate::compare::{PANIC, Verdict, compare};
use crate::known::{SOMETIMES, known_reason};
use crate::report::Tally;
use crate::rewrite::rewrite;
use crate::session::Session;
use crate::suite::SuiteFile;

/// What differs from the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Fermion where the file says Parquet.
    Format,
    /// Fermion where the file keeps a table in memory.
    Memory,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Memory => "memory",
        }
    }
}

/// A record's answer in the baseline; whether it is what the suite expects.
struct Baseline {
    output: RecordOutput<DFColumnType>,
    is_expected: bool,
}

pub(crate) async fn run_file(file: &SuiteFile) -> Result<Vec<Tally>, Box<dyn Error>> {
    let modes = modes(file)?;
    let mut tallies = Vec::new();
    if modes.is_empty() {
        return Ok(tallies);
    }
    let Some(baseline) = run_baseline(file).await? else {
        return Ok(tallies);
    };
    for mode in modes {
        tallies.push(run_again(file, mode, &baseline).await?);
    }
    Ok(tallies)
}

/// The ways in which a file runs again: those in which it has something to say.
fn modes(file: &SuiteFile) -> Result<Vec<Mode>, Box<dyn Error>> {
    let mut modes = Vec::new();
    let records = parse_file::<DFColumnType>(&file.path)?;
    let texts: Vec<&str> = records.iter().filter_map(|record| sql(record).map(|(_, text)| text)).collect();
    if texts.iter().any(|text| rewrite(text) != *text) {
        modes.push(Mode::Format);
    }
    let creates = |text: &&str| {
        let words: Vec<String> = text.split_whitespace().take(4).map(str::to_ascii_lowercase).collect();
        words.first().is_some_and(|word| word == "create")
            && words.get(1..).is_some_and(|words| words.contains(&"table".to_owned()) && !words.contains(&"external".to_owned()))
    };
    if texts.iter().any(creates) {
        modes.push(Mode::Memory);
    }
    Ok(modes)
}

async fn run_baseline(file: &SuiteFile) -> Result<Option<Vec<Baseline>>, Box<dyn Error>> {
    file.clear_scratch()?;
    let Some(session) = Session::new(file, None).await? else {
        return Ok(None);
    };
    let mut runner = runner(session);
    let mut outputs = Vec::new();
    for record in parse_file(&file.path)? {
        if matches!(record, Record::Halt { .. }) {
            break;
        }
        outputs.push(match runner.run_async(record).await {
            Ok(output) => Baseline { output, is_expected: true },
            Err(_) => Baseline { output: RecordOutput::Nothing, is_expected: false },
        });
    }
    Ok(Some(outputs))
}

async fn run_again(file: &SuiteFile, mode: Mode, baseline: &[Baseline]) -> Result<Tally, Box<dyn Error>> {
    let scratch = file.clear_scratch()?;
    let mut tally = Tally::new(file.name(), mode);
    let Some(session) = Session::new(file, (mode == Mode::Memory).then(|| tables_directory(scratch))).await? else {
        return Ok(tally);
    };
    let mut runner = runner(session);
    for (record, baseline) in parse_file(&file.path)?.into_iter().zip(baseline) {
        let Some((location, text)) = sql(&record).map(|(location, text)| (location.clone(), text.to_owned())) else {
            runner.apply_record(record).await;
            continue;
        };
        let text = if mode == Mode::Format { rewrite(&text) } else { text };
        let output = runner.apply_record(with_sql(record.clone(), &text)).await;
        if matches!(output, RecordOutput::Nothing) && baseline.is_expected {
            continue;
        }
        tally.records = tally.records.saturating_add(1);
        if !baseline.is_expected {
            tally.not_applicable = tally.not_applicable.saturating_add(1);
            continue;
        }
        count(&mut tally, &location, &text, compare(&record, &text, &baseline.output, &output));
    }
    Ok(tally)
}

fn count(tally: &mut Tally, location: &Location, text: &str, verdict: Verdict) {
    let counter = match (verdict, known_reason(&tally.file, tally.mode, location.line())) {
        (Verdict::Equal, None) => &mut tally.equal,
        (Verdict::Equal, Some(reason)) if reason.starts_with(SOMETIMES) => &mut tally.equal,
        (Verdict::Plan { same: true }, _) => &mut tally.same_plans,
        (Verdict::Plan { same: false }, _) => &mut tally.other_plans,
        (Verdict::Different(_), Some(_)) => &mut tally.known,
        (Verdict::Panic, _) => return report(tally, location, text, PANIC),
        (Verdict::Different(difference), None) => return report(tally, location, text, &difference),
        (Verdict::Equal, Some(_)) => return report(tally, location, text, "it is equal, though known.txt says that it differs"),
    };
    *counter = counter.saturating_add(1);
}

fn report(tally: &mut Tally, location: &Location, text: &str, difference: &str) {
    let (file, line, mode) = (&tally.file, location.line(), tally.mode.name());
    let included = if location.file().ends_with(file.as_str()) { String::new() } else { format!(" ({})", location.file()) };
    tally.differences.push(format!("{mode} {file}:{line}{included}\n  {}\n  {difference}", text.trim().replace('\n', "\n  ")));
}

fn runner(session: Session) -> Runner<Session, impl MakeConnection<Conn = Session>> {
    let mut session = Some(session);
    // A file of the suite speaks over one connection.
    let mut runner = Runner::new(move || {
        let session = session.take().ok_or_else(|| datafusion::error::DataFusionError::Internal("a second connection".to_owned()));
        async move { session }
    });
    runner.add_label("Datafusion");
    runner.with_column_validator(strict_column_validator);
    runner.with_normalizer(value_normalizer);
    runner.with_validator(df_value_validator);
    runner
}

/// Tables live beside what the file writes, out of its way.
fn tables_directory(scratch: PathBuf) -> PathBuf {
    let directory = scratch.with_extension("tables");
    // What is left from another run would be found by nobody; a failure shows when the directory is used.
    let _ = fs::remove_dir_all(&directory);
    directory
}

fn sql(record: &Record<DFColumnType>) -> Option<(&Location, &str)> {
    match record {
        Record::Statement { loc, sql, .. } | Record::Query { loc, sql, .. } | Record::Let { loc, sql, .. } => Some((loc, sql)),
        _ => None,
    }
}

fn with_sql(mut record: Record<DFColumnType>, text: &str) -> Record<DFColumnType> {
    if let Record::Statement { sql, .. } | Record::Query { sql, .. } | Record::Let { sql, .. } = &mut record {
        text.clone_into(sql);
    }
    record
}
