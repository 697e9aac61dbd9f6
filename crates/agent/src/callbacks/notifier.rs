//! Notification of callbacks about the events of a turn and of an agent, and the queue for script callbacks.

use super::event::{CallbackEvent, Who};
use super::handlers::Callbacks;
use parking_lot::Mutex;
use std::error::Error;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use valvehouse_core::callback::{Callback, Listener};
use valvehouse_core::chat::{ModelCall, message, response};
use valvehouse_core::context::{Notice, NoticeKind, NoticeKinds, Observer, ToolCalled, Turn};
use valvehouse_core::filter::Verdict::Continue;
use valvehouse_core::filter::{self, Chain, FilterEntry, PreChat, PreInvocation};
use valvehouse_json::Json;

/// The tag of retrievers, which are tools that look up documents.
const RETRIEVER: &str = "retriever";

/// The priority of the two filters below, which run after all other filters.
const LAST: f64 = 9999.0;

/// The notifier for one run. It observes the turn; the agent reports the other events.
pub struct Notifier {
    who: Who,
    callbacks: Callbacks,
    queue: Option<Queue>,
    /// The callbacks with listeners, one bit each.
    subscriptions: u32,
    round: Mutex<Round>,
}

/// The state of a run.
#[derive(Default)]
struct Round {
    /// Set while a model call is in progress.
    asking: bool,
    /// The request seen by the last filter, if that was before the start of the call was reported.
    call: Option<Json>,
    /// Set once there is a final answer.
    finished: bool,
    /// The tool call whose start was reported before the run paused in it.
    reported_start: Option<String>,
    /// Set if `on_tool_call` was reported as well.
    reported_call: bool,
}

/// The notifier of a turn, for its filters.
#[derive(Default)]
struct TurnNotifier(OnceLock<Arc<Notifier>>);

impl Notifier {
    /// Creates a notifier for a run.
    pub fn new(who: Who, callbacks: Callbacks) -> Self {
        let subscriptions = bits(|callback| callbacks.handles(callback));
        Self { who, callbacks, queue: None, subscriptions, round: Mutex::default() }
    }

    /// Adds listeners that run concurrently with the run, such as scripts; needs a runtime. Their scratch maps
    /// are shared with the hooks of the turn.
    #[must_use]
    pub fn with_listeners(mut self, listeners: &[Arc<dyn Listener>], turn: &Turn) -> Self {
        if listeners.is_empty() {
            return self;
        }
        self.subscriptions |= bits(|callback| listeners.iter().any(|listener| listener.handles(callback)));
        let places = listeners.iter().map(|listener| (listener.clone(), turn.state(listener.name())));
        // A separate turn holds no reference to this notifier and does not end with the run's turn.
        let beside = Turn::new(turn.facts().clone(), turn.context().clone(), turn.events().clone());
        self.queue = Some(Queue::start(places.collect(), beside));
        self
    }

    /// Sets this notifier as the observer of a turn.
    #[must_use]
    pub fn watch(self: &Arc<Self>, turn: Turn) -> Turn {
        // A turn is observed once.
        let _ = turn.local::<TurnNotifier>().0.set(self.clone());
        turn.observed_by(self.clone())
    }

    pub(super) fn of(turn: &Turn) -> Option<Arc<Self>> {
        turn.local::<TurnNotifier>().0.get().cloned()
    }

    /// Reports the start of the run with its input.
    pub fn started(&self, input: &Json) {
        self.notify(Callback::TurnStart, || [("input", input.deep_clone())]);
    }

    /// Reports the answer of the run. An answer that no model generated is also reported as the final one.
    pub fn ended(&self, answer: &str, result: &Json) {
        if !std::mem::replace(&mut self.round.lock().finished, true) {
            self.notify(Callback::AgentFinish, || [("text", answer.into())]);
        }
        self.notify(Callback::TurnEnd, || [("result", result.deep_clone())]);
    }

    /// Reports the failure of the run.
    pub fn failed(&self, error: &str) {
        self.notify(Callback::TurnError, || [("error", error.into())]);
    }

    /// Reports that the run pauses for a person; `pending` is the pending action.
    pub fn interrupted(&self, pending: &Json) {
        self.notify(Callback::Interrupt, || [("pending", pending.deep_clone())]);
    }

    /// Reports that the run resumes with a decision. Events of a tool call that were reported before the pause
    /// are not repeated, because filters after the callbacks, or the tool itself, paused the call.
    pub fn resumed(&self, decision: &Json, pending: &Json, chain: &Chain) {
        let (call, by) = (pending.at_path("call"), pending.text_or_empty("by"));
        let name = call.text("name").or_else(|| call.at_path("function").text("name"));
        let is_tool = name.is_some_and(|name| name == by);
        let is_behind = |filter: &FilterEntry| filter.name() == by && filter.place() > LAST;
        {
            let mut round = self.round.lock();
            round.reported_start = call.text("id").map(String::from);
            round.reported_call = is_tool || chain.filters().iter().any(is_behind);
        }
        self.notify(Callback::Resume, || [("decision", decision.deep_clone())]);
    }

