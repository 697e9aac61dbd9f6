//! Requests, shown as lines that can be opened to show their steps.

use super::options::StepDetail;
use super::view::{View, change_in_short, in_short};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use valvehouse_core::text::optional;
use valvehouse_core::trace::{StepRecord, Trace};
use valvehouse_json::Json;
use valvehouse_script::diagnostic::ErrorPlace;
use valvehouse_terminal::trace_view::{opened, standing, word};
use valvehouse_terminal::{Paint, clean, files};

/// The maximum number of requests that can be opened.
const KEPT: usize = 100;
/// The maximum number of characters shown of a line with an error.
const MAX_LINE: usize = 160;

/// The requests of a session, numbered in the order in which they ended.
#[derive(Default)]
pub(super) struct Requests {
    ended: usize,
    kept: VecDeque<(usize, Arc<Trace>)>,
    /// The request or replay that was shown last.
    latest: Option<(String, Arc<Trace>)>,
}

impl Requests {
    /// Adds a request that has ended, and returns its number.
    pub(super) fn add(&mut self, trace: Arc<Trace>) -> usize {
        self.ended += 1;
        self.latest = Some((format!("#{}", self.ended), trace.clone()));
        self.kept.push_back((self.ended, trace));
        if self.kept.len() > KEPT {
            self.kept.pop_front();
        }
        self.ended
    }

    /// Sets the last replay.
    pub(super) fn again(&mut self, number: usize, trace: Arc<Trace>) {
        self.latest = Some((format!("replay of #{number}"), trace));
    }

    /// Returns the last request that can be replayed.
    pub(super) fn last(&self) -> Option<(usize, Arc<Trace>)> {
        self.kept.iter().rev().find(|(_, trace)| trace.body().is_some()).cloned()
    }

    /// Opens the request with this number; the one shown last without a number.
    pub(super) fn open(&self, number: Option<usize>, view: &View) {
        let found = match number {
            None => self.latest.clone(),
            Some(number) => {
                let found = self.kept.iter().find(|(own, _)| *own == number);
                found.map(|(number, trace)| (format!("#{number}"), trace.clone()))
            }
        };
        match (found, number) {
            (Some((name, trace)), _) => {
                let (detail, paint) = (trace.detail(), view.paint());
                view.note(&format!("{}{}", paint.bold(&name), opened(&detail, paint)));
            }
            (None, None) => view.note("no request yet"),
            (None, Some(number)) => view.note(&format!("cannot open request #{number}: unknown number")),
        }
    }
}

/// Shows a request that has ended.
pub(super) fn show(number: usize, trace: &Trace, open: StepDetail, view: &View) {
    let detail = trace.detail();
    view.event(
        |paint| in_lines(number, trace, &detail, open, paint),
        || as_json(number, trace, &detail, open),
    );
}

