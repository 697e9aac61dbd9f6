//! Run-time errors of scripts without their position.

use crate::answer::ThrownError;
use crate::budget::ExceededLimit;
use crate::call::redaction;
use crate::standard::shortened_text;
use crate::syntax::rename;
use crate::value::limits::{ARRAY, MAP, max_text};
use rhai::{EvalAltResult, Position};

/// Describes a run-time error without its position, which is not shown to clients.
pub fn summary_of_run(error: &EvalAltResult) -> String {
    lower_first(&message_of(error.unwrap_inner()))
}

/// Returns a text with its first letter in lower case.
pub fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// Describes a run-time error with its details.
pub fn message_of(error: &EvalAltResult) -> String {
    match error {
        EvalAltResult::ErrorTerminated(token, _) => {
            token.read_lock::<ExceededLimit>().map_or("was ended".into(), |exceeded| exceeded.to_string())
        }
        EvalAltResult::ErrorRuntime(value, _) => match value.read_lock::<ThrownError>() {
            Some(thrown) => thrown.rejection.message.clone(),
            None => shown(&shortened_text(value, 4 * MAX_SHOWN)),
        },
        EvalAltResult::ErrorFunctionNotFound(signature, _) => match operands(signature) {
            Some((operator, [first, second])) => {
                format!(
                    "`{operator}` cannot be applied to {} and {}",
                    with_article(first),
                    with_article(second)
                )
            }
            None => shown(&without_place(
                &EvalAltResult::ErrorFunctionNotFound(in_words(signature), Position::NONE).to_string(),
            )),
        },
        EvalAltResult::ErrorMismatchDataType(expected, given, _) if expected == "bool" => {
            format!("invalid condition: expected true or false, got {}", kind_in_words(given))
        }
        EvalAltResult::ErrorDataTooLarge(what, _) => too_large(what),
        EvalAltResult::ErrorDotExpr(text, _) if let Some(message) = unknown_property(text) => shown(&message),
        EvalAltResult::ErrorDotExpr(..)
        | EvalAltResult::ErrorIndexingType(..)
        | EvalAltResult::ErrorMismatchDataType(..) => shown(&with_kinds(&without_place(&error.to_string()))),
        // The caller adds the position and the file.
        other => shown(&without_place(&other.to_string())),
    }
}

/// Describes a value that exceeded a limit of the interpreter.
fn too_large(what: &str) -> String {
    match what {
        "Length of string" => {
            format!("the text of a value exceeded its limit of {} MB (server.max_text_mb)", max_text() >> 20)
        }
        "Size of array/BLOB" => format!("an array or blob exceeded its limit of {} elements", ARRAY),
        "Size of object map" => format!("a map exceeded its limit of {} keys", MAP),
        other => format!("{other} too large"),
    }
}

/// Describes the use of a property that values of a kind do not have.
fn unknown_property(text: &str) -> Option<String> {
    let rest =
        text.strip_prefix("Unknown property '").or_else(|| text.strip_prefix("No writable property '"))?;
    let (name, rest) = rest.split_once("' - a ")?;
    let (access, rest) = rest.split_once(" is not registered for type '")?;
    let (name, kind) = (rename::as_written(name), with_article(kind_in_words(rest.split('\'').next()?)));
    match access {
        "getter" => Some(format!("unknown property `{name}` of {kind}")),
        "setter" => Some(format!("cannot set the property `{name}` of {kind}")),
        _ => None,
    }
}

/// Returns the operator and the kinds of its two values, if a missing function is an operator.
pub fn operands(signature: &str) -> Option<(&str, [&str; 2])> {
    const OPERATORS: [&str; 11] = ["+", "-", "*", "/", "%", "**", "&", "|", "^", "<<", ">>"];
    let (operator, kinds) = signature.split_once(" (")?;
    let (first, second) = kinds.strip_suffix(')')?.split_once(", ")?;
    OPERATORS.contains(&operator).then(|| (operator, [first, second].map(kind_in_words)))
}

fn with_article(kind: &str) -> String {
    match kind {
        "()" => kind.to_owned(),
        _ if kind.starts_with(['a', 'e', 'i', 'o', 'u']) => format!("an {kind}"),
        _ => format!("a {kind}"),
    }
}

/// Returns the signature of a missing function with the kinds that scripts use: `keep_last (array, string)`.
fn in_words(signature: &str) -> String {
    let Some((name, kinds)) = signature.split_once(" (") else { return signature.to_owned() };
    let Some(kinds) = kinds.strip_suffix(')') else { return signature.to_owned() };
    let kinds: Vec<&str> = kinds.split(", ").map(kind_in_words).collect();
    format!("{name} ({})", kinds.join(", "))
}

/// Replaces the types of the interpreter in a text by the kinds that scripts use.
fn with_kinds(text: &str) -> String {
    let text = text.replace("&str | ImmutableString | String", "string");
    let text = ["core::ops::range::RangeInclusive<i64>", "core::ops::range::Range<i64>"]
        .iter()
        .fold(text, |text, range| text.replace(range, "range"));
    let words = text.split_inclusive(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let words = words.map(|word| {
        let name = word.trim_end_matches(|letter: char| !letter.is_alphanumeric() && letter != '_');
        format!("{}{}", kind_in_words(name), &word[name.len()..])
    });
    words.collect()
}

/// Returns the kind that scripts use for a type of the interpreter.
fn kind_in_words(kind: &str) -> &str {
    match kind {
        "&str | ImmutableString | String" | "&str" | "ImmutableString" | "String" => "string",
        "i64" => "integer",
        "f64" => "float",
        "Fn" => "function",
        other if other.contains("ops::range::Range") => "range",
        other if other.ends_with("handle::List") => "list",
        other if other.ends_with("handle::Map") => "map",
        other => other,
    }
}

/// The maximum length of a shown message, in characters.
const MAX_SHOWN: usize = 2_000;

/// Redacts a message, then truncates it: truncating first could leave part of a secret.
fn shown(message: &str) -> String {
    redaction::redacted(message).chars().take(MAX_SHOWN).collect()
}

/// Returns Rhai's text without its position, which names files of the operator; a caught error may be shown to
/// anybody.
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
