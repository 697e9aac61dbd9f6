//! Calls of interceptors: the filter runs with its own budget, grants, breaker, trace and metrics.

use super::breakers::InterceptorBreakers;
use super::listing::{InterceptionEvent, ListedInterceptor, Phase, offered};
use super::payload::Payload;
use crate::server::caller::Caller;
use crate::server::result::words;
use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use valvehouse_config::{InterceptorKind, InterceptorMode};
use valvehouse_core::context::{Context, Events, Turn};
use valvehouse_core::error::Error;
use valvehouse_core::filter::{Chain, ChainOutcome};
use valvehouse_host::app::App;
use valvehouse_host::{Plugin, Snapshot};

/// The maximum time of a call; a caller may set a lower limit.
const MAX_TIME: Duration = Duration::from_secs(60);
/// The error code of a call that exceeds its time limit.
const TIMEOUT: ErrorCode = ErrorCode(-32_000);

/// The parameters of `interceptor/invoke`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    name: String,
    event: String,
    phase: String,
    payload: Value,
    #[serde(default)]
    config: Option<Map<String, Value>>,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

/// A filter's decision on a payload.
enum Decision {
    /// The payload continues, changed or not.
    Payload(Value),
    /// The payload is rejected for this reason.
    Refused(String),
}

/// A call with parsed parameters.
struct Invocation<'a> {
    breakers: &'a InterceptorBreakers,
    one: ListedInterceptor<'a>,
    event: InterceptionEvent,
    phase: Phase,
    payload: Value,
    time: Duration,
}

/// Handles `interceptor/invoke`.
///
/// # Errors
/// Returns a protocol error for invalid parameters, and for an interceptor that rejects the payload, fails or
/// exceeds its time limit: the caller has to block the event, unless `failOpen` or `mode` say otherwise.
pub(in crate::server) async fn invoke(
    app: &Arc<App>,
    breakers: &InterceptorBreakers,
    caller: &Caller,
    params: Option<Value>,
) -> Result<Value, ErrorData> {
    let params: Params = serde_json::from_value(params.unwrap_or(Value::Null)).map_err(|error| {
        invalid(format!("invalid parameters: {error}; send name, event, phase and payload"))
    })?;
    let snapshot = app.host.snapshot();
    let invocation = Invocation::of(app, breakers, &snapshot, params)?;
    let began = Instant::now();
    let mut result = invocation.run(app, &snapshot, caller).await?;
    let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    result["durationMs"] = took.into();
    Ok(result)
}

fn invalid(message: String) -> ErrorData {
    ErrorData::invalid_params(message, None)
}

impl<'a> Invocation<'a> {
    fn of(
        app: &'a App,
        breakers: &'a InterceptorBreakers,
        snapshot: &'a Snapshot,
        params: Params,
    ) -> Result<Self, ErrorData> {
        let Params { name, event, phase, payload, config, timeout_ms } = params;
        let one = offered(&app.config, snapshot).find(|one| one.name == name);
        let one = one.ok_or_else(|| {
            invalid(format!(
                "unknown interceptor `{name}`; list the interceptors again: they may have changed"
            ))
        })?;
        let phase = Phase::from_name(&phase)
            .ok_or_else(|| invalid(format!("unknown phase `{phase}`: expected request or response")))?;
        let event = InterceptionEvent::from_name(&event)
            .filter(|event| one.acts_at(*event, phase))
            .ok_or_else(|| {
                invalid(format!("the interceptor `{name}` does not handle `{event}` ({})", phase.as_str()))
            })?;
        if config.is_some_and(|config| !config.is_empty()) {
            return Err(invalid(format!(
                "the interceptor `{name}` does not accept `config`: an operator of this host sets its valves"
            )));
        }
        if timeout_ms == Some(0) {
            return Err(invalid("invalid `timeoutMs`: expected 1 or more milliseconds".to_owned()));
        }
        let time = timeout_ms.map_or(MAX_TIME, Duration::from_millis).min(MAX_TIME);
        Ok(Self { breakers, one, event, phase, payload, time })
    }

