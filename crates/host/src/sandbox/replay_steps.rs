//! Recorded calls of a plugin, replayed with its script or with another text.

use crate::plugin::Plugin;
use std::sync::Arc;
use valvehouse_core::context::{Events, Turn, TurnFacts, begun_again};
use valvehouse_core::filter::Hook;
use valvehouse_core::trace::{StepRecord, Trace};
use valvehouse_json::Json;
use valvehouse_script::{Diagnostic, Sandbox, SandboxRun, SandboxScript};

/// A recorded call and its replay.
pub struct StepReplay {
    /// The recorded step of the call.
    pub record: Arc<StepRecord>,
    /// The recorded result.
    pub recorded: Option<Json>,
    /// The replayed call in a closed sandbox.
    pub replayed: SandboxRun,
}

/// Replays the recorded calls of a plugin in order, in a closed sandbox. `text` replaces its script. Returns
/// `None` if the plugin has never loaded.
///
/// # Errors
/// Returns the problems of the text.
pub async fn replay_steps(
    plugin: &Plugin,
    records: Vec<StepRecord>,
    text: Option<&str>,
    trace: &Trace,
    models: &Json,
) -> Result<Option<Vec<StepReplay>>, Vec<Diagnostic>> {
    let Some(script) = &plugin.script else { return Ok(None) };
    let script = Sandbox::closed().with_text(text).script(script)?;
    let script = SandboxScript::new(Arc::new(script), plugin.users.clone());
    let (facts, context) = begun_again(trace);
    let turn = Turn::new(TurnFacts { models: models.clone(), ..facts }, context, Events::default());
    let steps = async {
        let mut steps = Vec::new();
        for record in records.into_iter().map(Arc::new) {
            for (before, after) in &record.details().values {
                let mut replayed = call(&script, &record, before.deep_clone(), &turn).await;
                // Later calls may change values that the script retains.
                replayed.value = replayed.value.map(|value| value.deep_clone());
                steps.push(StepReplay { record: record.clone(), recorded: after.clone(), replayed });
            }
        }
        steps
    };
    Ok(Some(turn.lasting(steps).await))
}

async fn call(script: &SandboxScript, record: &StepRecord, value: Json, turn: &Turn) -> SandboxRun {
    match Hook::ALL.into_iter().find(|hook| hook.name() == record.hook) {
        Some(hook) => script.hook(hook, value, turn).await,
        None => {
            let tool = record.name.rsplit_once('/').map_or(&*record.name, |(_, tool)| tool);
            script.tool(tool, value, turn).await
        }
    }
}
