//! The view that a program has of a turn: `tracing` spans with an ordinary subscriber, and notices for observers.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Instrument, Subscriber, info_span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use valvehouse_core::chat::message;
use valvehouse_core::context::{Notice, NoticeKind, NoticeKinds, Observer, Turn};
use valvehouse_core::error::Error;
use valvehouse_core::kernel::{ChatOptions, Kernel, RunOptions};
use valvehouse_core::provider::{CannedProvider, Reply};
use valvehouse_core::tool::Tool;
use valvehouse_json::Json;
use valvehouse_testkit::subscriber;

/// The spans that a layer saw, in the order in which they closed: parent, name and fields.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<SeenSpan>>>);

#[derive(Clone, Debug, Default)]
struct SeenSpan {
    parent: Option<&'static str>,
    name: &'static str,
    fields: BTreeMap<&'static str, String>,
}

impl Visit for SeenSpan {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let parent = span.parent().map(|parent| parent.name());
        let mut seen = SeenSpan { parent, name: span.name(), fields: BTreeMap::new() };
        attributes.record(&mut seen);
        span.extensions_mut().insert(seen);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        values.record(span.extensions_mut().get_mut::<SeenSpan>().unwrap());
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        let seen = span.extensions().get::<SeenSpan>().unwrap().clone();
        self.0.lock().unwrap().push(seen);
    }
}

impl Spans {
    /// Receives the spans of this thread until the guard is dropped.
    fn subscribe(&self) -> DefaultGuard {
        subscriber::subscribe(tracing_subscriber::registry().with(self.clone()))
    }

    fn all(&self) -> Vec<(Option<&'static str>, &'static str)> {
        self.0.lock().unwrap().iter().map(|span| (span.parent, span.name)).collect()
    }

    fn field(&self, name: &str, field: &str) -> Option<String> {
        let spans = self.0.lock().unwrap();
        spans.iter().rev().find(|span| span.name == name).and_then(|span| span.fields.get(field).cloned())
    }
}

fn calling(tool: &str) -> Reply {
    let text = format!(
        r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"c1","type":"function","function":{{"name":"{tool}","arguments":"{{}}"}}}}]}}"#
    );
    Reply::message(Json::parse(text.as_bytes()).unwrap())
}

fn answer() -> Reply {
    let text = r#"{"id":"a","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"fine"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}"#;
    Reply::whole(Json::parse(text.as_bytes()).unwrap())
}

fn kernel(replies: Vec<Reply>) -> Kernel {
    let weather = Tool::from_json_fn("weather", |_| {
        tracing::info!("looked up");
        Ok("sun".into())
    });
    let broken = Tool::from_json_fn("broken", |_| Err("no cable".into()));
    let provider = Arc::new(CannedProvider::named("lab", replies));
    Kernel::builder().tool(weather).tool(broken).provider(provider).build()
}

#[tokio::test]
async fn an_ordinary_subscriber_sees_a_span_per_turn_model_call_and_tool_call() {
    let spans = Spans::default();
    let _guard = spans.subscribe();
    let kernel = kernel(vec![calling("weather"), answer()]);
    let chat = kernel.chat_with_tools(vec![message::user("hi")], ChatOptions::default());
    chat.instrument(info_span!("request")).await.unwrap();
    let request = ("request", "turn");
    let all = [
        (Some("turn"), "chat"),
        (Some("turn"), "execute_tool"),
        (Some("turn"), "chat"),
        (Some(request.0), request.1),
        (None, "request"),
    ];
    assert_eq!(spans.all(), all);
    let field = |name, field| spans.field(name, field).unwrap_or_default();
    assert_eq!(field("chat", "gen_ai.operation.name"), "chat");
    assert_eq!(field("chat", "gen_ai.provider.name"), "lab");
    assert_eq!(field("chat", "otel.kind"), "client");
    assert_eq!(
        (field("chat", "gen_ai.usage.input_tokens"), field("chat", "gen_ai.usage.output_tokens")),
        ("7".into(), "3".into())
    );
    assert_eq!(field("execute_tool", "gen_ai.tool.name"), "weather");
    assert_eq!(field("execute_tool", "otel.name"), "execute_tool weather");
    assert_eq!(spans.field("turn", "otel.status_code"), None);
}

#[tokio::test]
async fn the_span_of_a_failed_turn_is_marked_as_failed() {
    let spans = Spans::default();
    let _guard = spans.subscribe();
    let error = Error::Provider { message: "out of order".into(), timeout: false };
    let kernel = kernel(vec![calling("broken"), Reply::error(error)]);
    kernel.chat_with_tools(vec![message::user("hi")], ChatOptions::default()).await.unwrap_err();
    for (name, cause) in [("execute_tool", "no cable"), ("chat", "out of order"), ("turn", "out of order")] {
        assert_eq!(spans.field(name, "otel.status_code").as_deref(), Some("ERROR"), "{name}");
        assert!(spans.field(name, "otel.status_description").unwrap().contains(cause), "{name}");
        assert_eq!(spans.field(name, "error.type").as_deref(), Some("_OTHER"), "{name}");
    }
}

/// An observer of some kinds that counts its notices.
struct Counter(NoticeKinds, Mutex<Vec<String>>);

impl Counter {
    fn of(kinds: impl Into<NoticeKinds>) -> Arc<Self> {
        Arc::new(Self(kinds.into(), Mutex::default()))
    }

    fn words(&self) -> Vec<String> {
        self.1.lock().unwrap().clone()
    }
}

impl Observer for Counter {
    fn kinds(&self) -> NoticeKinds {
        self.0
    }

    fn notice(&self, notice: Notice) {
        let debug = format!("{notice:?}");
        let word = debug.split([' ', '{']).next().unwrap_or_default();
        self.1.lock().unwrap().push(word.to_owned());
    }
}

#[tokio::test]
async fn each_observer_of_a_turn_receives_the_notices_of_its_kinds() {
    let all = Counter::of(NoticeKinds::ALL);
    let tools = Counter::of(NoticeKind::ToolStart | NoticeKind::ToolEnd);
    let turn = Turn::default().observed_by(tools.clone()).observed_by(all.clone());
    assert!(turn.is_observed(NoticeKind::LlmToken));
    let body = Json::from([("model", "m".into()), ("messages", vec![message::user("hi")].into())]);
    let request = valvehouse_core::chat::ChatRequest::new(body).unwrap();
    let kernel = kernel(vec![calling("weather"), answer()]);
    kernel.run(request, RunOptions::new(turn)).answer().await.unwrap();
    assert_eq!(tools.words(), ["ToolStart", "ToolEnd"]);
    assert_eq!(all.words(), ["LlmStart", "LlmEnd", "ToolStart", "ToolEnd", "LlmStart", "LlmEnd"]);
}

#[test]
fn notices_without_a_receiver_are_not_built() {
    let turn = Turn::default().observed_by(Counter::of(NoticeKind::Retry));
    assert!(!turn.is_observed(NoticeKinds::OF_CALLS) && turn.is_observed(NoticeKind::Retry));
    turn.notify(NoticeKind::LlmToken, || unreachable!("nobody receives it"));
}
