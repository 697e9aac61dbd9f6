//! `POST /api/v1/traces/{id}/replay`: replays the recorded steps of a plugin with its script or another text.

use super::list::{TracePath, find, known};
use super::shapes::Replay;
use crate::api::{ApiError, Body, JsonOf, Path};
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::trace::{StepRecord, Trace};
use valvehouse_host::app::App;
use valvehouse_host::{StepReplay, replay_steps};
use valvehouse_json::Json;
use valvehouse_json::diff::{DiffOperation, diff};
use valvehouse_script::Diagnostic;

/// The timeout of a replay.
const PATIENCE: Duration = Duration::from_secs(60);
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

/// Handles `POST /api/v1/traces/{id}/replay`.
pub(super) async fn replay(
    State(app): State<Arc<App>>,
    Path(path): Path<TracePath>,
    Body(ReplayRequest { plugin, source }): Body<ReplayRequest>,
) -> Result<JsonOf<Replay>, ApiError> {
    let trace = find(&app, &path.id)?;
    known(&app, &plugin)?;
    let snapshot = app.host.snapshot();
    let records = recorded(&trace, &plugin)?;
    let Some(own) = snapshot.plugins.get(&*plugin) else {
        return Err(Error::Host(format!("the plugin `{plugin}` no longer exists")).into());
    };
    let replay = replay_steps(own, records, source.as_deref(), &trace, snapshot.listed());
    let steps = tokio::time::timeout(PATIENCE, replay).await.map_err(|_| {
        let seconds = PATIENCE.as_secs();
        refused(format!("the replay exceeded its limit of {seconds} s"), "replay_too_long")
    })?;
    let steps = steps.map_err(|problems| does_not_load(&problems))?;
    let steps = steps
        .ok_or_else(|| refused(format!("cannot replay `{plugin}`: it has never loaded"), "not_loaded"))?;
    let steps: Vec<Json> = steps.iter().map(compared).collect();
    Ok(JsonOf::new(Json::from([("plugin", plugin.into()), ("note", NOTE.into()), ("steps", steps.into())])))
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
fn compared(step: &StepReplay) -> Json {
    let StepReplay { record, recorded, replayed } = step;
    let recorded = recorded.as_ref();
    // For calls that are aggregated, only the last outcome other than `continue` is recorded. A recorded
    // value means that the call continued.
    let word = if record.calls > 1 && recorded.is_some() { "continue" } else { record.word };
    let is_same = recorded == replayed.value.as_ref() && (record.calls > 1 || word == replayed.word);
    let or_null = |value: Option<&Json>| Json::from(value.map(Json::deep_clone));
    let (was, is) = (or_null(recorded), or_null(replayed.value.as_ref()));
    let changes: Vec<Json> = diff(&was, &is).iter().map(DiffOperation::to_json).collect();
    Json::from([
        ("hook", record.hook.into()),
        ("name", (*record.name).into()),
        ("recorded", Json::from([("outcome", word.into()), ("after", was)])),
        (
            "replayed",
            Json::from([
                ("outcome", replayed.word.into()),
                ("after", is),
                ("cause", replayed.cause.as_deref().into()),
                ("took_us", u64::try_from(replayed.took.as_micros()).unwrap_or(u64::MAX).into()),
                ("operations", replayed.operations.into()),
            ]),
        ),
        ("same", is_same.into()),
        ("diff", changes.into()),
    ])
}
