//! The pending action of a paused run, and the decisions on it.

use super::saved::RunSnapshot;
use valvehouse_core::chat::response::Head;
use valvehouse_core::chat::{ModelCall, message};
use valvehouse_core::context::{PendingQuestion, Turn};
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::kernel::{Kernel, open_calls};
use valvehouse_json::{Json, Object};

/// The prefix of each text returned instead of an answer while a run is paused. The text is shown to the client
/// but not stored in the conversation.
pub(super) const WAITING: &str = "Waiting for a person: run ";

/// A person's decision on the pending action of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Resumes the run where it stopped, without a decision.
    GoOn,
    /// Approves the action, optionally with other arguments.
    Approve {
        /// The arguments that replace the model's.
        arguments: Option<Json>,
    },
    /// Rejects the action.
    Reject {
        /// The reason, for the model.
        reason: Option<String>,
    },
    /// The answer to a question, or the result of a tool whose own result is unknown.
    Answer(Json),
    /// Repeats the step, including a tool for which it is unknown whether it ran.
    Retry,
}

impl Decision {
    /// Approves the action.
    pub fn approve() -> Self {
        Self::Approve { arguments: None }
    }

    /// Approves the action with these arguments instead of the model's.
    pub fn approve_with(arguments: impl Into<Json>) -> Self {
        Self::Approve { arguments: Some(arguments.into()) }
    }

    /// Rejects the action, with a reason for the model.
    pub fn reject(reason: impl Into<String>) -> Self {
        Self::Reject { reason: Some(reason.into()) }
    }

    /// Reads `{decision: approve|reject|answer|retry|continue, arguments?, reason?, answer?}`.
    ///
    /// # Errors
    /// Returns a request error for an unknown decision.
    pub fn from_json(json: &Json) -> Result<Self, Error> {
        let word = json.text_or_empty("decision");
        match word.as_str() {
            "approve" | "confirm" | "approved" => {
                Ok(Self::Approve { arguments: json.get("arguments").filter(|given| !given.is_null()) })
            }
            "modify" => Ok(Self::Approve { arguments: json.get("arguments") }),
            "reject" | "rejected" => Ok(Self::Reject { reason: json.text("reason").map(String::from) }),
            "answer" | "reply" => Ok(Self::Answer(json.field("answer"))),
            "retry" => Ok(Self::Retry),
            "" | "continue" => Ok(Self::GoOn),
            other => Err(Error::invalid(
                format!("unknown decision `{other}`: expected approve, reject, answer, retry or continue"),
                Some("decision"),
            )),
        }
    }
}

impl Decision {
    /// Converts the decision to the form that [`Decision::from_json`] reads.
    pub fn to_json(&self) -> Json {
        let (word, more) = match self {
            Self::GoOn => ("continue", None),
            Self::Retry => ("retry", None),
            Self::Approve { arguments } => {
                ("approve", arguments.as_ref().map(|arguments| ("arguments", arguments.deep_clone())))
            }
            Self::Reject { reason } => ("reject", reason.as_deref().map(|reason| ("reason", reason.into()))),
            Self::Answer(answer) => ("answer", Some(("answer", answer.deep_clone()))),
        };
        let decision = ("decision".into(), word.into());
        let more = more.map(|(name, value)| (name.into(), value));
        std::iter::once(decision).chain(more).collect::<Object>().into()
    }
}

/// Returns the pending action for a question.
pub(super) fn of_question(question: &PendingQuestion) -> Json {
    Json::from([
        ("type", question.question.text_or_empty("type").into()),
        ("by", question.by.as_str().into()),
        ("question", question.question.deep_clone()),
        ("call", question.call.deep_clone()),
        ("place", i64::from(question.place).into()),
        ("hash", question.hash().into()),
    ])
}

