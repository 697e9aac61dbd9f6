//! `POST /api/v1/traces/{id}/replay`: replays the recorded steps of a plugin with its script or another text.

use super::list::{TracePath, find, known};
use crate::api::{Answer, Body, JsonOf, Path, Reply};
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::trace::{StepRecord, Trace, ValueChange};
use valvehouse_host::app::App;
use valvehouse_host::{SpelledJson, StepReplay, replay_steps};
use valvehouse_json::Json;
use valvehouse_json::diff::diff;
use valvehouse_script::Diagnostic;

/// The timeout of a replay.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The differences between a replay and the request itself.
const NOTE: &str = "dry run: other hosts, models, files, programs and people are not reached, and changes of kv are discarded";

/// A script that replays the steps of a plugin.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplayRequest {
    /// The plugin whose steps are replayed.
    plugin: String,
    /// The text of the script; by default that of the plugin.
    source: Option<String>,
}

/// The replayed calls of a plugin in a request.
#[derive(Serialize, JsonSchema)]
pub(super) struct Replay {
    plugin: String,
    /// The differences between a replay and the request.
    note: &'static str,
    steps: Vec<ReplayStep>,
}

/// A recorded call and its replay.
#[derive(Serialize, JsonSchema)]
struct ReplayStep {
    hook: &'static str,
    name: String,
    recorded: RecordedCall,
    replayed: ReplayedCall,
    /// Set if both calls have the same outcome and value.
    same: bool,
    diff: Vec<JsonOf<ValueChange>>,
}

/// The outcome of a recorded call.
#[derive(Serialize, JsonSchema)]
struct RecordedCall {
    outcome: &'static str,
    after: SpelledJson,
}

/// The outcome of a replayed call.
#[derive(Serialize, JsonSchema)]
struct ReplayedCall {
    outcome: &'static str,
    after: SpelledJson,
    cause: Option<String>,
    took_us: u64,
    operations: u64,
}

/// Handles `POST /api/v1/traces/{id}/replay`.
pub(super) async fn replay(
    State(app): State<Arc<App>>,
    Path(path): Path<TracePath>,
    Body(ReplayRequest { plugin, source }): Body<ReplayRequest>,
) -> Answer<Replay> {
    let trace = find(&app, &path.id)?;
    known(&app, &plugin)?;
    let snapshot = app.host.snapshot();
    let records = recorded(&trace, &plugin)?;
    let Some(own) = snapshot.plugins.get(&*plugin) else {
        return Err(Error::Host(format!("the plugin `{plugin}` no longer exists")).into());
    };
    let replay = replay_steps(own, records, source.as_deref(), &trace, snapshot.listed());
    let steps = tokio::time::timeout(TIMEOUT, replay).await.map_err(|_| {
        let seconds = TIMEOUT.as_secs();
        refused(format!("the replay exceeded its limit of {seconds} s"), "replay_too_long")
    })?;
    let steps = steps.map_err(|problems| does_not_load(&problems))?;
    let steps = steps
        .ok_or_else(|| refused(format!("cannot replay `{plugin}`: it has never loaded"), "not_loaded"))?;
    Ok(Reply(Replay { plugin, note: NOTE, steps: steps.iter().map(compared).collect() }))
}

fn refused(message: String, code: &'static str) -> Error {
    Error::Request { message, param: None, code: Some(code), kind: RequestErrorKind::Unusable }
}

fn does_not_load(problems: &[Diagnostic]) -> Error {
    let messages: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Error::Request {
        message: format!("the script does not load: {}", messages.join("; ")),
        param: Some("source"),
        code: Some("script_does_not_load"),
        kind: RequestErrorKind::Unusable,
    }
}

/// Returns the steps of a plugin whose values are recorded.
fn recorded(trace: &Trace, plugin: &str) -> Result<Vec<StepRecord>, Error> {
    let own = |record: &StepRecord| record.plugin() == Some(plugin) && !record.details().values.is_empty();
    let records: Vec<StepRecord> = trace.records().into_iter().filter(own).collect();
    if records.is_empty() {
        return Err(refused(
            format!(
                "the values of `{plugin}` were not recorded for this request: record them (PUT /api/v1/traces/contents/{plugin} {{\"keep\": true}}), or send a request with the header x-valvehouse-trace: content, and replay that request"
            ),
            "no_contents",
        ));
    }
    Ok(records)
}

/// Returns a recorded call and its replay, with their differences.
fn compared(step: &StepReplay) -> ReplayStep {
    let StepReplay { record, recorded, replayed } = step;
    let recorded = recorded.as_ref();
    // For calls that are aggregated, only the last outcome other than `continue` is recorded. A recorded
    // value means that the call continued.
    let word = if record.calls > 1 && recorded.is_some() { "continue" } else { record.word };
    let or_null = |value: Option<&Json>| Json::from(value.map(Json::deep_clone));
    let (was, is) = (or_null(recorded), or_null(replayed.value.as_ref()));
    ReplayStep {
        hook: record.hook,
        name: record.name.to_string(),
        same: recorded == replayed.value.as_ref() && (record.calls > 1 || word == replayed.word),
        diff: diff(&was, &is).iter().map(|change| change.to_json().into()).collect(),
        recorded: RecordedCall { outcome: word, after: was.into() },
        replayed: ReplayedCall {
            outcome: replayed.word,
            after: is.into(),
            cause: replayed.cause.clone(),
            took_us: u64::try_from(replayed.took.as_micros()).unwrap_or(u64::MAX),
            operations: replayed.operations,
        },
    }
}
