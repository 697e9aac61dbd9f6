//! Calls by MCP clients: an invocation like any other, whose events are sent and whose questions are asked
//! meanwhile.
//!
//! The state of a call that waits for an answer is carried by the client. It is sealed, bound to its owner
//! and its exact request, and expires.

use super::caller::Caller;
use super::events::Notifier;
use super::question::{Ask, Question};
use super::result::words;
use crate::pins::canonical;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use rmcp::model::{
    ClientCapabilities, InputRequest, InputRequests, InputRequiredResult, InputResponses, LoggingLevel,
    ProtocolVersion,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::{broadcast, mpsc};
use valvehouse_core::context::{Context, EmittedEvent, Events, Pauses, PendingQuestion, Questions, Turn};
use valvehouse_core::error::{Error, Rejection};
use valvehouse_core::kernel::{InvokeOutput, Kernel};
use valvehouse_core::text::hex;
use valvehouse_core::tool::Tool;
use valvehouse_core::trace::TraceGuard;
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// The maximum number of questions that one request answers.
const MAX_ROUNDS: usize = 16;

/// A request to call a tool, or to call a prompt or resource like a tool.
pub(super) struct Call<'a> {
    pub(super) app: &'a Arc<App>,
    pub(super) caller: &'a Caller,
    pub(super) context: &'a RequestContext<RoleServer>,
    pub(super) kernel: Kernel,
    pub(super) generation: u64,
    pub(super) method: &'static str,
    pub(super) tool: &'a Tool,
    pub(super) args: Json,
    /// The client's answers to the questions of an earlier round.
    pub(super) responses: Option<InputResponses>,
    /// The state of the earlier round.
    pub(super) state: Option<String>,
    /// The minimum level of log messages that the client receives.
    pub(super) level: Option<LoggingLevel>,
    pub(super) updates: broadcast::Sender<String>,
}

/// The outcome of a call.
pub(super) enum Outcome {
    Value(InvokeOutput),
    Failed(Error),
    /// The client has to answer first.
    Asks(InputRequiredResult),
}

/// Returns `true` if a request uses the protocol without sessions, in which clients cannot be asked during a
/// call.
pub(super) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