/// Returns the pending action for a tool for which it is unknown whether it ran.
pub(super) fn of_unfinished(in_flight: &Json) -> Json {
    let name = in_flight.text_or_empty("name");
    let message = format!(
        "the run was interrupted in the tool `{name}`, which may or may not have taken effect: retry runs it \
         again, answer sets its result, reject reports a failure to the model"
    );
    let question =
        Json::from([("type", UNFINISHED.into()), ("data", Json::from([("message", message.into())]))]);
    Json::from([
        ("type", UNFINISHED.into()),
        ("by", name.into()),
        ("question", question),
        ("call", in_flight.deep_clone()),
    ])
}

const UNFINISHED: &str = "unfinished_tool";

/// Returns the answer for the client of a paused run, with `run_id` and `pending_action`.
pub(super) fn answer(run: &str, pending: &Json, turn: &Turn) -> Json {
    let model = turn.facts().model.text("id").unwrap_or_else(|| "valvehouse".into());
    let text = format!("{WAITING}{run} {}", in_words(pending));
    let answer = Head::new(model).completion(message::assistant(text), "stop");
    // The values and the object are new, so the writes cannot fail.
    answer.put("run_id", run);
    answer.put("pending_action", pending.deep_clone());
    answer
}

/// Returns `true` if a message has the text of a paused run.
pub(super) fn is_waiting(message: &Json) -> bool {
    message::text_of(message).contains(WAITING)
}

/// Returns the question of a pending action as a clause that follows the name of the run.
pub fn in_words(pending: &Json) -> String {
    let data = pending.at_path("question.data");
    let message = data.text("message").unwrap_or_else(|| data.text_or_empty("description"));
    match pending.text("type").as_deref() {
        Some("approval") => {
            let tool = data.text_or_empty("tool");
            format!("asks whether `{tool}` may run with {}", data.field("arguments"))
        }
        _ if message.is_empty() => format!("asks {}", pending.field("question")),
        _ => format!("asks: {message}"),
    }
}

/// Applies a decision to a paused run.
pub(super) fn decide(saved: &mut RunSnapshot, decision: &Decision) -> Result<(), Error> {
    let pending = std::mem::take(&mut saved.pending);
    if *decision == Decision::Retry {
        // The step runs again without recorded host calls.
        saved.host_calls = Json::Null;
    }
    if pending.is_null() {
        return match decision {
            Decision::GoOn => Ok(()),
            Decision::Retry => {
                saved.in_flight = Json::Null;
                Ok(())
            }
            _ => Err(conflict("this run has no pending action; it can only be continued or retried")),
        };
    }
    if pending.text("type").as_deref() == Some(UNFINISHED) {
        return unfinished(saved, &pending, decision);
    }
    let answer = match (pending.text("type").as_deref(), decision) {
        (_, Decision::Retry | Decision::GoOn) => return Ok(()),
        (Some("approval"), Decision::Approve { arguments: Some(arguments) }) => {
            return changed(saved, &pending, arguments);
        }
        (_, Decision::Approve { arguments: Some(_) }) => {
            return Err(conflict(
                "cannot change the arguments: only a tool call that waits for approval permits it",
            ));
        }
        (Some("approval"), Decision::Approve { .. }) => Json::from([("approved", true.into())]),
        (Some("confirmation"), Decision::Approve { .. }) => true.into(),
        (_, Decision::Approve { .. }) => {
            return Err(conflict("cannot approve: this run asks a question; send an answer instead"));
        }
        (Some("approval"), Decision::Reject { reason }) => rejection("approved", reason),
        (Some("confirmation"), Decision::Reject { reason }) => rejection("confirmed", reason),
        (_, Decision::Reject { reason }) => {
            let reason = reason.clone().unwrap_or_else(|| "the person refused to answer".into());
            Json::from([("error", reason.into())])
        }
        (_, Decision::Answer(answer)) => answer.deep_clone(),
    };
    let hash = pending.text_or_empty("hash");
    saved.answers.set(&hash, answer).map_err(|error| Error::Host(error.to_string()))
}

fn rejection(word: &'static str, reason: &Option<String>) -> Json {
    Json::from([(word, false.into()), ("reason", reason.clone().into())])
}

