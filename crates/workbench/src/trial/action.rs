//! One press of a button.

use super::body::{self, Body};
use super::outcome::{self, ValueView};
use super::stage::{self, Stage, TrialOptions};
use valvehouse_core::filter::Hook;
use valvehouse_json::Json;
use valvehouse_script::{Button, ScriptAction};
use valvehouse_terminal::{CommandError, Console, Exit};

/// The name of the function, and of this kind of run.
pub(super) const ACTION: &str = "action";

/// Presses the button that `--button` names, or the only one.
pub(super) async fn run(
    stage: &Stage,
    body: Body,
    asked: &TrialOptions,
    out: &Console,
) -> Result<Exit, CommandError> {
    let (action, button) = pressed(stage, asked)?;
    let tried = stage::turn(asked, &stage.snapshot)?;
    let before = body::value(Hook::Outlet, body, &stage.snapshot, &tried.turn)?;
    let work = async {
        let result = action.press(&button, before.copy(), &tried.turn).await;
        tried.turn.flushed(result).await
    };
    let result = tried.turn.lasting(work).await;
    let view = ValueView {
        fields: Vec::new(),
        text: &|value| value.text_or_empty("content").to_string(),
        below: &|value| match value {
            Json::Object(_) => Ok(out.line(&value.pretty(2))?),
            _ => Ok(()),
        },
    };
    outcome::finish(stage, asked, tried, result, &view, out)
}

fn pressed(stage: &Stage, asked: &TrialOptions) -> Result<(ScriptAction, Button), CommandError> {
    let id = stage.script().id();
    let action = stage.own.script.clone().into_action(stage.own.users.clone()).ok_or_else(|| {
        CommandError::usage(format!("`{id}` has no action; write `fn action(body)` in a file in actions/"))
    })?;
    let names = action.buttons().iter().map(|button| button.own_id.as_str()).collect::<Vec<_>>().join(", ");
    let found = match (&asked.button, action.buttons()) {
        (Some(name), buttons) => {
            buttons.iter().find(|button| [&button.own_id, &button.id].contains(&name)).ok_or_else(|| {
                CommandError::usage(format!("unknown button `{name}` of `{id}`; its buttons are {names}"))
            })
        }
        (None, [only]) => Ok(only),
        (None, _) => {
            Err(CommandError::usage(format!("`{id}` has several buttons; pass --button with one of {names}")))
        }
    };
    let button = found?.clone();
    Ok((action, button))
}
