//! Dry runs of scheduled functions.

use super::options::{DryRunOptions, Print};
use super::outcome::{self, DryRunOutcome};
use super::target::{self, DryRunTarget};
use valvehouse_core::error::{Error, PluginError};
use valvehouse_json::Json;
use valvehouse_script::{Lists, ScheduledCall};
use valvehouse_terminal::{CommandError, Console, Exit};

pub(super) async fn run(
    target: &DryRunTarget,
    what: ScheduledCall,
    options: &DryRunOptions,
    out: &Console,
) -> Result<Exit, CommandError> {
    let target::DryRunTurn { recording, .. } = target::turn(options, &target.snapshot)?;
    let called = target.script().run_scheduled(what, Some(recording.trace().clone())).await;
    let came = match called {
        Ok(list) => DryRunOutcome { word: "continue", value: Some(Lists::entries(&list)), error: None },
        Err(failure) => DryRunOutcome::failed(Error::Broken(PluginError::new(failure.cause))),
    };
    let trace = outcome::ended(recording, &came);
    match (options.print, &came.value) {
        _ if out.is_json() => {
            let output = outcome::head(target, options, &came, &trace);
            // The object is new and not read-only.
            output.edit("value", Json::from(came.value.clone()));
            out.json(&output)?;
        }
        (Print::Value | Print::Text, Some(value)) => out.json(value)?,
        (_, value) => {
            outcome::show_steps(target, &came, &trace, out)?;
            if let Some(value @ Json::Array(_)) = value {
                out.line(&value.pretty(2))?;
            }
        }
    }
    outcome::note_effects(options, out);
    came.exit(target, out)
}
