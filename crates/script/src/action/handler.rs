//! Calls of a script's actions by clients.

use super::declaration::ACTION;
use super::function::Button;
use crate::declare::hooks::Param;
use crate::run::argument::UserValves;
use crate::run::script_call::CallEnd;
use crate::script::Script;
use rhai::Dynamic;
use std::sync::Arc;
use valvehouse_core::breaker::BreakerState;
use valvehouse_core::context::Turn;
use valvehouse_core::error::{Error, PluginError, Rejection};
use valvehouse_core::metrics::{CallMetrics, CallOutcome};
use valvehouse_core::trace::What;
use valvehouse_dialect::answer::{HookAnswer, summary_of_run};
use valvehouse_dialect::budget::input_size::attributed;
use valvehouse_dialect::value::{Shape, json_of, live};
use valvehouse_executor::{self as executor, ExecutorError, STUCK, Workload};
use valvehouse_json::Json;

/// The maximum size of a result, in bytes: it may contain a whole conversation.
const MAX_RESULT: usize = 16 << 20;

impl Script {
    /// Returns the buttons that this script shows under messages.
    pub fn buttons(&self) -> &[Button] {
        self.action.as_ref().map_or(&[], |action| &action.buttons)
    }

    /// Returns the script as an action; `None` if it has no function `action`.
    pub fn into_action(self: Arc<Self>, users: Arc<UserValves>) -> Option<ScriptAction> {
        self.action.as_ref()?;
        self.may_leave_work();
        let call_metrics = self.metrics().of(ACTION);
        Some(ScriptAction { script: self, users, call_metrics })
    }
}

/// A script with buttons. Clones share their state.
#[derive(Clone)]
pub struct ScriptAction {
    script: Arc<Script>,
    users: Arc<UserValves>,
    call_metrics: Arc<CallMetrics>,
}

impl ScriptAction {
    /// Returns the buttons, in the order of their declaration.
    pub fn buttons(&self) -> &[Button] {
        self.script.buttons()
    }

    /// Returns the button with this id.
    pub fn button(&self, id: &str) -> Option<&Button> {
        self.buttons().iter().find(|button| button.id == id)
    }

    /// Returns the button with this id, which may be the script's own one; without an id the only button.
    pub fn choose(&self, id: Option<&str>) -> Option<&Button> {
        match (id, self.buttons()) {
            (Some(id), all) => all.iter().find(|button| button.own_id == id || button.id == id),
            (None, [only]) => Some(only),
            (None, _) => None,
        }
    }

    /// Returns the script's own ids of all buttons, separated by commas.
    pub fn own_ids(&self) -> String {
        self.buttons().iter().map(|button| &*button.own_id).collect::<Vec<_>>().join(", ")
    }

    /// Runs the press of a button as a step of the turn's trace, on the executor because it may compute or wait
    /// until its timeout. Returns null or a map.
    ///
    /// # Errors
    /// Returns the rejection of the script, or its plugin error.
    pub async fn press(&self, button: &Button, body: Json, turn: &Turn) -> Result<Json, Error> {
        let trace = turn.trace().cloned();
        // The script may change `body`.
        let before = trace.is_some().then(|| body.deep_clone());
        let step =
            trace.as_ref().map(|trace| trace.begin(What::Hook(&self.script.caller.plugin, ACTION), &body));
        let result = self.run_apart(button, body, turn).await;
        if let Some(step) = step {
            let (word, cause) = match &result {
                Ok(_) => ("continue", None),
                Err(Error::Rejected(rejection)) => ("refused", Some(rejection.message.as_str())),
                Err(Error::Broken(failure)) => ("failed", Some(failure.cause.as_str())),
                Err(_) => ("failed", None),
            };
            let after =
                result.as_ref().ok().zip(before).and_then(|(result, before)| shown_after(before, result));
            step.end(word, cause, after.as_ref());
        }
        result
    }

    async fn run_apart(&self, button: &Button, body: Json, turn: &Turn) -> Result<Json, Error> {
        let workload = if self.call_metrics.is_slow() { Workload::CpuBound } else { Workload::Blocking };
        let owner = &self.script.caller.plugin;
        let (this, pressed, turn) = (self.clone(), button.own_id.clone(), turn.clone());
        let ran = executor::run_for(owner, workload, move || this.run(&pressed, &body, &turn)).await;
        if let Err(ExecutorError::Stuck) = &ran {
            self.script.breaker.trip(STUCK);
        }
        ran.unwrap_or_else(|error| Err(error.into()))
    }

