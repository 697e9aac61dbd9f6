//! What went wrong while a script ran, without a word of where.

use super::diagnostic::lower_first;
use super::foreign;
use crate::budget::Exceeded;
use crate::standard::shortened_text;
use crate::thrown::Thrown;
use crate::{redaction, rename};
use rhai::EvalAltResult;

/// What went wrong while a script ran, without saying where: for whoever must not know.
pub(crate) fn summary_of_run(error: &EvalAltResult) -> String {
    lower_first(&message_of(error.unwrap_inner()))
}

pub(super) fn message_of(error: &EvalAltResult) -> String {
    match error {
        EvalAltResult::ErrorTerminated(token, _) => {
            token.read_lock::<Exceeded>().map_or("was ended".into(), |exceeded| exceeded.to_string())
        }
        EvalAltResult::ErrorRuntime(value, _) => match value.read_lock::<Thrown>() {
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
