//! A run reported by hand, and its listeners.

use super::notifier::Queue;
use super::*;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::chat::{message, response};
use valvehouse_core::context::{Events, Notice, NoticeKind, Observer, ToolCalled, Turn};
use valvehouse_core::error::BoxError;
use valvehouse_core::filter::{Chain, ChainOutcome as Done, Hook};
use valvehouse_json::Json;

type Log = Arc<Mutex<Vec<CallbackEvent>>>;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

fn who() -> Who {
    Who { agent_id: "a-1".into(), agent_name: "helper".into(), run_id: "r-1".into() }
}

/// Returns callbacks that record all events.
fn all() -> (Callbacks, Log) {
    let log = Log::default();
    let callbacks = Callback::ALL.into_iter().fold(Callbacks::new(), |callbacks, callback| {
        let log = log.clone();
        callbacks.on(callback, move |event| log.lock().push(event.clone()))
    });
    (callbacks, log)
}

fn names(log: &Log) -> Vec<&'static str> {
    log.lock().iter().map(|event| event.callback.name()).collect()
}

fn data(log: &Log, callback: Callback) -> String {
    let events = log.lock();
    events.iter().find(|event| event.callback == callback).expect("it was reported").data.to_string()
}

fn answer_of(text: &str) -> Notice {
    let head = response::Head::with_id("c", "m");
    Notice::LlmEnd { response: head.text(text) }
}

