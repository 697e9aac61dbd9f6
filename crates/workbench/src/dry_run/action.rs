//! The dry run of an action's button.

use super::body::{self, Body};
use super::options::DryRunOptions;
use super::outcome::{self, ResultView};
use super::target::{self, DryRunTarget};
use valvehouse_core::filter::{ChainOutcome, Hook};
use valvehouse_json::Json;
use valvehouse_script::{Button, SandboxRun, ScriptAction};
use valvehouse_terminal::{CommandError, Console, Exit};

/// Runs the button that `--button` names, or the only one.
pub(super) async fn run(
    target: &DryRunTarget,
    body: Body,
    options: &DryRunOptions,
    out: &Console,
) -> Result<Exit, CommandError> {
    let (action, button) = pressed(target, options)?;
    let tried = target::turn(options, &target.snapshot)?;
    let before = body::value(Hook::Outlet, body, &target.snapshot, &tried.turn)?;
    let work = async {
        let result = action.press(&button, before.deep_clone(), &tried.turn).await;
        tried.turn.flushed(result).await
    };
    let came = SandboxRun::from(tried.turn.lasting(work).await.map(ChainOutcome::Done));
    let text = came.value.as_ref().map(|value| value.text_or_empty("content").to_string());
    let below = || match &came.value {
        Some(value @ Json::Object(_)) => Ok(out.line(&value.pretty(2))?),
        _ => Ok(()),
    };
    outcome::finish(target, options, tried.recording, &came, &ResultView::of(&came, text, &below), out)
}

fn pressed(target: &DryRunTarget, options: &DryRunOptions) -> Result<(ScriptAction, Button), CommandError> {
    let id = target.script().id();
    let action = target.own.script.clone().into_action(target.own.users.clone()).ok_or_else(|| {
        CommandError::usage(format!("`{id}` has no action; write `fn action(body)` in a file in actions/"))
    })?;
    let button = action.choose(options.button.as_deref()).cloned().ok_or_else(|| {
        let ids = action.own_ids();
        CommandError::usage(match &options.button {
            Some(name) => format!("unknown button `{name}` of `{id}`; its buttons are {ids}"),
            None => format!("`{id}` has several buttons; pass --button with one of {ids}"),
        })
    })?;
    Ok((action, button))
}
