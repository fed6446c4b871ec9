//! The prompt: lines are edited and coloured as datafusion-cli does it, and run as those of a script.

use datafusion::config::Dialect;
use datafusion::prelude::SessionContext;
use datafusion_cli::helper::CliHelper;
use datafusion_cli::print_options::PrintOptions;
use rustyline::Editor;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use tokio::signal;

use crate::error::{Error, Result};
use crate::output;
use crate::script::{self, Next};

/// What has been typed, in the folder of the session, where datafusion-cli has it.
const HISTORY: &str = ".history";

/// Runs what is typed until the end of the input.
pub(crate) async fn run(ctx: &SessionContext, print: &mut PrintOptions) -> Result<()> {
    let mut editor = Editor::<CliHelper, DefaultHistory>::new().map_err(failed)?;
    editor.set_helper(Some(CliHelper::new(&dialect(ctx), print.color)));
    // The first time there is none.
    let _ = editor.load_history(HISTORY);
    let ended = talk(ctx, &mut editor, print).await;
    let saved = editor.save_history(HISTORY).map_err(failed);
    ended.and(saved)
}

async fn talk(ctx: &SessionContext, editor: &mut Editor<CliHelper, DefaultHistory>, print: &mut PrintOptions) -> Result<()> {
    while let Some(text) = read(editor)? {
        editor.add_history_entry(text.trim_end()).map_err(failed)?;
        tokio::select! {
            ran = run_text(ctx, &text, print) => match ran {
                Ok(Next::Go) => {}
                Ok(Next::Stop) => break,
                Err(Error::Failed(why)) => output::tell(format_args!("{why}")),
                Err(error) => return Err(error),
            },
            _ = signal::ctrl_c() => output::line(format_args!("^C"))?,
        }
        if let Some(helper) = editor.helper_mut() {
            // A statement may have changed it.
            helper.set_dialect(&dialect(ctx));
        }
    }
    Ok(())
}

/// The next statements or command; `None` at the end.
fn read(editor: &mut Editor<CliHelper, DefaultHistory>) -> Result<Option<String>> {
    loop {
        match editor.readline("> ") {
            Ok(text) => return Ok(Some(text)),
            Err(ReadlineError::Interrupted) => {
                output::line(format_args!("^C"))?;
                if let Some(helper) = editor.helper() {
                    helper.reset_hint();
                }
            }
            Err(ReadlineError::Eof) => {
                output::line(format_args!("\\q"))?;
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

async fn run_text(ctx: &SessionContext, text: &str, print: &mut PrintOptions) -> Result<Next> {
    match text.strip_prefix('\\') {
        Some(command) => script::run_command(ctx, command, print).await,
        None => script::run_statements(ctx, text, print).await.map(|()| Next::Go),
    }
}

fn dialect(ctx: &SessionContext) -> Dialect {
    ctx.state().config_options().sql_parser.dialect
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
fn failed(error: ReadlineError) -> Error {
    Error::failed(format!("the prompt: {error}"))
}
