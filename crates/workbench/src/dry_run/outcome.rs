//! The result of a dry run, as text and as JSON.

use super::options::{DryRunOptions, Print};
use super::target::DryRunTarget;
use valvehouse_core::chat::{message, response};
use valvehouse_core::error::Error;
use valvehouse_core::trace::TraceGuard;
use valvehouse_json::Json;
use valvehouse_script::{Code, Diagnostic, SandboxRun};
use valvehouse_terminal::report;
use valvehouse_terminal::{CommandError, Console, Exit, trace_view};

/// The presentation of the result of a call.
pub(super) struct ResultView<'a> {
    /// The fields of the JSON output below those of every call.
    pub(super) fields: Vec<(&'static str, Json)>,
    /// The value, for `--print value`.
    pub(super) value: Option<Json>,
    /// The text of the value, for `--print text`.
    pub(super) text: Option<String>,
    /// Shows the result below the steps.
    pub(super) below: &'a dyn Fn() -> Result<(), CommandError>,
    /// `true` if the steps are shown without their changes.
    pub(super) only_costs: bool,
}

impl<'a> ResultView<'a> {
    /// Creates the presentation of a call with one value.
    pub(super) fn of(
        came: &SandboxRun,
        text: Option<String>,
        below: &'a dyn Fn() -> Result<(), CommandError>,
    ) -> Self {
        let value = came.value.clone();
        // The value of a skip is not a change.
        let only_costs = came.word == "skip";
        Self { fields: vec![("value", value.clone().into())], value, text, below, only_costs }
    }
}

/// Shows the result of a call, and ends the run.
pub(super) fn finish(
    target: &DryRunTarget,
    options: &DryRunOptions,
    recording: TraceGuard,
    came: &SandboxRun,
    view: &ResultView<'_>,
    out: &Console,
) -> Result<Exit, CommandError> {
    let trace = recording.ended_with(came.error.as_ref().map(|error| error as _));
    match (options.print, &view.value, &view.text) {
        _ if out.is_json() => {
            let output = head(target, options, came, &trace);
            // The object is new and not read-only.
            view.fields.iter().for_each(|(key, value)| output.edit(key, value.clone()));
            out.json(&output)?;
        }
        (Print::Value, Some(value), _) => out.json(value)?,
        (Print::Text, _, Some(text)) => out.line(text)?,
        _ => show(target, &trace, came, view, out)?,
    }
    note_effects(options, out);
    exit(target, came.error.clone(), out)
}

/// Returns the exit status. A rejection is an error; a plugin error is shown at its place in the script.
pub(super) fn exit(target: &DryRunTarget, error: Option<Error>, out: &Console) -> Result<Exit, CommandError> {
    match error {
        None => Ok(Exit::Done),
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

/// Returns the diagnostic of a plugin error, at the place that its cause names: `filters/x.rhai:3:5: why`.
fn problem(target: &DryRunTarget, cause: &str) -> Diagnostic {
    let file = &target.script().file;
    let problem = Diagnostic::new(Code::Broke, &file.id, &file.path, cause);
    let placed = problem.at_named_place(|path| (path == file.path).then(|| file.text.to_string()));
    placed.unwrap_or(problem)
}

/// Explains whether the run had effects.
pub(super) fn note_effects(options: &DryRunOptions, out: &Console) {
    let note = match options.live {
        true => "live: hosts, models, files and programs were reached, and changes of kv were stored",
        false => "dry run: no host, file or program was reached, and changes of kv were discarded",
    };
    out.note(&out.talk().dim(note));
}

/// Returns the text of a model's answer.
pub(super) fn text_of(answer: &Json) -> String {
    message::text_of(&response::message_of(answer)).to_string()
}

/// Shows the steps with their costs, log lines and events, and the result below.
pub(super) fn show(
    target: &DryRunTarget,
    trace: &Json,
    came: &SandboxRun,
    view: &ResultView<'_>,
    out: &Console,
) -> Result<(), CommandError> {
    let paint = out.results();
    let steps = match view.only_costs {
        true => trace_view::costs(trace, paint),
        false => {
            // The error itself follows with its place.
            if came.error.is_some() {
                trace.list("steps").iter().for_each(|step| drop(step.remove("cause")));
            }
            trace_view::opened(trace, paint)
        }
    };
    let path = report::near(&target.script().file.path);
    out.line(&format!("{}{steps}", paint.dim(&path.display().to_string())))?;
    (view.below)()
}

/// Returns the part of the JSON output that is the same for every hook.
fn head(target: &DryRunTarget, options: &DryRunOptions, came: &SandboxRun, trace: &Json) -> Json {
    let (outcome, status, cause) = match &came.error {
        Some(Error::Rejected(rejection)) => {
            ("refused", Some(u64::from(rejection.status)), Some(rejection.message.clone()))
        }
        Some(Error::Broken(failure)) => ("failed", None, Some(failure.cause.clone())),
        Some(error) => ("failed", None, Some(error.to_string())),
        None if came.word == "skip" => ("skip", None, None),
        None => ("continue", None, None),
    };
    let steps = trace.list("steps");
    let costs = |key: &'static str| steps.iter().filter_map(move |step| step.get(key)?.as_i64());
    let sum = |key| costs(key).sum::<i64>();
    let cost = Json::from([
        ("took_us", sum("took_us").into()),
        ("waited_us", sum("waited_us").into()),
        ("operations", sum("operations").into()),
        ("memory", costs("memory").max().unwrap_or(0).into()),
    ]);
    Json::from([
        ("hook", options.hook.as_str().into()),
        ("plugin", target.script().id().into()),
        ("file", report::near(&target.script().file.path).display().to_string().into()),
        ("live", options.live.into()),
        ("outcome", outcome.into()),
        ("status", status.into()),
        ("cause", cause.into()),
        ("cost", cost),
        ("lines", trace.field("lines")),
        ("events", trace.field("events")),
    ])
}