    async fn run(&self, app: &Arc<App>, snapshot: &Snapshot, caller: &Caller) -> Result<Value, ErrorData> {
        let payload = Payload::read(self.event, self.phase, &self.payload).map_err(invalid)?;
        let Some(plugin) = &self.one.plugin else {
            return Err(self.failed("its filter is missing; an operator of this host can restore it"));
        };
        let mut facts = caller.facts.clone();
        facts.message_id = uuid::Uuid::new_v4().to_string();
        let mut recording = caller.begin(app, snapshot.generation);
        facts.trace = Some(recording.trace().clone());
        let turn = Turn::new(facts, Context::new(caller.variables.deep_clone()), Events::default());
        // The script may not call tools on behalf of the caller.
        snapshot.invoking_only(Vec::new()).runs(&turn);
        let work = turn.lasting(self.decide(plugin, payload, &turn));
        let decided = tokio::time::timeout(self.time, work).await;
        let result = match decided {
            Err(_) => Err(self.too_slow()),
            Ok(Err(error)) => {
                let why = words(&error);
                drop(recording.failed(error));
                Err(self.failed(&why))
            }
            Ok(Ok(Decision::Payload(payload))) => Ok(self.passes(plugin, payload)),
            Ok(Ok(Decision::Refused(why))) => self.refuses(&why),
        };
        recording.answered(200);
        if let Some(written) = recording.count() {
            written.await;
        }
        recording.done();
        result
    }

    /// Runs the filter's hooks of this event, each on the result of the previous one.
    async fn decide(&self, plugin: &Plugin, payload: Payload, turn: &Turn) -> Result<Decision, Error> {
        let Some(filter) = plugin.filter() else {
            return Err(Error::Host(format!("the filter `{}` does not load", plugin.id)));
        };
        let chain = Chain::new(vec![filter.breaker(self.breakers.of(plugin))]);
        let mut payload = payload;
        for hook in self.event.hooks(self.phase).iter().copied().filter(|hook| chain.has(*hook)) {
            let shown = payload.shown(hook, turn);
            match turn.flushed(chain.run(hook, shown, turn).await).await {
                Ok(ChainOutcome::Done(made)) => payload.take(hook, &made),
                Ok(ChainOutcome::Skipped(value)) => {
                    if !payload.take_skipped(&value) {
                        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                        return Ok(Decision::Refused(text));
                    }
                    break;
                }
                Err(Error::Rejected(rejection)) => return Ok(Decision::Refused(rejection.message)),
                Err(error) => return Err(error),
            }
        }
        Ok(Decision::Payload(payload.written(&self.payload)))
    }

    fn passes(&self, plugin: &Plugin, payload: Value) -> Value {
        let is_modified = payload != self.payload;
        match self.one.settings.kind {
            InterceptorKind::Mutation => self.result(json!({ "modified": is_modified, "payload": payload })),
            InterceptorKind::Validation if !is_modified => self.result(json!({ "valid": true })),
            InterceptorKind::Validation => {
                // A guard that is not allowed to make its change does not pass the payload.
                let (valid, severity) = if plugin.security { (false, "error") } else { (true, "warn") };
                let changes = changes(&self.payload, &payload);
                let message = "the filter would change the payload";
                self.result(json!({
                    "valid": valid,
                    "severity": severity,
                    "messages": [{ "message": message, "severity": severity }],
                    "suggestions": changes,
                }))
            }
        }
    }

    fn refuses(&self, why: &str) -> Result<Value, ErrorData> {
        match (self.one.settings.kind, self.one.settings.mode) {
            (InterceptorKind::Validation, _) => Ok(self.result(json!({
                "valid": false,
                "severity": "error",
                "messages": [{ "message": why, "severity": "error" }],
            }))),
            (InterceptorKind::Mutation, InterceptorMode::Enforce) => Err(self.failed(why)),
            // An interceptor in audit mode does not block.
            (InterceptorKind::Mutation, InterceptorMode::Audit) => Ok(self.result(json!({
                "modified": false,
                "payload": self.payload,
                "info": { "refused": why },
            }))),
        }
    }

    /// Adds the fields that all results have.
    fn result(&self, mut result: Value) -> Value {
        result["interceptor"] = self.one.name.into();
        result["type"] = json!(self.one.settings.kind);
        result["phase"] = self.phase.as_str().into();
        result
    }

    fn failed(&self, why: &str) -> ErrorData {
        let name = self.one.name;
        let data = json!({ "interceptor": name, "phase": self.phase.as_str(), "reason": why });
        ErrorData::internal_error(format!("the interceptor `{name}` refused the payload: {why}"), Some(data))
    }

    fn too_slow(&self) -> ErrorData {
        let (name, time) = (self.one.name, self.time.as_millis());
        let data = json!({ "interceptor": name, "phase": self.phase.as_str(), "timeoutMs": time });
        let message = format!("the interceptor `{name}` exceeded its limit of {time} ms");
        ErrorData::new(TIMEOUT, message, Some(data))
    }
}

/// Returns the fields that differ between two payloads.
fn changes(before: &Value, after: &Value) -> Vec<Value> {
    let fields = after.as_object().into_iter().flatten();
    let changed = fields.filter(|(key, value)| before.get(key.as_str()) != Some(*value));
    changed.map(|(key, value)| json!({ "path": key, "value": value })).collect()
}
