//! What went wrong while a script ran.

use super::codes::Code;
use super::diagnostic::{Problem, lower_first};
use super::foreign;
use super::place::position_at;
use crate::sources::{Source, Sources};
use crate::standard::shortened_text;
use crate::{redaction, rename};
use rhai::{EvalAltResult, Position};
use std::path::Path;

/// An error while a script ran, told for the log: message, function, file:line:column, the calls.
///
/// Functions of the host are not told where they are called: the source is asked for them.
pub(crate) fn of_run(sources: &Sources, function: &str, error: &EvalAltResult) -> String {
    let root = error.unwrap_inner();
    let message = message_of(root);
    let Trail { source, position, calls } = trail(sources, function, error, &message);
    let mut text = format!("{}: {}", place(&source.path, position), lower_first(&message));
    let function = if function.starts_with("anon$") { "a closure" } else { function };
    text.push_str(&format!(", in {}", rename::as_written(function)));
    if let Some(help) = help_for_run(root) {
        text.push_str(&format!(" (help: {help})"));
    }
    if !calls.is_empty() {
        text.push_str(&format!(" ({})", calls.join(", ")));
    }
    text
}

/// The same as a problem at its place, with a message of the caller's.
pub(crate) fn at_run(
    code: Code,
    id: &str,
    sources: &Sources,
    function: &str,
    error: &EvalAltResult,
    message: String,
) -> Problem {
    let Trail { source, position, calls } = trail(sources, function, error, &message);
    let message = if calls.is_empty() { message } else { format!("{message} ({})", calls.join(", ")) };
    let problem = Problem::new(code, id, &source.path, message).at(&source.text, position);
    match help_for_run(error.unwrap_inner()) {
        Some(help) => problem.help(help),
        None => problem,
    }
}

/// Where a run went wrong, and the calls that led there, the outermost first.
struct Trail<'a> {
    source: &'a Source,
    position: Position,
    calls: Vec<String>,
}

fn trail<'a>(sources: &'a Sources, function: &str, error: &EvalAltResult, message: &str) -> Trail<'a> {
    let mut frame = error;
    let mut source = sources.of(function, "", sources.script());
    let mut calls = Vec::new();
    while let EvalAltResult::ErrorInFunctionCall(name, given, inner, position) = frame {
        calls.push(format!("{} called at {}", rename::as_written(name), place(&source.path, *position)));
        source = sources.of(name, given, source);
        frame = inner;
    }
    let position = match error.unwrap_inner().position() {
        Position::NONE => only_call(&source.text, message).unwrap_or(Position::NONE),
        position => position,
    };
    Trail { source, position, calls }
}

/// Where `http::get` is called whose message begins with its name, when there is one place only.
fn only_call(source: &str, message: &str) -> Option<Position> {
    let name = message.split(": ").next().filter(|name| name.contains("::") && !name.contains(' '))?;
    let mut calls = source.match_indices(name);
    let (at, _) = calls.next()?;
    if calls.next().is_some() {
        return None;
    }
    position_at(source, at)
}

/// What went wrong while a script ran, without saying where: for whoever must not know.
pub(crate) fn summary_of_run(error: &EvalAltResult) -> String {
    lower_first(&message_of(error.unwrap_inner()))
}

fn message_of(error: &EvalAltResult) -> String {
    match error {
        EvalAltResult::ErrorTerminated(token, _) => token
            .read_lock::<crate::budget::Exceeded>()
            .map_or("was ended".into(), |exceeded| exceeded.to_string()),
        EvalAltResult::ErrorRuntime(value, _) => match value.read_lock::<crate::answer::Thrown>() {
            Some(thrown) => thrown.refusal.message.clone(),
            None => shown(&shortened_text(value, 4 * MAX_SHOWN)),
        },
        // The place is said by us, with the file.
        other => shown(&without_place(&other.to_string())),
    }
}

/// Characters of a message that are shown.
const MAX_SHOWN: usize = 2_000;

/// A message without secrets, then as far as anybody would read it: what is cut first shows a part of them.
fn shown(message: &str) -> String {
    redaction::redacted(message).chars().take(MAX_SHOWN).collect()
}

/// What Rhai says, without its own way to say where: that names files of the operator, and a
/// caught error may be shown to anybody.
pub(crate) fn without_place(text: &str) -> String {
    rename::as_written(cut_place(text))
}

fn cut_place(text: &str) -> &str {
    let text = text.split("\nin c").next().unwrap_or(text);
    let text = match text.rfind(" (line ") {
        Some(at) if text.ends_with(')') => &text[..at],
        _ => text,
    };
    match text.rfind(" @ '") {
        Some(at) if text.ends_with('\'') => &text[..at],
        _ => text,
    }
}

/// How to say here what is said otherwise in Python or JavaScript.
pub(crate) fn help_for_run(error: &EvalAltResult) -> Option<&'static str> {
    match error {
        EvalAltResult::ErrorFunctionNotFound(signature, _) => {
            foreign::function(signature.split(" (").next().unwrap_or_default())
        }
        EvalAltResult::ErrorDataRace(..) => Some(
            "a closure uses the variable that its chain begins with; give the start a name first: \
             `let keys = map.keys(); keys.map(|key| map[key])`",
        ),
        EvalAltResult::ErrorMismatchDataType(_, given, _) if given.contains("ops::range::Range") => {
            Some("an array that the script made is cut with `extract(start..end)`")
        }
        EvalAltResult::ErrorDotExpr(text, _) if text.ends_with("for type '()'") => {
            Some("what stands before the `.` is `()`, nothing; `?.` reads on only where there is something")
        }
        EvalAltResult::ErrorDotExpr(text, _) if text.contains("for type '()' to handle") => {
            Some("what stands before the last `.` is `()`, nothing; set it first, or use `ensure(path, #{})`")
        }
        _ => None,
    }
}

fn place(path: &Path, position: Position) -> String {
    match (position.line(), position.position()) {
        (Some(line), Some(column)) => format!("{}:{line}:{column}", path.display()),
        (Some(line), None) => format!("{}:{line}", path.display()),
        _ => path.display().to_string(),
    }
}
