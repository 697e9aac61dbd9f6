//! Dry runs of a single hook on one value.

use super::body::{self, Body};
use super::options::{DryRunOptions, Print};
use super::outcome::{self, DryRunOutcome};
use super::target::{self, DryRunTarget, DryRunTurn};
use valvehouse_core::chat::{ChatRequest, message};
use valvehouse_core::filter::Hook;
use valvehouse_json::Json;
use valvehouse_script::SandboxRun;
use valvehouse_terminal::{CommandError, Console, Exit};

pub(super) async fn run(
    target: &DryRunTarget,
    hook: Hook,
    body: Body,
    options: &DryRunOptions,
    out: &Console,
) -> Result<Exit, CommandError> {
    let Observation { before, came, trace } =
        see(target, hook, body, target::turn(options, &target.snapshot)?).await?;
    match (options.print, &came.value) {
        _ if out.is_json() => out.json(&outcome::as_json(target, options, &before, &came, &trace))?,
        (Print::Value, Some(value)) => out.json(value)?,
        (Print::Text, Some(value)) => out.line(&text(hook, value))?,
        _ => outcome::show(target, &before, &came, &trace, out)?,
    }
    outcome::note_effects(options, out);
    came.exit(target, out)
}

/// The input and the result of a hook.
struct Observation {
    before: Json,
    came: DryRunOutcome,
    trace: Json,
}

async fn see(
    target: &DryRunTarget,
    hook: Hook,
    body: Body,
    tried: DryRunTurn,
) -> Result<Observation, CommandError> {
    let before = body::value(hook, body, &target.snapshot, &tried.turn)?;
    if hook == Hook::Inlet {
        ChatRequest::new(before.clone())?;
    }
    let work = target.own.traced_hook(hook, before.deep_clone(), &tried.turn, tried.recording.trace());
    let came = match tried.turn.lasting(work).await {
        SandboxRun { error: Some(error), .. } => DryRunOutcome::failed(error),
        SandboxRun { word: "skip", value, .. } => DryRunOutcome { word: "skip", value, error: None },
        SandboxRun { value, .. } => DryRunOutcome { word: "continue", value, error: None },
    };
    let trace = outcome::ended(tried.recording, &came);
    Ok(Observation { before, came, trace })
}

/// Runs a hook and shows the result. Returns the new value.
pub(crate) async fn once(
    target: &DryRunTarget,
    hook: Hook,
    body: Body,
    tried: DryRunTurn,
    out: &Console,
) -> Result<Option<Json>, CommandError> {
    let Observation { before, came, trace } = see(target, hook, body, tried).await?;
    outcome::show(target, &before, &came, &trace, out)?;
    let value = came.value.clone();
    came.exit(target, out).map(|_| value)
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
