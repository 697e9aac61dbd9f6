//! The lines that scripts print.

use crate::call;
use crate::call::redaction::redacted;
use rhai::Position;
use std::borrow::Cow;

/// The maximum number of lines that one call may print.
const PRINTED_LINES: u32 = 100;
/// The maximum length of a printed line, in characters.
const PRINTED_CHARACTERS: usize = 4_000;
/// The number of bytes that contain a line of maximum length and show that it is longer.
pub const PRINTED_BYTES: usize = 64 * 1024;

/// Warns about the code at a position, once in a call.
pub(crate) fn warn_at(at: Position, message: &str) {
    if call::note_warning(at) {
        let line = at.line().map_or_else(String::new, |line| format!("line {line}: "));
        log(tracing::Level::WARN, &format!("{line}{message}"));
    }
}

/// Writes one line of a script to the log, shortened if it is too long. A step that runs again after a pause does
/// not repeat its lines.
pub fn log(level: tracing::Level, text: &str) {
    if call::was_reported() {
        return;
    }
    let printed = call::count_line();
    if printed > PRINTED_LINES + 1 {
        return;
    }
    let plugin = call::plugin();
    let text = &*redacted(text);
    let text: Cow<'_, str> = if printed > PRINTED_LINES {
        format!("… this call exceeded its limit of {PRINTED_LINES} lines; further lines are dropped").into()
    } else {
        match text.char_indices().nth(PRINTED_CHARACTERS) {
            Some((cut, _)) => format!("{}… ({} bytes)", &text[..cut], text.len()).into(),
            None => text.into(),
        }
    };
    call::with(|call| {
        if let Some((call, trace)) = call.and_then(|call| Some((call, call.turn.trace()?))) {
            let word = match level {
                tracing::Level::ERROR => "error",
                tracing::Level::WARN => "warn",
                tracing::Level::DEBUG => "debug",
                _ => "info",
            };
            trace.line(&call.caller.plugin, word, &text);
        }
    });
    match level {
        tracing::Level::ERROR => tracing::error!(target: "script", plugin, "{text}"),
        tracing::Level::WARN => tracing::warn!(target: "script", plugin, "{text}"),
        tracing::Level::DEBUG => tracing::debug!(target: "script", plugin, "{text}"),
        _ => tracing::info!(target: "script", plugin, "{text}"),
    }
}