impl Call<'_> {
    /// Runs the call to its end, or to a question that the client has to answer with another request.
    ///
    /// # Errors
    /// Returns a protocol error for the state of another call, and for a canceled call.
    pub(super) async fn run(self) -> Result<Outcome, ErrorData> {
        let mut recording = self.caller.begin(self.app, self.generation);
        let outcome = match is_stateless(self.context) {
            true => self.in_rounds(&recording).await,
            false => self.at_once(&recording).await,
        };
        match &outcome {
            Ok(Outcome::Failed(error)) => drop(recording.failed(error.to_string())),
            Err(error) => drop(recording.failed(error.message.to_string())),
            Ok(_) => {}
        }
        recording.answered(200);
        if let Some(written) = recording.count() {
            written.await;
        }
        recording.done();
        outcome
    }

    fn turn(&self, recording: &TraceGuard, events: Events) -> Turn {
        let mut facts = self.caller.facts.clone();
        facts.trace = Some(recording.trace().clone());
        Turn::new(facts, Context::new(self.caller.variables.deep_clone()), events)
    }

    fn notifier(&self) -> Notifier {
        Notifier {
            peer: self.context.peer.clone(),
            token: self.context.meta.get_progress_token(),
            level: self.level,
            logger: self.tool.name().to_owned(),
            updates: self.updates.clone(),
            progress: -1.0,
        }
    }

    /// Runs a call of a session: the client gets questions while the call runs.
    async fn at_once(&self, recording: &TraceGuard) -> Result<Outcome, ErrorData> {
        // These questions cannot be answered through another endpoint.
        let questions = Questions::default();
        let (mut events, event_queue) = listening(Some(questions.clone()));
        let has_forms = self.context.client_capabilities().is_some_and(|own| own.elicitation.is_some());
        if !has_forms {
            events = events.holding(self.app.questions.clone());
        }
        let turn = self.turn(recording, events);
        let done = self.watched(&turn, event_queue, Some(&questions)).await?;
        Ok(done.map_or_else(Outcome::Failed, Outcome::Value))
    }

    /// Runs a call without a session: a question ends the request, and the next request continues after it.
    async fn in_rounds(&self, recording: &TraceGuard) -> Result<Outcome, ErrorData> {
        let about = self.about();
        let store = self.app.host.store();
        let mut state = match &self.state {
            Some(sealed) => State::open(sealed, &about, |text, about| store.unseal(text, about))?,
            None => State::default(),
        };
        let issued = state.open.take();
        let capabilities = self.context.client_capabilities().unwrap_or_default();
        for _ in 0..MAX_ROUNDS {
            let (events, event_queue) = listening(None);
            // A model that the tool calls cannot pause.
            let events = events.holding(self.app.questions.clone());
            let turn = self.turn(recording, events).pausing(self.pauses(&state, &about));
            let error = match self.watched(&turn, event_queue, None).await? {
                Ok(value) => return Ok(Outcome::Value(value)),
                Err(error) => error,
            };
            let Some((pauses, pending)) = turn.pauses().and_then(|pauses| Some((pauses, pauses.pending()?)))
            else {
                return Ok(Outcome::Failed(error));
            };
            let question = match Question::of(&pending.question, pending.place) {
                Ok(question) => question,
                Err(wrong) => return Ok(Outcome::Failed(Error::Rejected(Rejection::new(wrong)))),
            };
            let possible = question.possible(&capabilities);
            if possible.is_empty() {
                let mut missing = ErrorData::missing_required_client_capability(question.required());
                missing.message = words(&error).into();
                return Err(missing);
            }
            state.answers = pauses.answers();
            state.host_calls = pauses.host_calls();
            let hash = pending.hash();
            match self.answer(&question, &possible, &pending, issued.as_deref()) {
                // An answer is stored under the hash of its question.
                Some(answer) => state.answers.edit(&hash, answer),
                None => {
                    let requests: InputRequests =
                        possible.iter().map(|ask| (ask.key.clone(), ask.request.clone())).collect();
                    state.open = Some(hash);
                    let sealed = state.sealed(&about, |text, about| store.seal(text, about));
                    return Ok(Outcome::Asks(InputRequiredResult::new(Some(requests), Some(sealed))));
                }
            }
        }
        let rejection =
            Rejection::new(format!("the tool exceeded its limit of {MAX_ROUNDS} questions in one request"));
        Ok(Outcome::Failed(Error::Rejected(rejection)))
    }

    /// Returns the client's answer to a question. A question of a filter, and every approval, accepts only an
    /// answer that comes with the state issued for it.
    fn answer(
        &self,
        question: &Question,
        possible: &[&Ask],
        pending: &PendingQuestion,
        issued: Option<&str>,
    ) -> Option<Json> {
        let responses = self.responses.as_ref()?;
        let is_of_tool =
            pending.by == self.tool.name() || Some(pending.by.as_str()) == self.tool.spec.module.as_deref();
        let may_answer = match issued {
            Some(issued) => issued == pending.hash() || is_of_tool && !question.is_approval,
            None => self.state.is_none() && is_of_tool && !question.is_approval,
        };
        if !may_answer {
            return None;
        }
        question.answer(possible, |key| responses.get(key).cloned())
    }

    /// Returns the answers and host calls of this call so far.
    fn pauses(&self, state: &State, about: &str) -> Pauses {
        let pauses = Pauses::default();
        for (hash, answer) in state.answers.entries() {
            pauses.answer(hash.as_str(), answer);
        }
        pauses.restore_host_calls(&state.host_calls);
        let call = Json::from([
            ("id", format!("mcp_{}", &hex(&Sha256::digest(about))[..24]).into()),
            ("name", self.tool.name().into()),
            ("arguments", self.args.deep_clone()),
        ]);
        pauses.begin(call);
        pauses
    }

    /// Returns the subject that a state is bound to: the owner, the method, the name and the exact arguments.
    fn about(&self) -> String {
        let args = canonical(&Value::from(&self.args));
        format!("mcp\n{}\n{}\n{}\n{args}", self.caller.owner, self.method, self.tool.name())
    }

    /// Runs the tool; events are sent and questions are asked meanwhile.
    async fn watched(
        &self,
        turn: &Turn,
        mut event_queue: mpsc::UnboundedReceiver<Json>,
        questions: Option<&Questions>,
    ) -> Result<Result<InvokeOutput, Error>, ErrorData> {
        let mut notifier = self.notifier();
        let work = self.kernel.invoke_in(self.tool.name(), self.args.deep_clone(), turn);
        let mut work = std::pin::pin!(work);
        let mut open = FuturesUnordered::new();
        let done = loop {
            tokio::select! {
                biased;
                () = self.context.ct.cancelled() => {
                    return Err(ErrorData::internal_error("the client canceled this call", None));
                }
                Some(event) = event_queue.recv() => match (event.text("id"), questions) {
                    (Some(_), Some(questions)) => open.push(self.put(event, questions)),
                    _ => notifier.send(&event).await,
                },
                Some(()) = open.next(), if !open.is_empty() => {}
                done = &mut work => break done,
            }
        };
        while let Ok(event) = event_queue.try_recv() {
            if event.text("id").is_none() {
                notifier.send(&event).await;
            }
        }
        Ok(done)
    }

    /// Asks the client of a session a question, and passes its answer on.
    async fn put(&self, event: Json, questions: &Questions) {
        let id = event.text_or_empty("id");
        let capabilities = self.context.client_capabilities().unwrap_or_default();
        match self.ask_client(&event, &capabilities).await {
            Ok(Some(answer)) => questions.answer(&id, answer),
            Ok(None) => questions.dismiss(&id),
            Err(why) => {
                tracing::info!(tool = self.tool.name(), "cannot send a question to the client: {why}");
                questions.dismiss(&id)
            }
        };
    }

    async fn ask_client(
        &self,
        event: &Json,
        capabilities: &ClientCapabilities,
    ) -> Result<Option<Json>, String> {
        let question = Question::of(event, 0)?;
        let possible = question.possible(capabilities);
        if possible.is_empty() {
            return Err(
                "the client does not declare elicitation or another capability that the question needs"
                    .into(),
            );
        }
        let mut results: InputResponses = InputResponses::new();
        for ask in &possible {
            results.insert(ask.key.clone(), self.request(&ask.request).await?);
        }
        Ok(question.answer(&possible, |key| results.get(key).cloned()))
    }

    async fn request(&self, request: &InputRequest) -> Result<Value, String> {
        let peer = &self.context.peer;
        let result = match request.clone() {
            InputRequest::Elicitation(request) => {
                peer.create_elicitation(request.params).await.map(serde_json::to_value)
            }
            InputRequest::CreateMessage(request) => {
                peer.create_message(request.params).await.map(serde_json::to_value)
            }
            InputRequest::ListRoots(_) => peer.list_roots().await.map(serde_json::to_value),
            _ => return Err("the client does not support this kind of question".into()),
        };
        result.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }
}

