//! Run-time errors of scripts.

use super::absent;
use super::codes::Code;
use super::finding::Diagnostic;
use super::position::position_at;
use super::run_hints::{self, help_for_run};
use crate::load::sources::{Source, Sources};
use rhai::{EvalAltResult, Position};
use std::path::Path;
use valvehouse_dialect::answer::{lower_first, message_of, summary_of_run};
use valvehouse_dialect::syntax::rename;

/// Formats a run-time error for the log: message, function, file:line:column, call stack.
///
/// Host functions have no call position, so it is searched in the source.
pub(crate) fn of_run(sources: &Sources, function: &str, error: &EvalAltResult) -> String {
    let root = error.unwrap_inner();
    let message = message_of(root);
    let Trail { source, position, calls } = trail(sources, function, error, &message);
    let mut text = format!("{}: {}", place(&source.path, position), lower_first(&message));
    if let Some(name) = absent::name_of(root, &source.text, position) {
        text.push_str(&format!("; `{name}` is ()"));
    }
    let function = if function.starts_with("anon$") { "a closure" } else { function };
    text.push_str(&format!(", in {}", rename::as_written(function)));
    if let Some(help) = help_for(root, &source.text) {
        text.push_str(&format!(" (help: {help})"));
    }
    if !calls.is_empty() {
        text.push_str(&format!(" ({})", calls.join(", ")));
    }
    text
}

/// Returns a run-time error as a problem at its position.
pub(crate) fn at_run(
    code: Code,
    id: &str,
    sources: &Sources,
    function: &str,
    error: &EvalAltResult,
) -> Diagnostic {
    let message = summary_of_run(error);
    let Trail { source, position, calls } = trail(sources, function, error, &message);
    let message = match absent::name_of(error.unwrap_inner(), &source.text, position) {
        Some(name) => format!("{message}; `{name}` is ()"),
        None => message,
    };
    let message = if calls.is_empty() { message } else { format!("{message} ({})", calls.join(", ")) };
    let problem = Diagnostic::new(code, id, &source.path, message).at(&source.text, position);
    match help_for(error.unwrap_inner(), &source.text) {
        Some(help) => problem.help(help),
        None => problem,
    }
}

fn help_for(error: &EvalAltResult, source: &str) -> Option<String> {
    help_for_run(error)
        .map(str::to_owned)
        .or_else(|| run_hints::fitting(error))
        .or_else(|| run_hints::call_of_parameter(error, source))
}

/// The position of a run-time error, and the calls that led to it, outermost first.
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

/// Returns the position of the function that a message begins with, such as `http::get`, if it is called only once.
fn only_call(source: &str, message: &str) -> Option<Position> {
    let name = message.split(": ").next().filter(|name| name.contains("::") && !name.contains(' '))?;
    let mut calls = source.match_indices(name);
    let (at, _) = calls.next()?;
    if calls.next().is_some() {
        return None;
    }
    position_at(source, at)
}

fn place(path: &Path, position: Position) -> String {
    match (position.line(), position.position()) {
        (Some(line), Some(column)) => format!("{}:{line}:{column}", path.display()),
        (Some(line), None) => format!("{}:{line}", path.display()),
        _ => path.display().to_string(),
    }
}
