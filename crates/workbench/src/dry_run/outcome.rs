//! The result of a dry run, as text and as JSON.

use super::options::{DryRunOptions, Print};
use super::target::{DryRunTarget, DryRunTurn};
use valvehouse_core::error::Error;
use valvehouse_core::trace::TraceGuard;
use valvehouse_json::Json;
use valvehouse_json::diff::diff;
use valvehouse_script::{Code, Diagnostic};
use valvehouse_terminal::report::{self, Broke};
use valvehouse_terminal::{CommandError, Console, Exit, clean, trace_view};

/// The outcome of a call.
pub(super) struct DryRunOutcome {
    /// One of `continue skip refused failed`.
    pub(super) word: &'static str,
    pub(super) value: Option<Json>,
    pub(super) error: Option<Error>,
}

impl DryRunOutcome {
    pub(super) fn failed(error: Error) -> Self {
        let word = if matches!(error, Error::Rejected(_)) { "refused" } else { "failed" };
        Self { word, value: None, error: Some(error) }
    }

    /// Returns the exit status. A rejection is an error; a plugin error is shown at its place in the script.
    pub(super) fn exit(self, target: &DryRunTarget, out: &Console) -> Result<Exit, CommandError> {
        match self.error {
            None => Ok(Exit::Done),
            Some(error @ Error::Rejected(_)) => Err(error.into()),
            Some(Error::Broken(failure)) => {
                let problem = problem(target, &failure.cause);
                if out.is_json() {
                    return Err(CommandError::new(Exit::Data, failure.cause));
                }
                out.note(&report::shown(&problem, out.talk()));
                Err(CommandError::new(Exit::Data, ""))
            }
            Some(error) => Err(error.into()),
        }
    }
}

/// The presentation of a value that is an independent result rather than a change of the body.
pub(super) struct ValueView<'a> {
    /// Additional fields of the JSON output.
    pub(super) fields: Vec<(&'static str, Json)>,
    /// Returns the text of the value, for `--print text`.
    pub(super) text: &'a dyn Fn(&Json) -> String,
    /// Shows the value below the steps.
    pub(super) below: &'a dyn Fn(&Json) -> Result<(), CommandError>,
}

/// Shows the value of a call that is an independent result, and ends the run.
pub(super) fn finish(
    target: &DryRunTarget,
    options: &DryRunOptions,
    tried: DryRunTurn,
    result: Result<Json, Error>,
    view: &ValueView<'_>,
    out: &Console,
) -> Result<Exit, CommandError> {
    let came = match result {
        Ok(value) => DryRunOutcome { word: "continue", value: Some(value), error: None },
        Err(error) => DryRunOutcome::failed(error),
    };
    let trace = ended(tried.recording, &came);
    match (options.print, &came.value) {
        _ if out.is_json() => {
            let report = head(target, options, &came, &trace);
            // The object is new and not read-only.
            view.fields.iter().for_each(|(key, value)| report.edit(key, value.clone()));
            report.edit("value", Json::from(came.value.clone()));
            out.json(&report)?;
        }
        (Print::Value, Some(value)) => out.json(value)?,
        (Print::Text, Some(value)) => out.line(&(view.text)(value))?,
        (_, value) => {
            show_steps(target, &came, &trace, out)?;
            value.as_ref().map_or(Ok(()), |value| (view.below)(value))?;
        }
    }
    note_effects(options, out);
    came.exit(target, out)
}

/// Returns the diagnostic of a plugin error, at the place that its cause names: `filters/x.rhai:3:5: why`.
fn problem(target: &DryRunTarget, cause: &str) -> Diagnostic {
    let file = &target.script().file;
    let Some(broke) = Broke::of(cause).filter(|broke| broke.path == file.path) else {
        return Diagnostic::new(Code::Broke, &file.id, &file.path, cause);
    };
    let mut problem = Diagnostic::new(Code::Broke, &file.id, &file.path, broke.why);
    (problem.line, problem.column) = (Some(broke.line), Some(broke.column));
    problem.excerpt = broke.excerpt(&file.text).unwrap_or("").trim_end().to_owned();
    problem
}