/// Returns a receiver of events; the questions among them can be answered through `questions`.
fn listening(questions: Option<Questions>) -> (Events, mpsc::UnboundedReceiver<Json>) {
    let (send, event_queue) = mpsc::unbounded_channel();
    // The receiver may be gone.
    let listen = move |event: &EmittedEvent| drop(send.send(event.0.clone()));
    (Events::listening(listen, questions), event_queue)
}

/// The lifetime of a state, in seconds.
const LIFE: u64 = 3_600;

/// The answers and host calls of a call so far, and the open question.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    /// The answers, by the hashes of their questions.
    pub(super) answers: Json,
    /// The recorded results of host calls.
    pub(super) host_calls: Json,
    /// The hash of the open question.
    pub(super) open: Option<String>,
}

impl State {
    /// Seals the state; only hosts of this store can open it, and only for the same request.
    pub(super) fn sealed(&self, about: &str, seal: impl FnOnce(&str, &str) -> String) -> String {
        let plain = Json::from([
            ("answers", self.answers.deep_clone()),
            ("host_calls", self.host_calls.deep_clone()),
            ("open", self.open.as_deref().map_or(Json::Null, Json::from)),
            ("until", i64::try_from(now() + LIFE).unwrap_or(i64::MAX).into()),
        ]);
        seal(&plain.to_string(), about)
    }

    /// Opens a state sealed by [`State::sealed`] for the same request.
    ///
    /// # Errors
    /// Returns an error for clients if the state was changed, belongs to another request or owner, or has
    /// expired.
    pub(super) fn open(
        sealed: &str,
        about: &str,
        unseal: impl FnOnce(&str, &str) -> Option<String>,
    ) -> Result<Self, ErrorData> {
        let wrong = |why: &str| {
            ErrorData::invalid_params(
                format!("cannot use this requestState: {why}; send the request again without it"),
                None,
            )
        };
        let plain = unseal(sealed, about)
            .ok_or_else(|| wrong("it was changed, or belongs to another request, key or host"))?;
        let state = Json::parse(plain.as_bytes()).map_err(|_| wrong("it is not valid"))?;
        let until =
            state.get("until").and_then(|until| until.as_i64()).and_then(|until| u64::try_from(until).ok());
        if until.is_none_or(|until| until < now()) {
            return Err(wrong("it has expired"));
        }
        let part = |name: &str| state.field(name);
        Ok(Self {
            answers: part("answers"),
            host_calls: part("host_calls"),
            open: state.text("open").map(String::from),
        })
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_store::seal::SealKey;

    #[test]
    fn a_sealed_state_opens_only_for_its_request() {
        let key = SealKey::of(&"k".repeat(64)).unwrap();
        let state = State { open: Some("abc".into()), answers: Json::object(), host_calls: Json::Null };
        let sealed = state.sealed("ann tools/call pay {}", |text, about| key.seal(text, about));
        let open = |sealed: &str, about: &str, key: &SealKey| {
            State::open(sealed, about, |text, about| key.open(text, about))
        };
        assert_eq!(open(&sealed, "ann tools/call pay {}", &key).unwrap().open.as_deref(), Some("abc"));
        assert!(open(&sealed, "bob tools/call pay {}", &key).is_err());
        assert!(open(&format!("{sealed}x"), "ann tools/call pay {}", &key).is_err());
        let other = SealKey::of(&"o".repeat(64)).unwrap();
        assert!(open(&sealed, "ann tools/call pay {}", &other).is_err());
    }
}