fn calls(tool: &str) -> Notice {
    let message = message::assistant("let me see");
    let call =
        format!(r#"[{{"id":"c1","type":"function","function":{{"name":"{tool}","arguments":"{{}}"}}}}]"#);
    message.set("tool_calls", json(&call)).unwrap();
    Notice::LlmEnd { response: response::Head::with_id("c", "m").completion(message, "tool_calls") }
}

fn called(tags: &[&str]) -> ToolCalled {
    let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    ToolCalled { id: "c1".into(), name: "look".into(), arguments: json(r#"{"q":"tea"}"#), tags }
}

fn asks() -> Notice {
    Notice::LlmStart { messages: vec![message::user("hi")].into() }
}

async fn through_filters(hook: Hook, ctx: &str, turn: &Turn) {
    let chain = Chain::new(Callbacks::filters());
    assert!(matches!(chain.run(hook, json(ctx), turn).await, Ok(Done::Done(_))));
}

#[tokio::test]
async fn callbacks_report_each_event_of_a_run_once_and_in_order() {
    let (callbacks, log) = all();
    let notifier = Arc::new(Notifier::new(who(), callbacks));
    let turn = notifier.watch(Turn::default());
    let notify = |kind: NoticeKind, notice: Notice| turn.notify(kind, || notice);
    notifier.started(&"hi".into());
    through_filters(Hook::PreChat, r#"{"messages":[1],"model":"m"}"#, &turn).await;
    notify(NoticeKind::LlmStart, asks());
    notify(NoticeKind::LlmToken, Notice::LlmToken { text: "let me see".into() });
    notify(NoticeKind::LlmEnd, calls("look"));
    notify(NoticeKind::ToolStart, Notice::ToolStart { call: called(&["retriever"]) });
    through_filters(Hook::PreInvocation, r#"{"tool":{"name":"look"},"args":{"q":"tea"}}"#, &turn).await;
    notify(NoticeKind::ToolEnd, Notice::ToolEnd { call: called(&["retriever"]), result: "found".into() });
    notify(NoticeKind::LlmStart, asks());
    // In this case, the filters run after the reported start.
    through_filters(Hook::PreChat, r#"{"messages":[2],"model":"m"}"#, &turn).await;
    notify(NoticeKind::LlmEnd, answer_of("done"));
    notifier.ended("done", &json(r#"{"content":"done"}"#));
    let expected = [
        "on_turn_start",
        "on_llm_start",
        "on_llm_call",
        "on_token",
        "on_llm_end",
        "on_text",
        "on_agent_action",
        "on_tool_start",
        "on_retriever_start",
        "on_tool_call",
        "on_tool_end",
        "on_retriever_end",
        "on_llm_start",
        "on_llm_call",
        "on_llm_end",
        "on_text",
        "on_agent_finish",
        "on_turn_end",
    ];
    assert_eq!(names(&log), expected);
    assert_eq!(data(&log, Callback::LlmCall), r#"{"messages":[1],"model":"m"}"#);
    assert_eq!(data(&log, Callback::Token), r#"{"token":"let me see"}"#);
    assert_eq!(data(&log, Callback::ToolCall), r#"{"tool":"look","args":{"q":"tea"}}"#);
    let end = r#"{"tool":"look","args":{"q":"tea"},"tool_call_id":"c1","result":"found"}"#;
    assert_eq!((data(&log, Callback::ToolEnd), data(&log, Callback::RetrieverEnd)), (end.into(), end.into()));
    assert!(
        data(&log, Callback::AgentAction).starts_with(r#"{"text":"let me see","tool_calls":[{"id":"c1""#)
    );
    assert_eq!(data(&log, Callback::TurnEnd), r#"{"result":{"content":"done"}}"#);
}

#[tokio::test]
async fn callbacks_report_errors_but_no_call_that_was_not_made() {
    let (callbacks, log) = all();
    let notifier = Arc::new(Notifier::new(who(), callbacks));
    let turn = notifier.watch(Turn::default());
    through_filters(Hook::PreChat, r#"{"messages":[1]}"#, &turn).await;
    notifier.notice(Notice::LlmError { message: "refused".into() });
    notifier.notice(asks());
    notifier.notice(Notice::Retry {
        what: "provider p".into(),
        attempt: 1,
        most: 2,
        error: "busy".into(),
        delay: Duration::from_millis(250),
    });
    notifier.notice(Notice::LlmError { message: "down".into() });
    notifier.notice(Notice::ToolError { call: called(&["retriever"]), message: "no".into() });
    notifier.failed("down");
    let expected = [
        "on_llm_error",
        "on_llm_start",
        "on_retry",
        "on_llm_error",
        "on_tool_error",
        "on_retriever_error",
        "on_turn_error",
    ];
    assert_eq!(names(&log), expected);
    let retry = r#"{"what":"provider p","attempt":1,"max_retries":2,"error":"busy","delay":250}"#;
    assert_eq!(data(&log, Callback::Retry), retry);
}

#[test]
fn pauses_and_custom_events_are_reported() {
    let (callbacks, log) = all();
    let notifier = Notifier::new(who(), callbacks);
    notifier.interrupted(&json(r#"{"tool":"pay"}"#));
    notifier.resumed(&"confirm".into(), &Json::Null, &Chain::default());
    notifier.custom("progress", &50_i64.into());
    notifier.notice(Notice::Emitted { event: json(r#"{"type":"status","data":{"done":true}}"#) });
    assert_eq!(names(&log), ["on_interrupt", "on_resume", "on_custom_event", "on_custom_event"]);
    assert_eq!(data(&log, Callback::CustomEvent), r#"{"name":"progress","data":50}"#);
    assert_eq!(log.lock()[3].data.to_string(), r#"{"name":"status","data":{"done":true}}"#);
}

#[test]
fn a_final_answer_without_a_model_is_reported_once_at_the_end() {
    let (callbacks, log) = all();
    Notifier::new(who(), callbacks).ended("from a filter", &Json::Null);
    assert_eq!(names(&log), ["on_agent_finish", "on_turn_end"]);
    assert_eq!(data(&log, Callback::AgentFinish), r#"{"text":"from a filter"}"#);
}

#[test]
fn an_event_names_its_run_and_its_time() {
    let (callbacks, log) = all();
    Notifier::new(who(), callbacks).started(&"hi".into());
    let event = log.lock()[0].clone();
    let event_json = event.to_json();
    assert!(event.timestamp > 1_600_000_000_000);
    event_json.remove("timestamp");
    let expected =
        r#"{"event":"on_turn_start","input":"hi","agent_id":"a-1","agent_name":"helper","run_id":"r-1"}"#;
    assert_eq!(event_json.to_string(), expected);
}

#[test]
fn a_callback_that_fails_or_panics_changes_nothing() {
    let log = Log::default();
    let events = log.clone();
    let callbacks = Callbacks::new()
        .on_custom_event(|_| Err::<(), _>("on purpose"))
        .on_custom_event(|event| assert!(event.data.is_null(), "on purpose"))
        .on_custom_event(move |event| events.lock().push(event.clone()));
    Notifier::new(who(), callbacks).custom("x", &Json::Null);
    assert_eq!(names(&log), ["on_custom_event"]);
}

#[test]
fn there_is_a_method_for_each_callback_by_its_name() {
    assert!(Callbacks::METHODS.iter().copied().eq(Callback::names()), "in this order");
    for (name, callback) in Callback::names() {
        assert_eq!(Callback::from_name(name), Some(callback));
    }
    assert_eq!(Callback::from_name("on_chain"), None);
}

#[test]
fn a_closure_under_a_second_name_receives_the_event_once() {
    let log = Log::default();
    let (first, second) = (log.clone(), log.clone());
    let callbacks = Callbacks::new()
        .on_turn_start(move |event| first.lock().push(event.clone()))
        .on_chain_start(move |event| second.lock().push(event.clone()));
    assert_eq!(callbacks.names(), ["on_turn_start"]);
    Notifier::new(who(), callbacks).started(&"hi".into());
    assert_eq!(names(&log), ["on_turn_start", "on_turn_start"], "once for each closure");
}

#[test]
fn an_event_keeps_its_data_when_the_source_changes() {
    let (callbacks, log) = all();
    let messages = json("[1]");
    Notifier::new(who(), callbacks).notice(Notice::LlmStart { messages: messages.clone() });
    messages.as_array().unwrap().push(2_i64.into()).unwrap();
    assert_eq!(data(&log, Callback::LlmStart), r#"{"messages":[1]}"#);
}

/// A listener that records events after a delay.
struct Slow {
    events: Arc<Mutex<Vec<String>>>,
    pause: Duration,
}

impl Listener for Slow {
    fn name(&self) -> &str {
        "slow"
    }
    fn handles(&self, callback: Callback) -> bool {
        callback == Callback::CustomEvent
    }
    fn on_event(
        &self,
        _: Callback,
        event: Json,
        state: Json,
        turn: Turn,
    ) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async move {
            tokio::time::sleep(self.pause).await;
            let count = state.get("count").and_then(|count| count.as_i64()).unwrap_or_default() + 1;
            state.set("count", count).unwrap();
            assert!(!turn.is_over());
            let name = event.text("name").unwrap_or_default();
            self.events.lock().push(name.to_string());
            if name == "bad" { Err("on purpose".into()) } else { Ok(()) }
        })
    }
}

fn slow(pause: Duration) -> (Arc<Mutex<Vec<String>>>, Arc<dyn Listener>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    (events.clone(), Arc::new(Slow { events, pause }))
}

#[tokio::test]
async fn a_concurrent_listener_receives_events_in_order_and_delays_nothing() {
    let (events, listener) = slow(Duration::from_millis(5));
    let turn = Turn::default();
    let notifier = Notifier::new(who(), Callbacks::new()).with_listeners(&[listener], &turn);
    ["one", "bad", "three"].into_iter().for_each(|name| notifier.custom(name, &Json::Null));
    notifier.started(&Json::Null);
    assert!(events.lock().is_empty(), "the run went on meanwhile");
    // The run is over, but its listeners are still called.
    drop(turn.until_dropped());
    notifier.drain().await;
    assert_eq!(*events.lock(), ["one", "bad", "three"]);
    assert_eq!(turn.state("slow").get("count").unwrap().as_i64(), Some(3));
}

#[tokio::test]
async fn draining_callbacks_stops_waiting_at_its_time_limit() {
    let (events, listener) = slow(Duration::from_millis(100));
    let queue = Queue::start(vec![(listener, Json::object())], Turn::default());
    let event = CallbackEvent::now(Callback::CustomEvent, Json::object(), &who());
    queue.push(event);
    queue.drain(Duration::from_millis(5), "r-1").await;
    assert!(events.lock().is_empty());
    // Queued events are delivered even if nothing waits for them.
    drop(queue);
    while events.lock().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_full_callback_queue_drops_further_events() {
    let (events, listener) = slow(Duration::from_millis(1));
    let queue = Queue::with_room(2, vec![(listener, Json::object())], Turn::default());
    let event = CallbackEvent::now(Callback::CustomEvent, Json::object(), &who());
    (0..5).for_each(|_| queue.push(event.clone()));
    queue.drain(Duration::from_secs(60), "r-1").await;
    assert_eq!(events.lock().len(), 2);
}

#[tokio::test]
async fn a_dropped_run_leaves_nothing_behind() {
    let (_, listener) = slow(Duration::ZERO);
    let turn = Turn::default();
    let notifier = Arc::new(
        Notifier::new(who(), Callbacks::new()).with_listeners(std::slice::from_ref(&listener), &turn),
    );
    let gone = Arc::downgrade(&notifier);
    drop(notifier.watch(turn));
    drop(notifier);
    assert!(gone.upgrade().is_none());
    // The delivering task releases the listener.
    while Arc::strong_count(&listener) > 1 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_callback_filters_accept_turns_without_listeners() {
    through_filters(
        Hook::PreChat,
        r#"{"messages":[]}"#,
        &Turn::new(Default::default(), Default::default(), Events::default()),
    )
    .await;
    through_filters(Hook::PreInvocation, r#"{"args":{}}"#, &Turn::default()).await;
}