/// Explains whether the run had effects.
pub(super) fn note_effects(options: &DryRunOptions, out: &Console) {
    let note = match options.live {
        true => "live: hosts, models, files and programs were reached, and changes of kv were stored",
        false => "dry run: no host, file or program was reached, and changes of kv were discarded",
    };
    out.note(&out.talk().dim(note));
}

/// Ends the recording, and returns the trace.
pub(super) fn ended(mut recording: TraceGuard, came: &DryRunOutcome) -> Json {
    let trace = recording.trace().clone();
    match &came.error {
        Some(error) => trace.fail(&error.to_string()),
        None => recording.answered(200),
    }
    recording.done();
    trace.detail()
}

/// Shows the steps with their costs, log lines and events.
pub(super) fn show_steps(
    target: &DryRunTarget,
    came: &DryRunOutcome,
    trace: &Json,
    out: &Console,
) -> Result<(), CommandError> {
    let paint = out.results();
    let path = report::near(&target.script().file.path);
    // The error itself follows with its place.
    if came.error.is_some() {
        trace.list("steps").iter().for_each(|step| drop(step.remove("cause")));
    }
    // The value of a skip is not a change.
    let steps =
        if came.word == "skip" { trace_view::costs(trace, paint) } else { trace_view::opened(trace, paint) };
    Ok(out.line(&format!("{}{steps}", paint.dim(&path.display().to_string())))?)
}

/// Shows the steps and the changes.
pub(super) fn show(
    target: &DryRunTarget,
    before: &Json,
    came: &DryRunOutcome,
    trace: &Json,
    out: &Console,
) -> Result<(), CommandError> {
    let paint = out.results();
    show_steps(target, came, trace, out)?;
    match &came.value {
        Some(value) if came.word == "skip" => {
            let value = value.as_str().map_or_else(|| value.pretty(2), str::to_owned);
            out.line(&format!("  {} {}", paint.yellow("skipped with"), clean(&value)))?;
        }
        Some(value) if diff(before, value).is_empty() => out.line(&paint.dim("  nothing changed"))?,
        _ => {}
    }
    Ok(())
}

/// Returns the whole result as JSON.
pub(super) fn as_json(
    target: &DryRunTarget,
    options: &DryRunOptions,
    before: &Json,
    came: &DryRunOutcome,
    trace: &Json,
) -> Json {
    let value = Json::from(came.value.clone());
    let changes = came.value.iter().flat_map(|value| diff(before, value));
    let changes: Vec<Json> = changes.map(|change| change.to_json()).collect();
    let output = head(target, options, came, trace);
    // The object is new and not read-only.
    output.edit("value", value.deep_clone());
    output.edit("diff", changes);
    output
}

/// Returns the part of the JSON output that is the same for every hook.
pub(super) fn head(
    target: &DryRunTarget,
    options: &DryRunOptions,
    came: &DryRunOutcome,
    trace: &Json,
) -> Json {
    let rejection = match &came.error {
        Some(Error::Rejected(rejection)) => Some(rejection),
        _ => None,
    };
    let cause = match &came.error {
        Some(Error::Rejected(rejection)) => Some(rejection.message.clone()),
        Some(Error::Broken(failure)) => Some(failure.cause.clone()),
        Some(error) => Some(error.to_string()),
        None => None,
    };
    let sum = |key: &str| -> i64 {
        let steps = trace.list("steps");
        steps.iter().filter_map(|step| step.get(key)?.as_i64()).sum()
    };
    let most = |key: &str| -> i64 {
        let steps = trace.list("steps");
        steps.iter().filter_map(|step| step.get(key)?.as_i64()).max().unwrap_or(0)
    };
    let cost = Json::from([
        ("took_us", sum("took_us").into()),
        ("waited_us", sum("waited_us").into()),
        ("operations", sum("operations").into()),
        ("memory", most("memory").into()),
    ]);
    Json::from([
        ("hook", options.hook.as_str().into()),
        ("plugin", target.script().id().into()),
        ("file", report::near(&target.script().file.path).display().to_string().into()),
        ("live", options.live.into()),
        ("outcome", came.word.into()),
        ("status", rejection.map(|rejection| u64::from(rejection.status)).into()),
        ("cause", cause.into()),
        ("cost", cost),
        ("lines", trace.field("lines")),
        ("events", trace.field("events")),
    ])
}
