//! The source of lines: a terminal with line editing, or stdin.

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use valvehouse_dialect::syntax::spans::is_whole;
use valvehouse_script_std::reference::{Function, functions};
use valvehouse_terminal::{CommandError, StdinLines};

/// The maximum number of lines in the history file.
const REMEMBERED: usize = 1_000;

/// The result of reading a line.
pub(super) enum TypedLine {
    /// One line, or several lines that form one statement.
    Line(String),
    /// The line was discarded with Ctrl-C.
    Cleared,
}

/// The source of lines.
pub(super) enum Input {
    Terminal(Box<Terminal>),
    Piped(StdinLines),
}

impl Input {
    pub(super) fn open(history: PathBuf) -> Result<Self, CommandError> {
        if !io::stdin().is_terminal() {
            return Ok(Self::Piped(StdinLines::of_stdin()));
        }
        Terminal::open(history).map(|terminal| Self::Terminal(Box::new(terminal)))
    }

    pub(super) fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// Returns the next line; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<TypedLine>, CommandError> {
        match self {
            Self::Terminal(terminal) => terminal.next().await,
            Self::Piped(lines) => whole(lines).await,
        }
    }
}

/// Returns a line together with the following ones that complete its statement.
async fn whole(lines: &mut StdinLines) -> Result<Option<TypedLine>, CommandError> {
    let Some(mut text) = lines.next().await? else { return Ok(None) };
    while !is_finished(&text) {
        // An incomplete text is reported when it is parsed.
        let Some(line) = lines.next().await? else { break };
        text.push('\n');
        text.push_str(&line);
    }
    Ok(Some(TypedLine::Line(text)))
}

/// Returns `true` if a text is complete. A command is always one line.
fn is_finished(text: &str) -> bool {
    text.trim_start().starts_with(':') || is_whole(text)
}

/// A terminal with its history.
pub(super) struct Terminal {
    /// `None` while a line is read.
    editor: Option<Editor<Help, FileHistory>>,
    history: PathBuf,
}

impl Terminal {
    fn open(history: PathBuf) -> Result<Self, CommandError> {
        let config = Config::builder().history_ignore_space(true).max_history_size(REMEMBERED);
        let config = config.map(|config| config.auto_add_history(true).build()).map_err(unusable)?;
        let mut editor = Editor::with_config(config).map_err(unusable)?;
        editor.set_helper(Some(Help::new()));
        // The file does not exist before the first session.
        let _ = editor.load_history(&history);
        Ok(Self { editor: Some(editor), history })
    }

    async fn next(&mut self) -> Result<Option<TypedLine>, CommandError> {
        let Some(mut editor) = self.editor.take() else { return Ok(None) };
        let history = self.history.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let line = editor.readline("> ");
            remember(&mut editor, &history);
            (editor, line)
        });
        let (editor, line) =
            reading.await.map_err(|error| CommandError::data(format!("cannot read a line: {error}")))?;
        self.editor = Some(editor);
        match line {
            Ok(line) => Ok(Some(TypedLine::Line(line))),
            Err(ReadlineError::Interrupted) => Ok(Some(TypedLine::Cleared)),
            Err(ReadlineError::Eof) => Ok(None),
            Err(error) => Err(unusable(error)),
        }
    }
}

/// Appends a line to the history file. A session works without it.
fn remember(editor: &mut Editor<Help, FileHistory>, history: &Path) {
    if let Err(error) = editor.append_history(history) {
        tracing::debug!("cannot write the history to {}: {error}", history.display());
    }
}

fn unusable(error: ReadlineError) -> CommandError {
    CommandError::data(format!("cannot read a line: {error}"))
}

/// The completion while a line is typed.
struct Help {
    /// The names that can be completed.
    names: Vec<String>,
}

impl Help {
    fn new() -> Self {
        let functions = functions().iter().filter(|function| !function.is_method).map(Function::path);
        let given = ["body", "valves", "state", "__user__", "__metadata__", "__model__"].map(str::to_owned);
        let commands = super::commands::NAMES.iter().map(|name| format!(":{name}"));
        Self { names: functions.chain(given).chain(commands).collect() }
    }
}

impl Helper for Help {}
impl Highlighter for Help {}
impl Hinter for Help {
    type Hint = String;
}

impl Validator for Help {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match is_finished(context.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Completer for Help {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
        let begins = line[..at].trim_end_matches(is_part).len();
        let word = &line[begins..at];
        let known = self.names.iter().filter(|name| !word.is_empty() && name.starts_with(word));
        Ok((begins, known.cloned().collect()))
    }
}
