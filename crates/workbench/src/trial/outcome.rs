//! The result of a run, for people and for programs.

use super::stage::{Print, Stage, TrialOptions, TrialTurn};
use valvehouse_core::error::Error;
use valvehouse_core::trace::TraceGuard;
use valvehouse_json::Json;
use valvehouse_json::diff::diff;
use valvehouse_script::{Code, Problem};
use valvehouse_terminal::report::{self, Broke};
use valvehouse_terminal::{CommandError, Console, Exit, clean, trace_view};

/// The end of a call.
pub(super) struct TrialOutcome {
    /// `continue skip refused failed`
    pub(super) word: &'static str,
    pub(super) value: Option<Json>,
    pub(super) fault: Option<Error>,
}

impl TrialOutcome {
    pub(super) fn failed(fault: Error) -> Self {
        let word = if matches!(fault, Error::Refused(_)) { "refused" } else { "failed" };
        Self { word, value: None, fault: Some(fault) }
    }

    /// A refusal is a finding; what broke is shown where it did.
    pub(super) fn exit(self, stage: &Stage, out: &Console) -> Result<Exit, CommandError> {
        match self.fault {
            None => Ok(Exit::Done),
            Some(fault @ Error::Refused(_)) => Err(fault.into()),
            Some(Error::Broken(failure)) => {
                let problem = problem(stage, &failure.cause);
                if out.is_json() {
                    return Err(CommandError::new(Exit::Data, failure.cause));
                }
                out.say(&report::shown(&problem, out.talk()));
                Err(CommandError::new(Exit::Data, ""))
            }
            Some(fault) => Err(fault.into()),
        }
    }
}

/// The view of a value that is a result of its own: neither the body nor a change of it.
pub(super) struct ValueView<'a> {
    /// The fields that programs read beside the value.
    pub(super) fields: Vec<(&'static str, Json)>,
    /// Its text, for `--print text`.
    pub(super) text: &'a dyn Fn(&Json) -> String,
    /// The value below the steps.
    pub(super) below: &'a dyn Fn(&Json) -> Result<(), CommandError>,
}

/// Shows the value of a call that is a result of its own, and ends the run.
pub(super) fn finish(
    stage: &Stage,
    asked: &TrialOptions,
    tried: TrialTurn,
    result: Result<Json, Error>,
    view: &ValueView<'_>,
    out: &Console,
) -> Result<Exit, CommandError> {
    let came = match result {
        Ok(value) => TrialOutcome { word: "continue", value: Some(value), fault: None },
        Err(fault) => TrialOutcome::failed(fault),
    };
    let trace = ended(tried.recording, &came);
    match (asked.print, &came.value) {
        _ if out.is_json() => {
            let report = head(stage, asked, &came, &trace);
            // New values in a new object: they fit.
            view.fields.iter().for_each(|(key, value)| report.edit(key, value.clone()));
            report.edit("value", Json::from(came.value.clone()));
            out.json(&report)?;
        }
        (Print::Value, Some(value)) => out.json(value)?,
        (Print::Text, Some(value)) => out.line(&(view.text)(value))?,
        (_, value) => {
            show_steps(stage, &came, &trace, out)?;
            value.as_ref().map_or(Ok(()), |value| (view.below)(value))?;
        }
    }
    say_note(asked, out);
    came.exit(stage, out)
}

/// The place at which a script broke, as far as its cause names it: `filters/x.rhai:3:5: why`.
fn problem(stage: &Stage, cause: &str) -> Problem {
    let file = &stage.script().file;
    let Some(broke) = Broke::of(cause).filter(|broke| broke.path == file.path) else {
        return Problem::new(Code::Broke, &file.id, &file.path, cause);
    };
    let mut problem = Problem::new(Code::Broke, &file.id, &file.path, broke.why);
    (problem.line, problem.column) = (Some(broke.line), Some(broke.column));
    problem.excerpt = broke.excerpt(&file.text).unwrap_or("").trim_end().to_owned();
    problem
}

/// Evaluates the outcome.
pub(super) fn say_note(asked: &TrialOptions, out: &Console) {
    let note = match asked.live {
        true => "live: hosts, models, files and programs were reached, and changes of kv were stored",
        false => "dry run: no host, file or program was reached, and changes of kv were discarded",
    };
    out.say(&out.talk().dim(note));
}

/// The end of what is written down.
pub(super) fn ended(mut recording: TraceGuard, came: &TrialOutcome) -> Json {
    let trace = recording.trace().clone();
    match &came.fault {
        Some(fault) => trace.fail(&fault.to_string()),
        None => recording.answered(200),
    }
    recording.done();
    trace.detail()
}

/// The steps with their costs, messages and events.
pub(super) fn show_steps(
    stage: &Stage,
    came: &TrialOutcome,
    trace: &Json,
    out: &Console,
) -> Result<(), CommandError> {
    let paint = out.results();
    let path = report::near(&stage.script().file.path);
    // The value it skipped with is not a change.
    let steps =
        if came.word == "skip" { trace_view::costs(trace, paint) } else { trace_view::opened(trace, paint) };
    Ok(out.line(&format!("{}{steps}", paint.dim(&path.display().to_string())))?)
}

/// The same, and what changed.
pub(super) fn show(
    stage: &Stage,
    before: &Json,
    came: &TrialOutcome,
    trace: &Json,
    out: &Console,
) -> Result<(), CommandError> {
    let paint = out.results();
    show_steps(stage, came, trace, out)?;
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

/// All of it for programs.
pub(super) fn as_json(
    stage: &Stage,
    asked: &TrialOptions,
    before: &Json,
    came: &TrialOutcome,
    trace: &Json,
) -> Json {
    let value = Json::from(came.value.clone());
    let changes = came.value.iter().flat_map(|value| diff(before, value));
    let changes: Vec<Json> = changes.map(|change| change.to_json()).collect();
    let told = head(stage, asked, came, trace);
    // New values in a new object: they fit.
    told.edit("value", value.copy());
    told.edit("diff", changes);
    told
}

/// The part that is the same for every hook.
pub(super) fn head(stage: &Stage, asked: &TrialOptions, came: &TrialOutcome, trace: &Json) -> Json {
    let refusal = match &came.fault {
        Some(Error::Refused(refusal)) => Some(refusal),
        _ => None,
    };
    let cause = match &came.fault {
        Some(Error::Refused(refusal)) => Some(refusal.message.clone()),
        Some(Error::Broken(failure)) => Some(failure.cause.clone()),
        Some(fault) => Some(fault.to_string()),
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
        ("hook", asked.hook.as_str().into()),
        ("plugin", stage.script().id().into()),
        ("file", report::near(&stage.script().file.path).display().to_string().into()),
        ("live", asked.live.into()),
        ("outcome", came.word.into()),
        ("status", refusal.map(|refusal| u64::from(refusal.status)).into()),
        ("cause", cause.into()),
        ("cost", cost),
        ("lines", trace.field("lines")),
        ("events", trace.field("events")),
    ])
}
