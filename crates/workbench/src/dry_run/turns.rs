//! Dry runs of a whole turn with all filters.

use super::body;
use super::options::{DryRunOptions, Print};
use super::outcome;
use super::target::{self, DryRunTurn};
use std::sync::Arc;
use valvehouse_config::Config;
use valvehouse_core::chat::ChatRequest;
use valvehouse_core::context::Turn;
use valvehouse_core::error::Error;
use valvehouse_core::filter::ChainOutcome;
use valvehouse_core::kernel::RunOptions;
use valvehouse_host::app::{App, ProviderKeys};
use valvehouse_host::{Ready, Snapshot};
use valvehouse_json::Json;
use valvehouse_script::SandboxRun;
use valvehouse_terminal::{CommandError, Console, Exit, plugin_problems, report, trace_view};

pub(super) async fn run(
    options: &DryRunOptions,
    config: Config,
    out: &Console,
) -> Result<Exit, CommandError> {
    if let Some(script) = &options.script {
        let why = "a turn goes through all filters of the project";
        return Err(CommandError::usage(format!("{why}; remove `{script}`, and pass --body")));
    }
    if !options.valves.is_empty() {
        return Err(CommandError::usage(
            "a turn uses the stored valves; change them with: valvehouse valves set",
        ));
    }
    let body = body::conversation_of(body::body(options)?)?;
    let (snapshot, app) = target::opened(config, options.live, ProviderKeys::Read).await?;
    for problem in plugin_problems(&snapshot) {
        out.note(&report::shown(&problem, out.talk()));
    }
    let done = turn(options, body, &snapshot, app.as_ref(), out).await;
    target::close(app).await;
    done
}

async fn turn(
    options: &DryRunOptions,
    body: Json,
    snapshot: &Arc<Snapshot>,
    app: Option<&Arc<App>>,
    out: &Console,
) -> Result<Exit, CommandError> {
    let named = options.model.clone().or_else(|| body.text("model").map(String::from));
    let model = named.or_else(|| snapshot.model_names().into_iter().next()).ok_or_else(|| {
        CommandError::usage("missing model: the settings name none; pass --model PROVIDER/MODEL")
    })?;
    // The object is ours and not read-only.
    body.edit("model", model.as_str());
    let request = ChatRequest::new(body)?;
    let ready = snapshot.ready(&model, &[])?;
    let options = &DryRunOptions { model: Some(model), ..options.clone() };
    let DryRunTurn { turn, recording } = target::turn(options, snapshot)?;
    let answered = answer(&ready, request, turn, app).await.map(ChainOutcome::Done);
    let SandboxRun { value: answer, error, .. } = answered.into();
    let trace = recording.ended_with(error.as_ref().map(|error| error as _));
    match (options.print, &answer) {
        _ if out.is_json() => {
            let output = Json::from([
                ("live", options.live.into()),
                ("answer", answer.clone().into()),
                ("trace", trace),
            ]);
            out.json(&output)?;
        }
        (Print::Value, Some(answer)) => out.json(answer)?,
        (Print::Text, Some(answer)) => out.line(&outcome::text_of(answer))?,
        (_, answer) => {
            out.line(&trace_view::shown(&trace, out.results()))?;
            if let Some(answer) = answer {
                out.text(&outcome::text_of(answer))?;
                out.line("")?;
            }
        }
    }
    outcome::note_effects(options, out);
    error.map_or(Ok(Exit::Done), |error| Err(error.into()))
}

/// Answers a request like a host; a turn in a sandbox is not stored.
async fn answer(
    ready: &Ready,
    request: ChatRequest,
    turn: Turn,
    app: Option<&Arc<App>>,
) -> Result<Json, Error> {
    let options = RunOptions::new(turn);
    let answer = match app {
        Some(app) => app.run(ready, request, options, |_| {}),
        None => ready.kernel.run(request, options),
    };
    Ok(answer.answer().await?.reply)
}
