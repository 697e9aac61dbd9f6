//! Dry runs of a single hook on one value.

use super::body::{self, Body};
use super::options::DryRunOptions;
use super::outcome::{self, ResultView};
use super::target::{self, DryRunTarget, DryRunTurn};
use valvehouse_core::chat::{ChatRequest, message};
use valvehouse_core::filter::{Hook, step};
use valvehouse_json::Json;
use valvehouse_json::diff::diff;
use valvehouse_script::SandboxRun;
use valvehouse_terminal::{CommandError, Console, Exit, clean};

pub(super) async fn run(
    target: &DryRunTarget,
    hook: Hook,
    body: Body,
    options: &DryRunOptions,
    out: &Console,
) -> Result<Exit, CommandError> {
    let tried = target::turn(options, &target.snapshot)?;
    let (before, came) = call(target, hook, body, &tried).await?;
    let changes = came.value.iter().flat_map(|value| diff(&before, value));
    let changes: Vec<Json> = changes.map(|change| change.to_json()).collect();
    let text = came.value.as_ref().map(|value| text(hook, value));
    let below = || show_changes(&before, &came, out);
    let mut view = ResultView::of(&came, text, &below);
    view.fields.push(("diff", changes.into()));
    outcome::finish(target, options, tried.recording, &came, &view, out)
}

/// Runs a hook and shows the result. Returns the new value.
pub(crate) async fn once(
    target: &DryRunTarget,
    hook: Hook,
    body: Body,
    tried: DryRunTurn,
    out: &Console,
) -> Result<Option<Json>, CommandError> {
    let (before, came) = call(target, hook, body, &tried).await?;
    let trace = tried.recording.ended_with(came.error.as_ref().map(|error| error as _));
    let below = || show_changes(&before, &came, out);
    outcome::show(target, &trace, &came, &ResultView::of(&came, None, &below), out)?;
    outcome::exit(target, came.error.clone(), out).map(|_| came.value)
}

/// Calls a hook. Returns its input and its result.
async fn call(
    target: &DryRunTarget,
    hook: Hook,
    body: Body,
    tried: &DryRunTurn,
) -> Result<(Json, SandboxRun), CommandError> {
    let before = body::value(hook, body, &target.snapshot, &tried.turn)?;
    if hook == Hook::Inlet {
        ChatRequest::new(before.clone())?;
    }
    let mut end = None;
    let work = step(&target.own.filter, hook, before.deep_clone(), &tried.turn, &mut end);
    Ok((before, tried.turn.lasting(work).await.into()))
}

/// Shows the value of a skip, or that nothing changed; the steps show all other changes.
fn show_changes(before: &Json, came: &SandboxRun, out: &Console) -> Result<(), CommandError> {
    let paint = out.results();
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

/// Returns the text in the result of a hook.
fn text(hook: Hook, value: &Json) -> String {
    let result = value.field("result");
    match (hook, value) {
        (_, Json::Text(text)) => text.to_string(),
        (Hook::PostChat | Hook::PostInvocation, _) => match &result {
            Json::Text(text) => text.to_string(),
            Json::Object(_) if hook == Hook::PostChat => message::text_of(&result).to_string(),
            other => other.to_string(),
        },
        (Hook::PreInvocation, _) => value.field("args").to_string(),
        _ => {
            let last = Json::from(value.get("messages").and_then(|messages| messages.at(-1)));
            message::text_of(&last).to_string()
        }
    }
}