    /// Runs one press, unless the script's circuit breaker is open.
    fn run(&self, pressed: &str, body: &Json, turn: &Turn) -> Result<Json, Error> {
        let breaker = &self.script.breaker;
        let admission = breaker.admit(|| turn.facts().client_digest());
        if let BreakerState::Open(rest) = admission {
            self.call_metrics.record_skipped();
            return Err(self.refused(breaker.rejection(rest)));
        }
        let result = self.measured(pressed, body, turn);
        match &result {
            // The script did not fail if the call was canceled with its turn.
            Err(Error::Broken(_)) if turn.is_over() => {}
            Err(Error::Broken(failure)) => {
                breaker.record(admission, Some(failure), || turn.facts().client_digest())
            }
            _ => breaker.record(admission, None, || turn.facts().client_digest()),
        }
        result.map_err(Error::into_rejection)
    }

    fn measured(&self, pressed: &str, body: &Json, turn: &Turn) -> Result<Json, Error> {
        let Some(action) = &self.script.action else { return Ok(Json::Null) };
        let params = action.params.iter().map(|param| match param {
            Param::Subject => live(body, Shape::Body),
            // Ported scripts compare `__id__` with the ids of their buttons.
            Param::Id | Param::ActionId => pressed.to_owned().into(),
            param => self.script.argument(*param, turn, &self.users),
        });
        let args = params.collect();
        let timing = self.call_metrics.begin();
        let (result, spent) = self.script.call_tool(ACTION, args, turn, action.timeout);
        if let Some(trace) = turn.trace() {
            trace.spend(ACTION, self.script.id(), spent);
        }
        let result = match result {
            Ok(value) => self.result(&value, turn),
            Err(CallEnd::Rejected(rejection)) => Err(self.refused(rejection)),
            // An error of the client is returned to the client and does not count for the circuit breaker.
            Err(CallEnd::Broken { client: Some(client), .. }) => Err(self.refused(unanswered(client))),
            Err(CallEnd::Broken { failure, summary, limit, .. }) => {
                Err(self.broken(attributed(failure, &summary, limit, body, turn.size()), turn))
            }
        };
        let ending = match &result {
            Err(Error::Broken(failure)) if failure.rejection.is_some() => CallOutcome::Refused,
            Err(Error::Broken(_)) if !turn.is_over() => CallOutcome::Failed,
            Err(Error::Rejected(_)) => CallOutcome::Refused,
            _ => CallOutcome::Continued,
        };
        self.call_metrics.end(&timing, spent, ending);
        result
    }

    /// Returns a copy of the result: null or a map. A text becomes the new content of the message.
    fn result(&self, value: &Dynamic, turn: &Turn) -> Result<Json, Error> {
        let unusable = |what: String| self.unusable(&what, turn);
        let value = match value.read_lock::<HookAnswer>().as_deref() {
            Some(HookAnswer::Skip(value) | HookAnswer::Ok(value, _)) => value.clone(),
            Some(HookAnswer::Error(rejection)) => return Err(self.refused(rejection.clone())),
            None => json_of(value).map_err(|error| {
                unusable(format!("a value that is not valid JSON: {}", summary_of_run(&error)))
            })?,
        };
        let value = match value.deep_clone() {
            Json::Text(text) => Json::from([("content", text.into())]),
            value @ (Json::Null | Json::Object(_)) => value,
            other => return Err(unusable(format!("{}; return nothing, a text or a map", other.kind()))),
        };
        value
            .encode_within(MAX_RESULT)
            .map_err(|why| unusable(format!("a result that is {why}")))
            .map(|_| value)
    }

    fn refused(&self, rejection: Rejection) -> Error {
        Error::Rejected(Rejection { plugin: self.script.id().into(), ..rejection })
    }

    fn unusable(&self, what: &str, turn: &Turn) -> Error {
        let cause = format!("{}: `{ACTION}` returned {what}", self.script.file.path.display());
        self.broken(PluginError::new(cause), turn)
    }

    fn broken(&self, failure: PluginError, turn: &Turn) -> Error {
        let failure = PluginError { plugin: self.script.id().into(), hook: ACTION.into(), ..failure };
        turn.log_failure(&failure);
        Error::Broken(failure)
    }
}

/// Returns the rejection of a press that asked a person who cannot be reached.
fn unanswered(client: Rejection) -> Rejection {
    let Rejection { message, status, .. } = &client;
    let help = if *status == 400 { "; send \"stream\": true and answer its questions" } else { "" };
    Rejection { message: format!("cannot ask a person: {message}{help}"), ..client }
}

/// Returns the body after a press for the comparison in a trace: with the new content of the message.
fn shown_after(before: Json, result: &Json) -> Option<Json> {
    let Some(content @ Json::Text(_)) = result.get("content") else {
        return (!result.is_null()).then(|| result.clone());
    };
    let message = before.get("messages").and_then(|messages| messages.at(-1))?;
    // The copy has no other references, so the change cannot fail.
    message.edit("content", content.deep_clone());
    Some(before)
}
