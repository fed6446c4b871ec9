//! SQL from a file or a pipe: statement after statement, up to the first that fails.

use std::fs::File;
use std::io::{BufRead, BufReader};

use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, dialect_from_str};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use datafusion_cli::command::{Command, OutputFormat};
use datafusion_cli::exec;
use datafusion_cli::print_options::PrintOptions;

use crate::error::{Doing, Error, Result, calmed, one_line};
use crate::namespaces::named;

/// Runs the file at `path`.
pub(crate) async fn run_file(ctx: &SessionContext, path: &str, print: &mut PrintOptions) -> Result<()> {
    let file = File::open(path).doing(|| format!("cannot read '{path}'"))?;
    run(ctx, BufReader::new(file), path, print).await
}

/// Runs what `input` holds; `name` is what errors call it. Statements run as soon as their lines have come, so that a program may write
/// one, read the answer and write the next.
pub(crate) async fn run(ctx: &SessionContext, mut input: impl BufRead, name: &str, print: &mut PrintOptions) -> Result<()> {
    let (mut text, mut begins, mut number) = (String::new(), 0, 0_usize);
    let mut line = String::new();
    loop {
        line.clear();
        if input.read_line(&mut line).doing(|| format!("cannot read '{name}' after line {number}"))? == 0 {
            break;
        }
        number += 1;
        if number == 1 && line.starts_with("#!") {
            continue;
        }
        if text.trim().is_empty() {
            text.clear();
            begins = number;
            if let Some(command) = line.strip_prefix('\\') {
                match run_command(ctx, command, print).await.map_err(|error| placed(error, name, begins))? {
                    Next::Go => continue,
                    Next::Stop => return Ok(()),
                }
            }
        }
        text.push_str(&line);
        if line.trim_end().ends_with(';') && is_complete(ctx, &text) {
            run_statements(ctx, &std::mem::take(&mut text), print).await.map_err(|error| placed(error, name, begins))?;
        }
    }
    run_statements(ctx, &text, print).await.map_err(|error| placed(error, name, begins))
}

/// Runs the statements of `text`.
pub(crate) async fn run_statements(ctx: &SessionContext, text: &str, print: &PrintOptions) -> Result<()> {
    let text = named(dialect(ctx).as_ref(), text);
    calmed(async { exec::exec_from_commands(ctx, vec![text], print).await.map_err(explained) }).await
}

fn dialect(ctx: &SessionContext) -> Box<dyn Dialect> {
    // An unknown one is refused when a statement runs.
    dialect_from_str(ctx.state().config_options().sql_parser.dialect).unwrap_or_else(|| Box::new(GenericDialect {}))
}

/// Whether `text` ends with a semicolon that ends a statement: not one within a string or a comment.
fn is_complete(ctx: &SessionContext, text: &str) -> bool {
    let Ok(tokens) = Tokenizer::new(dialect(ctx).as_ref(), text).tokenize() else { return false };
    let last = tokens.iter().rev().find(|token| !matches!(token, Token::Whitespace(_)));
    last.is_some_and(|token| *token == Token::SemiColon)
}

/// Whether there is more to do.
pub(crate) enum Next {
    Go,
    Stop,
}

/// The prompt's commands, without their backslash.
pub(crate) async fn run_command(ctx: &SessionContext, text: &str, print: &mut PrintOptions) -> Result<Next> {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let unknown = || Error::failed(format!("'\\{words}' is not a command ('\\?' lists them)"));
    match words.parse::<Command>().map_err(|()| unknown())? {
        Command::Quit => return Ok(Next::Stop),
        Command::Include(Some(file)) => Box::pin(run_file(ctx, &file, print)).await?,
        Command::OutputFormat(Some(format)) => {
            let format = format.parse::<OutputFormat>().map_err(|()| unknown())?;
            calmed(async { format.execute(print).map_err(explained) }).await?;
        }
        Command::OutputFormat(None) => crate::output::line(format_args!("Output format is {:?}.", print.format))?,
        command => calmed(async { command.execute(ctx, print).await.map_err(explained) }).await?,
    }
    Ok(Next::Go)
}

/// Says where in the script it was.
fn placed(error: Error, name: &str, line: usize) -> Error {
    match error {
        Error::Failed(text) => Error::Failed(format!("{name}, line {line}: {text}")),
        other => other,
    }
}

/// The engine's error with what a person can do about it.
pub(crate) fn explained(error: DataFusionError) -> Error {
    let text = one_line(&error);
    // By its text, as the formats' writers keep nothing else of it.
    let broken_pipe = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    if text.to_lowercase().contains(&broken_pipe.to_string()) {
        return Error::Output(broken_pipe);
    }
    if let Some(file) = missing_file(&text) {
        return Error::failed(format!("there is no file '{file}'"));
    }
    // What has no name of a format before it still (see `namespaces`).
    let hint =
        if text.contains("Specify a format for TableOptions") { " (write the format's name before the option's: 'fermion.', 'alkaid.')" } else { "" };
    Error::Failed(text + hint)
}

/// The name of a table that is not there, if it can only have been meant as that of a file.
fn missing_file(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("table '")?;
    let (table, _) = rest.split_once("' not found")?;
    // It stands after the names of the catalog and the schema.
    let name = table.splitn(3, '.').nth(2)?;
    let is_file = name.contains('/') || crate::convert::is_file_name(name);
    (is_file && !name.contains("://") && !std::path::Path::new(name).exists()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_ends_with_a_semicolon_of_its_own() {
        let ctx = SessionContext::new();
        for whole in ["SELECT 1;", "SELECT ';\n';\n", "SELECT 1; -- and\n;", "SELECT 1 /* ; */ ;"] {
            assert!(is_complete(&ctx, whole), "{whole}");
        }
        for part in ["SELECT 1", "SELECT 'a;", "SELECT 1 -- one;", "SELECT 1 /* ;", "-- ;", ""] {
            assert!(!is_complete(&ctx, part), "{part}");
        }
    }

    #[test]
    fn only_names_of_files_are_missing_files() {
        let found = |table: &str| missing_file(&format!("Error during planning: table 'datafusion.public.{table}' not found")).map(str::to_owned);
        assert_eq!(found("no such.fermion").as_deref(), Some("no such.fermion"));
        assert_eq!(found("/no/such/dir/").as_deref(), Some("/no/such/dir/"));
        assert_eq!(found("nowhere"), None);
        assert_eq!(found("s3://bucket/x.parquet"), None);
    }
}
