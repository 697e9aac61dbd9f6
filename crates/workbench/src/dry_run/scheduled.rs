//! Dry runs of scheduled functions.

use super::options::DryRunOptions;
use super::outcome::{self, ResultView};
use super::target::{self, DryRunTarget};
use valvehouse_core::error::{Error, PluginError};
use valvehouse_core::filter::ChainOutcome;
use valvehouse_json::Json;
use valvehouse_script::{Lists, SandboxRun, ScheduledCall};
use valvehouse_terminal::{CommandError, Console, Exit};

pub(super) async fn run(
    target: &DryRunTarget,
    named: &str,
    what: ScheduledCall,
    options: &DryRunOptions,
    out: &Console,
) -> Result<Exit, CommandError> {
    if !target.script().scheduled().iter().any(|(own, _)| *own == what) {
        let hint = match what {
            ScheduledCall::Tick => "write `const every = \"1h\";` and `fn tick()`",
            _ => "write `const ttl = \"10m\";`",
        };
        return Err(CommandError::usage(format!("`{named}` has no scheduled {}; {hint}", what.as_str())));
    }
    let recording = target::turn(options, &target.snapshot)?.recording;
    let called = target.script().run_scheduled(what, Some(recording.trace().clone())).await;
    let failed = |failure: PluginError| Error::Broken(PluginError::new(failure.cause));
    let came = SandboxRun::from(called.map(|list| ChainOutcome::Done(Lists::entries(&list))).map_err(failed));
    let text = came.value.as_ref().map(Json::to_string);
    let below = || match &came.value {
        Some(value @ Json::Array(_)) => Ok(out.line(&value.pretty(2))?),
        _ => Ok(()),
    };
    outcome::finish(target, options, recording, &came, &ResultView::of(&came, text, &below), out)
}
