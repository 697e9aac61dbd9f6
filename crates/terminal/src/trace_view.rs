//! A request as people read it: its steps, what each cost, what it changed.

use crate::output::{Paint, clean, table};
use valvehouse_core::text::optional;
use valvehouse_json::Json;

/// The number of changed values of one step that are shown.
const SHOWN: usize = 10;

/// All of a request.
pub fn shown(trace: &Json, paint: Paint) -> String {
    format!("{}{}", heading(trace, paint), opened(trace, paint))
}

/// The steps of a request with their changes, and the lines and events of scripts: a line each behind a line feed.
pub fn opened(trace: &Json, paint: Paint) -> String {
    steps(trace, paint, |step| changes(step, paint))
}

/// The same without what it changed.
pub fn costs(trace: &Json, paint: Paint) -> String {
    steps(trace, paint, |_| String::new())
}

fn steps(trace: &Json, paint: Paint, behind: impl Fn(&Json) -> String) -> String {
    let steps = trace.list("steps");
    let rows: Vec<Vec<String>> = steps.iter().map(|step| row(step, paint)).collect();
    let mut text = String::new();
    let under = table(&rows);
    for (line, step) in under.lines().zip(&steps) {
        text.push_str(&format!("\n  {line}"));
        text.push_str(&behind(step));
    }
    for line in trace.list("lines") {
        let line_text = line.text("text").map_or_else(|| "…".to_owned(), |line_text| clean(&line_text));
        text.push_str(&format!("\n  {} {}: {line_text}", paint.dim("log"), word(&line, "plugin")));
    }
    for event in trace.list("events") {
        let event_text = match event.get("event") {
            Some(whole @ Json::Object(_)) => clean(&whole.to_string()),
            _ => word(&event, "type"),
        };
        text.push_str(&format!("\n  {} {}: {event_text}", paint.dim("event"), word(&event, "plugin")));
    }
    text
}

/// The request and its outcome, in a line.
fn heading(trace: &Json, paint: Paint) -> String {
    let user = word(trace, "user");
    let parts = [
        paint.bold(&word(trace, "id")),
        word(trace, "endpoint"),
        word(trace, "model"),
        if user.is_empty() { user } else { format!("for {user}") },
        standing(trace, paint),
        format!("{} ms", number(trace, "took_ms")),
    ];
    let line: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    match trace.text("error") {
        Some(error) => format!("{}\n  {}", line.join("  "), paint.red(&clean(&error))),
        None => line.join("  "),
    }
}

/// The state of a request, in a word or its status.
pub fn standing(trace: &Json, paint: Paint) -> String {
    let is = |key: &str| trace.get(key).and_then(|value| value.as_bool()).unwrap_or(false);
    let status = trace.get("status").and_then(|status| status.as_i64()).unwrap_or(0);
    match (is("running"), is("whole"), status) {
        (true, ..) => paint.yellow("running"),
        (false, false, _) => paint.red("client gone"),
        (_, true, 0) => paint.red("failed"),
        (.., 0..400) if trace.text("error").is_none() => paint.green(&status.to_string()),
        _ => paint.red(&status.to_string()),
    }
}

fn row(step: &Json, paint: Paint) -> Vec<String> {
    let count = |key: &str| step.get(key).and_then(|value| value.as_i64()).unwrap_or(0);
    let outcome = word(step, "outcome");
    let outcome = match outcome.as_str() {
        "continue" | "ended" => paint.green(&outcome),
        "skip" | "running" | "ignored" | "breaker_open" | "paused" => paint.yellow(&outcome),
        _ => paint.red(&outcome),
    };
    let calls = if count("calls") > 1 { format!(" ×{}", count("calls")) } else { String::new() };
    let mut notes = Vec::new();
    if count("operations") > 0 {
        notes.push(format!("{} operations, {} KB", count("operations"), (count("memory") + 1_023) / 1_024));
    }
    // Less is what others needed of the lane, not what a script waited for.
    if count("waited_us") >= 1_000 {
        notes.push(format!("waited {} ms", ms(count("waited_us"))));
    }
    if count("first_us") > 0 {
        notes.push(format!("first chunk after {} ms", ms(count("first_us"))));
    }
    if step.get("prompt_tokens").is_some_and(|tokens| !tokens.is_null()) {
        notes.push(format!("{} + {} tokens", count("prompt_tokens"), count("completion_tokens")));
    }
    if let Some(cause) = step.text("cause") {
        notes.push(paint.red(&clean(&cause).replace('\n', " ")));
    }
    vec![
        word(step, "hook"),
        format!("{}{calls}", paint.bold(&word(step, "name"))),
        outcome,
        format!("{} ms", ms(count("took_us"))),
        notes.join("; "),
    ]
}

fn changes(step: &Json, paint: Paint) -> String {
    let values = step.list("values");
    let all: Vec<Json> = values.iter().flat_map(|value| value.list("diff")).collect();
    difference(&all, paint)
}

/// The values that came and went, a line each.
pub fn difference(changes: &[Json], paint: Paint) -> String {
    let mut text = String::new();
    for change in changes.iter().take(SHOWN) {
        text.push_str(&format!("\n      {}", paint.dim(&clean(&word(change, "path")))));
        for (key, sign) in [("before", "-"), ("after", "+")] {
            if let Some(value) = change.get(key) {
                let line = clean(&format!("{sign} {value}"));
                let line = if sign == "-" { paint.red(&line) } else { paint.green(&line) };
                text.push_str(&format!("\n        {line}"));
            }
        }
    }
    if changes.len() > SHOWN {
        text.push_str(&format!("\n      … and {} more", changes.len() - SHOWN));
    }
    text
}

/// A text of a value, fit for a terminal.
pub fn word(value: &Json, key: &str) -> String {
    clean(&value.text_or_empty(key))
}

/// A number of a value as it is written.
pub fn number(value: &Json, key: &str) -> String {
    optional(value.given(key), |number| number.to_string())
}

fn ms(microseconds: i64) -> String {
    format!("{:.2}", microseconds as f64 / 1_000.0)
}