/// Replaces the arguments of the call, and binds the answer to the new arguments.
fn changed(saved: &mut RunSnapshot, pending: &Json, arguments: &Json) -> Result<(), Error> {
    if arguments.as_object().is_none() {
        return Err(Error::invalid(
            "invalid `arguments`: expected an object with the parameters of the tool",
            Some("arguments"),
        ));
    }
    let (question, call) = (pending.field("question").deep_clone(), pending.field("call"));
    let id = call.text("id").ok_or_else(|| {
        conflict("cannot change the arguments: this approval is not for a tool call by the model")
    })?;
    let fits = |result: Result<(), valvehouse_json::MisplacedValue>| {
        result.map_err(|error| Error::Host(format!("cannot change the arguments: {error}")))
    };
    fits(question.at_path("data").set("arguments", arguments.deep_clone()))?;

    let pending_question = PendingQuestion {
        by: pending.text_or_empty("by").into(),
        place: u32::try_from(pending.count("place")).unwrap_or(0),
        question,
        call,
        within: String::new(),
    };
    fits(saved.answers.set(&pending_question.hash(), Json::from([("approved", true.into())])))?;
    fits(saved.progress.arguments.set(&id, arguments.deep_clone()))
}

/// Handles a tool that started and did not end: an idempotent one runs again, any other waits for a person.
pub(super) fn look_at_unfinished(
    kernel: &Kernel,
    run: &str,
    saved: &mut RunSnapshot,
    decision: &Decision,
) -> Result<(), Error> {
    if saved.in_flight.is_null() || !saved.pending.is_null() {
        return Ok(());
    }
    let name = saved.in_flight.text_or_empty("name");
    if kernel.find_tool(&name).is_some_and(|tool| tool.spec.idempotent) {
        saved.in_flight = Json::Null;
        return Ok(());
    }
    saved.pending = of_unfinished(&saved.in_flight);
    if *decision != Decision::GoOn {
        return Ok(());
    }
    let why = saved.pending.at_path("question.data").text_or_empty("message");
    Err(conflict(format!("run {run}: {why}")))
}

/// Applies a decision to a tool for which it is unknown whether it ran.
fn unfinished(saved: &mut RunSnapshot, pending: &Json, decision: &Decision) -> Result<(), Error> {
    let call = pending.field("call");
    let id = call.text_or_empty("id");
    let result = match decision {
        Decision::Retry | Decision::Approve { arguments: None } => {
            saved.in_flight = Json::Null;
            return Ok(());
        }
        Decision::GoOn => {
            return Err(conflict(
                "cannot continue: the outcome of the tool is unknown; choose retry, answer or reject",
            ));
        }
        Decision::Approve { .. } => {
            return Err(conflict(
                "cannot change the arguments of a tool that may have run: reject it, and the model can call it again",
            ));
        }
        Decision::Reject { reason } => {
            let reason = reason.clone().unwrap_or_else(|| "the tool was interrupted and did not end".into());
            Json::from([("error", reason.into())])
        }
        Decision::Answer(answer) => answer.deep_clone(),
    };
    saved.in_flight = Json::Null;
    let text = result.as_str().map_or_else(|| result.to_string(), str::to_owned);
    saved.progress.push_message(message::tool(&id, text))
}

/// Creates results for calls whose approval a person left open by sending another message.
pub(super) fn cancelled(messages: &[Json]) -> Vec<Json> {
    let answer = |call: ModelCall| {
        let text = Json::from([
            ("error", "cancelled".into()),
            ("reason", "the person sent another message instead".into()),
        ]);
        message::tool(&call.id, text.to_string())
    };
    open_calls(messages).into_iter().map(answer).collect()
}

/// Creates an error for an action that conflicts with the current state.
pub(super) fn conflict(message: impl Into<String>) -> Error {
    Error::Request {
        message: message.into(),
        param: None,
        code: Some("conflict"),
        kind: RequestErrorKind::Conflict,
    }
}
