//! `POST /api/v1/traces/{id}/replay`: what a plugin saw in a request, seen once more by its script or by
//! another text in its place.

use super::list::{find, known};
use crate::extract::{Id, object, text};
use crate::reply::answer;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use std::sync::Arc;
use std::time::{Duration, Instant};
use valvehouse_core::context::{Events, Turn, TurnFacts, begun_again};
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::filter::{ChainOutcome, Filter, Hook, TraceOutcome, told};
use valvehouse_core::tool::Tool;
use valvehouse_core::trace::{StepRecord, Trace};
use valvehouse_host::Plugin;
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_json::diff::{DiffOperation, diff};
use valvehouse_script::Script;

/// The time that a whole replay may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The differences between a replay and the request itself.
const NOTE: &str = "dry run: other hosts, models, files, programs and people are not reached, and changes of kv are discarded";

/// `{plugin, source?}`
pub(super) async fn replay(State(app): State<Arc<App>>, Id(id): Id, body: Body) -> Response {
    let replayed = async {
        let body = object(&app, body).await?;
        let plugin = text(&body, "plugin")?;
        let plugin = plugin.ok_or_else(|| Error::invalid("`plugin` must name a plugin", Some("plugin")))?;
        let trace = find(&app, &id)?;
        known(&app, &plugin)?;
        let snapshot = app.host.snapshot();
        let own = snapshot.plugins.get(&*plugin);
        let recorded = recorded(&trace, &plugin)?;
        let stage = own.map(|own| Stage::of(own, text(&body, "source")?.as_deref())).transpose()?;
        let Some(stage) = stage else {
            return Err(Error::Host(format!("the plugin `{plugin}` no longer exists")));
        };
        let turn = turn(&trace, snapshot.listed());
        let steps = tokio::time::timeout(PATIENCE, turn.lasting(stage.play(&recorded, &turn))).await;
        let steps = steps.map_err(|_| {
            let seconds = PATIENCE.as_secs();
            refused(format!("the replay exceeded its limit of {seconds} s"), "replay_too_long")
        })?;
        Ok(Json::from([("plugin", plugin.into()), ("note", NOTE.into()), ("steps", steps.into())]))
    };
    answer(replayed.await)
}

fn refused(message: String, code: &'static str) -> Error {
    Error::Request { message, param: None, code: Some(code), kind: RequestErrorKind::Unusable }
}

/// The steps of a plugin whose values are kept.
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

/// A turn as the one of the trace was when it began.
fn turn(trace: &Trace, models: &Json) -> Turn {
    let (facts, context) = begun_again(trace);
    Turn::new(TurnFacts { models: models.clone(), ..facts }, context, Events::default())
}

/// A script that is tried out.
struct Stage {
    script: Arc<Script>,
    filter: Filter,
    tools: Vec<Tool>,
}

impl Stage {
    fn of(plugin: &Plugin, source: Option<&str>) -> Result<Self, Error> {
        let nothing = || refused(format!("cannot replay `{}`: it has never loaded", plugin.id), "not_loaded");
        let script = plugin.script.as_ref().ok_or_else(nothing)?;
        let script = script.rehearsal(source).map_err(|problems| {
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Error::Request {
                message: format!("the script does not load: {}", told.join("; ")),
                param: Some("source"),
                code: Some("script_does_not_load"),
                kind: RequestErrorKind::Unusable,
            }
        })?;
        let script = Arc::new(script);
        let tools = script.tools(&plugin.users).into_iter().map(|scripted| scripted.tool).collect();
        Ok(Self { filter: script.clone().into_filter(plugin.users.clone()), script, tools })
    }

    /// Every call of the records once more, in their order.
    async fn play(&self, records: &[StepRecord], turn: &Turn) -> Vec<Json> {
        let mut steps = Vec::new();
        for record in records {
            for (before, after) in &record.details().values {
                let replayed = self.call(record, before, turn).await;
                steps.push(compared(record, after.as_ref(), &replayed));
            }
        }
        steps
    }

    async fn call(&self, record: &StepRecord, before: &Json, turn: &Turn) -> HookReplay {
        let tool = record.name.rsplit_once('/').map_or(&*record.name, |(_, tool)| tool);
        let call_metrics = self.script.metrics().of(if record.hook == "tool" { tool } else { record.hook });
        let (operations, begun) = (call_metrics.sum().operations, Instant::now());
        let (word, cause, after) = match Hook::ALL.into_iter().find(|hook| hook.name() == record.hook) {
            Some(hook) => self.hook(hook, before.copy(), turn).await,
            None => self.tool(tool, before.copy(), turn).await,
        };
        let took = begun.elapsed();
        HookReplay { word, cause, after, took, operations: call_metrics.sum().operations - operations }
    }

    async fn hook(&self, hook: Hook, value: Json, turn: &Turn) -> ReplayOutcome {
        if !self.filter.hooks().contains(hook) {
            return ("no_hook", None, Some(value));
        }
        let TraceOutcome { word, cause, outcome } = told(&self.filter, hook, value, turn).await;
        match outcome {
            Ok(ChainOutcome::Done(value) | ChainOutcome::Skipped(value)) => (word, cause, Some(value)),
            Err(_) => (word, cause, None),
        }
    }

    async fn tool(&self, name: &str, args: Json, turn: &Turn) -> ReplayOutcome {
        let Some(tool) = self.tools.iter().find(|tool| tool.name() == name) else {
            return ("no_tool", None, None);
        };
        match tool.invoke(args, turn).await {
            Ok(result) => ("ended", None, Some(result.value)),
            Err(error) => ("failed", Some(error.message), None),
        }
    }
}

/// A word for how, why where it failed, and what came of the value.
type ReplayOutcome = (&'static str, Option<String>, Option<Json>);

struct HookReplay {
    word: &'static str,
    cause: Option<String>,
    after: Option<Json>,
    took: Duration,
    operations: u64,
}

/// A call as it was and as it is now.
fn compared(record: &StepRecord, recorded: Option<&Json>, replayed: &HookReplay) -> Json {
    // Of events only the last word is known that was another one; what went on has a value.
    let word = if record.calls > 1 && recorded.is_some() { "continue" } else { record.word };
    let is_same = recorded == replayed.after.as_ref() && (record.calls > 1 || word == replayed.word);
    let or_null = |value: Option<&Json>| Json::from(value.map(Json::copy));
    let (was, is) = (or_null(recorded), or_null(replayed.after.as_ref()));
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