    /// Reports a custom event.
    pub fn custom(&self, name: &str, data: &Json) {
        self.notify(Callback::CustomEvent, || [("name", name.into()), ("data", data.deep_clone())]);
    }

    /// Waits until all listeners were called, at most five seconds.
    pub async fn drain(&self) {
        if let Some(queue) = &self.queue {
            queue.drain(MAX_WAIT, &self.who.run_id).await;
        }
    }

    /// Reports the request seen by the last filter before a model call, after the start of that call regardless
    /// of their order.
    pub(super) fn llm_call(&self, chat: &PreChat) {
        if !self.handles(Callback::LlmCall) {
            return;
        }
        let call = Json::from([("messages", chat.messages().deep_clone()), ("model", chat.model().into())]);
        {
            let mut round = self.round.lock();
            if !round.asking {
                round.call = Some(call);
                return;
            }
        }
        self.dispatch(Callback::LlmCall, call);
    }

    /// Reports the arguments seen by the last filter before a tool call.
    pub(super) fn tool_call(&self, call: &PreInvocation) {
        if std::mem::take(&mut self.round.lock().reported_call) {
            return;
        }
        self.notify(Callback::ToolCall, || {
            [("tool", call.tool_name().into()), ("args", call.args().deep_clone())]
        });
    }

    fn handles(&self, callback: Callback) -> bool {
        self.subscriptions & bit(callback) != 0
    }