fn in_lines(number: usize, trace: &Trace, detail: &Json, open: StepDetail, paint: Paint) -> String {
    let records = trace.records();
    let parts = [
        paint.bold(&format!("#{number}")),
        word(detail, "endpoint"),
        word(detail, "model"),
        standing(detail, paint),
        took(detail),
        optional(tokens(&records), |(prompt, completion)| format!("{prompt}+{completion} tokens")),
        bar(&records, paint),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let mut text = parts.join("  ");
    if let Some(error) =
        trace.error().filter(|error| open == StepDetail::Never || !is_explained(error, &records))
    {
        text.push_str(&format!("\n         {}", paint.red(&near(&error).replace('\n', " "))));
    }
    match open {
        StepDetail::Never => {}
        StepDetail::Always => text.push_str(&opened(detail, paint)),
        StepDetail::Changed => {
            let steps = detail.list("steps");
            for (record, step) in records.iter().zip(&steps).filter(|(record, _)| is_notable(record)) {
                text.push_str(&format!("\n         {}", in_a_line(record, step, paint)));
            }
            text.push_str(&script_output(trace, paint));
        }
    }
    text
}

/// Returns the log lines and the events of scripts.
fn script_output(trace: &Trace, paint: Paint) -> String {
    let mut text = String::new();
    for line in trace.lines() {
        let line_text = clean(&line.text.unwrap_or_default()).replace('\n', "\n           ");
        text.push_str(&format!("\n         {}: {line_text}", paint.bold(&clean(&line.plugin))));
    }
    for emitted in trace.events() {
        let event = emitted.event.map_or_else(|| clean(&emitted.kind), |event| in_short(&event));
        text.push_str(&format!("\n         {} emits {event}", paint.bold(&clean(&emitted.plugin))));
    }
    text
}

fn took(detail: &Json) -> String {
    let ms = detail.get("took_ms").and_then(|ms| ms.as_f64()).unwrap_or(0.0);
    if ms < 10.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

/// Returns the total prompt and completion tokens of all model calls, if providers report them.
fn tokens(records: &[StepRecord]) -> Option<(u64, u64)> {
    let all = records.iter().filter_map(|record| record.details().tokens);
    all.map(|tokens| (tokens.prompt, tokens.completion)).reduce(|a, b| (a.0 + b.0, a.1 + b.1))
}

/// Returns a symbol for each step, in order.
fn bar(records: &[StepRecord], paint: Paint) -> String {
    let sign = |record: &StepRecord| match sign(record) {
        '.' => paint.dim("."),
        '!' => paint.red("!"),
        sign @ ('~' | '>' | '?') => paint.yellow(&sign.to_string()),
        sign => sign.to_string(),
    };
    records.iter().map(sign).collect()
}

fn sign(record: &StepRecord) -> char {
    match (record.hook, record.word) {
        ("model", "ended") => 'M',
        ("tool", "ended") => 'T',
        (_, "continue") if record.details().changed > 0 => '~',
        (_, "continue") => '.',
        (_, "skip") => '>',
        (_, "ignored" | "breaker_open" | "paused") => '?',
        _ => '!',
    }
}

/// Returns `true` if a step is shown in a line of its own.
fn is_notable(record: &StepRecord) -> bool {
    !matches!(sign(record), '.' | 'M' | 'T')
}

/// Returns the change of a step, or the reason why it ended the request.
fn in_a_line(record: &StepRecord, step: &Json, paint: Paint) -> String {
    let mut parts = vec![format!("{} {}", paint.bold(&clean(&record.name)), record.hook)];
    match record.word {
        "continue" | "ended" => {}
        word @ ("skip" | "ignored" | "breaker_open" | "paused") => parts.push(paint.yellow(word)),
        word => parts.push(paint.red(word)),
    }
    if record.calls > 1 {
        parts.push(format!("changed {} of {}", record.details().changed, record.calls));
    }
    let values = step.list("values");
    let changes = values.iter().map(|value| value.list("diff"));
    // Of several values, the first changed one is shown.
    if let Some(changes) = changes.into_iter().find(|changes| !changes.is_empty()) {
        parts.push(change_in_short(&changes[0], paint));
        if changes.len() > 1 {
            parts.push(paint.dim(&format!("(+{} more)", changes.len() - 1)));
        }
    }
    if let Some(cause) = &record.details().cause {
        parts.push(paint.red(&near(cause)).replace('\n', "\n           "));
        parts.extend(excerpt(cause).map(|lines| format!("\n{lines}")));
    }
    parts.join("  ")
}

/// Returns `true` if a shown step includes the error of the request.
fn is_explained(error: &str, records: &[StepRecord]) -> bool {
    let mut causes = records
        .iter()
        .filter(|record| is_notable(record))
        .filter_map(|record| record.details().cause.as_ref());
    causes.any(|cause| error.contains(cause.as_str()))
}

/// Returns the line that a plugin error refers to, if it is unchanged in the file; `None` if the error names
/// none.
fn excerpt(cause: &str) -> Option<String> {
    let broke = ErrorPlace::of(cause)?;
    let text = files::read_text(broke.path, files::MAX_INPUT).ok()?;
    let excerpt = clean(broke.excerpt(&text)?).replace('\t', " ");
    let (line, column) = (broke.line, broke.column);
    if !(1..=MAX_LINE).contains(&column) || column > excerpt.chars().count() + 1 {
        return None;
    }
    let (number, gap) = (line.to_string(), " ".repeat(column - 1));
    let margin = " ".repeat(number.len());
    let shown: String = excerpt.chars().take(MAX_LINE).collect();
    Some(format!("         {margin} |\n         {number} | {shown}\n         {margin} | {gap}^"))
}

/// Returns the text of an error with file paths relative to the current folder.
pub(super) fn near(cause: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let here = if here == Path::new("/") { String::new() } else { format!("{}/", here.display()) };
    let cause = clean(cause);
    if here.is_empty() { cause } else { cause.replace(&here, "") }
}

fn as_json(number: usize, trace: &Trace, detail: &Json, open: StepDetail) -> Json {
    let records = trace.records();
    let steps = detail.list("steps");
    let shown: Vec<Json> = records
        .iter()
        .zip(steps)
        .filter(|(record, _)| {
            open == StepDetail::Always || (open == StepDetail::Changed && is_notable(record))
        })
        .map(|(_, step)| step)
        .collect();
    let summary = trace.summary();
    let others = [
        ("event", "request".into()),
        ("number", number.into()),
        (
            "tokens",
            tokens(&records).map(|(prompt, completion)| vec![Json::from(prompt), completion.into()]).into(),
        ),
        ("bar", bar(&records, valvehouse_terminal::PLAIN).into()),
        ("shown", shown.into()),
        ("lines", detail.field("lines")),
    ];
    let all = Json::from(others);
    for (name, value) in summary.entries() {
        all.put(&name, value);
    }
    all
}