    /// Sends an event to the listeners. It is built only if there are any.
    fn notify<const N: usize>(&self, callback: Callback, data: impl FnOnce() -> [(&'static str, Json); N]) {
        if self.handles(callback) {
            self.dispatch(callback, Json::from(data()));
        }
    }

    fn dispatch(&self, callback: Callback, data: Json) {
        let event = CallbackEvent::now(callback, data, &self.who);
        self.callbacks.notify(&event);
        if let Some(queue) = &self.queue {
            queue.push(event);
        }
    }

    fn llm_start(&self, messages: &Json) {
        let call = {
            let mut round = self.round.lock();
            round.asking = true;
            round.call.take()
        };
        self.notify(Callback::LlmStart, || [("messages", messages.deep_clone())]);
        if let Some(call) = call {
            self.dispatch(Callback::LlmCall, call);
        }
    }

    /// Records that a model call ended; `is_final` is `true` for the final answer.
    fn no_longer_asking(&self, is_final: bool) {
        let mut round = self.round.lock();
        round.finished |= is_final;
        (round.asking, round.call) = (false, None);
    }

    fn answered(&self, answer: &Json) {
        let message = response::message_of(answer);
        let text = message::text_of(&message);
        let is_final = ModelCall::all(&message).is_empty();
        self.no_longer_asking(is_final);
        self.notify(Callback::LlmEnd, || [("response", answer.deep_clone())]);
        if !text.is_empty() {
            self.notify(Callback::Text, || [("text", text.clone().into())]);
        }
        if is_final {
            self.notify(Callback::AgentFinish, || [("text", text.into())]);
        } else {
            let calls = || message.field("tool_calls").deep_clone();
            self.notify(Callback::AgentAction, || [("text", text.into()), ("tool_calls", calls())]);
        }
    }

    /// Sends the event of a tool and, for a retriever, the equivalent event.
    fn notify_tool(
        &self,
        of_tool: Callback,
        of_retriever: Callback,
        call: &ToolCalled,
        outcome: Option<(&'static str, &str)>,
    ) {
        let is_retriever = call.tags.iter().any(|tag| tag == RETRIEVER);
        for callback in [Some(of_tool), is_retriever.then_some(of_retriever)].into_iter().flatten() {
            if self.handles(callback) {
                let data = Json::from([
                    ("tool", call.name.as_str().into()),
                    ("args", call.arguments.deep_clone()),
                    ("tool_call_id", call.id.as_str().into()),
                ]);
                if let Some((name, text)) = outcome {
                    // The object was created above, so the write cannot fail.
                    data.edit(name, text);
                }
                self.dispatch(callback, data);
            }
        }
    }
}

impl Observer for Notifier {
    fn kinds(&self) -> NoticeKinds {
        match self.handles(Callback::Token) {
            true => NoticeKinds::ALL,
            false => NoticeKinds::ALL.without(NoticeKind::LlmToken),
        }
    }

    fn notice(&self, notice: Notice) {
        match notice {
            Notice::LlmStart { messages } => self.llm_start(&messages),
            Notice::LlmToken { text } => self.notify(Callback::Token, || [("token", text.into())]),
            Notice::LlmEnd { response } => self.answered(&response),
            Notice::LlmError { message } => {
                self.no_longer_asking(false);
                self.notify(Callback::LlmError, || [("error", message.into())]);
            }
            Notice::ToolStart { call } => {
                if self.round.lock().reported_start.take().is_some_and(|id| id == call.id) {
                    return;
                }
                self.notify_tool(Callback::ToolStart, Callback::RetrieverStart, &call, None);
            }
            Notice::ToolEnd { call, result } => {
                let outcome = Some(("result", result.as_str()));
                self.notify_tool(Callback::ToolEnd, Callback::RetrieverEnd, &call, outcome);
            }
            Notice::ToolError { call, message } => {
                let outcome = Some(("error", message.as_str()));
                self.notify_tool(Callback::ToolError, Callback::RetrieverError, &call, outcome);
            }
            Notice::Retry { what, attempt, most, error, delay } => self.notify(Callback::Retry, || {
                [
                    ("what", what.into()),
                    ("attempt", i64::from(attempt).into()),
                    ("max_retries", i64::from(most).into()),
                    ("error", error.into()),
                    ("delay", i64::try_from(delay.as_millis()).unwrap_or(i64::MAX).into()),
                ]
            }),
            Notice::Emitted { event } => {
                let data = event.field("data");
                self.custom(&event.text_or_empty("type"), &data);
            }
        }
    }
}

const fn bit(callback: Callback) -> u32 {
    1 << callback as u8
}

fn bits(handles: impl Fn(Callback) -> bool) -> u32 {
    Callback::ALL.into_iter().filter(|callback| handles(*callback)).fold(0, |all, one| all | bit(one))
}

impl Callbacks {
    /// Returns the filters that an agent's kernel needs for `on_llm_call` and `on_tool_call`. They notify the
    /// notifier of the turn in which they run.
    pub fn filters() -> Vec<FilterEntry> {
        let llm_call = filter::pre_chat("agent_on_llm_call", |chat| {
            if let Some(notifier) = Notifier::of(chat.turn()) {
                notifier.llm_call(chat);
            }
            Ok(Continue)
        });
        let tool_call = filter::pre_invocation("agent_on_tool_call", |call| {
            if let Some(notifier) = Notifier::of(call.turn()) {
                notifier.tool_call(call);
            }
            Ok(Continue)
        });
        vec![llm_call.priority(LAST), tool_call.priority(LAST)]
    }
}

/// The maximum number of queued events; further events are dropped, because a run does not wait for listeners.
const MAX_EVENTS: usize = 10_000;

/// The maximum time for which the end of a run waits for listeners.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(5);

/// The queued events of one run, and the task that delivers them in order. The task ends after the last event
/// once this value is dropped.
pub(super) struct Queue {
    sender: mpsc::Sender<Message>,
    lost: AtomicU64,
}

enum Message {
    Event(CallbackEvent),
    /// A mark; all earlier events were delivered.
    Mark(oneshot::Sender<()>),
}

/// A listener with its scratch map for the run.
pub(super) type Place = (Arc<dyn Listener>, Json);

impl Queue {
    /// Starts the task that delivers events; needs a runtime.
    pub(super) fn start(listeners: Vec<Place>, turn: Turn) -> Self {
        Self::with_room(MAX_EVENTS, listeners, turn)
    }

    pub(super) fn with_room(most: usize, listeners: Vec<Place>, turn: Turn) -> Self {
        let (sender, sent) = mpsc::channel(most);
        tokio::spawn(hand_on(sent, listeners, turn));
        Self { sender, lost: AtomicU64::new(0) }
    }

    /// Queues an event without waiting.
    pub(super) fn push(&self, event: CallbackEvent) {
        if self.sender.try_send(Message::Event(event)).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Waits until all queued events were delivered, up to a limit.
    pub(super) async fn drain(&self, longest: Duration, run: &str) {
        let all = async {
            let (mark, handed_on) = oneshot::channel();
            if self.sender.send(Message::Mark(mark)).await.is_ok() {
                // If the task is gone, there is nothing to wait for.
                let _ = handed_on.await;
            }
        };
        if timeout(longest, all).await.is_err() {
            let seconds = longest.as_secs_f64();
            tracing::warn!(
                run,
                "script callbacks are still running after {seconds} s; the run continues without waiting"
            );
        }
        let lost = self.lost.swap(0, Relaxed);
        if lost > 0 {
            tracing::warn!(run, "script callbacks are too slow: {lost} events were dropped");
        }
    }
}

async fn hand_on(mut sent: mpsc::Receiver<Message>, listeners: Vec<Place>, turn: Turn) {
    while let Some(next) = sent.recv().await {
        match next {
            Message::Event(event) => {
                for (listener, state) in listeners.iter().filter(|(one, _)| one.handles(event.callback)) {
                    let outcome =
                        listener.on_event(event.callback, event.to_json(), state.clone(), turn.clone());
                    if let Err(why) = outcome.await {
                        failed(&**listener, event.callback, &*why);
                    }
                }
            }
            // The waiting caller may be gone.
            Message::Mark(mark) => drop(mark.send(())),
        }
    }
}

fn failed(listener: &dyn Listener, callback: Callback, why: &dyn Error) {
    tracing::warn!(plugin = listener.name(), "{callback} failed: {why}");
}
