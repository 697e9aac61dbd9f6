//! `POST /v1/chat/completions`, with answers in OpenAI's chat format.

use super::relay;
use crate::headers::named;
use crate::reply::{refused, unlogged};
use crate::scope;
use crate::turn::endpoint::{Call, Chunk, Encoder, Endpoint};
use crate::turn::serve::{received, serve_turn};
use crate::{exchange, pipelines, recording};
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use futures::future::{BoxFuture, ready};
use std::sync::Arc;
use valvehouse_core::chat::{ChatRequest, Outline, event, message, response};
use valvehouse_core::context::{Context, EmittedEvent, TurnFacts};
use valvehouse_core::error::Error;
use valvehouse_core::kernel::is_ours;
use valvehouse_core::provider::{ForwardRequest, TracedCall};
use valvehouse_host::app::{AnswerEdit, App, SplitTurn};
use valvehouse_host::{Ready, Snapshot};
use valvehouse_json::Json;
use valvehouse_wire::openai::answer::{expects_function_call, write_function_calls};

/// The name of this endpoint in metrics and traces.
pub(crate) const DOOR: &str = "chat";

/// Answers a chat request.
pub(crate) async fn chat(State(app): State<Arc<App>>, request: Request) -> Response {
    // The whole turn, including a streamed answer, uses one snapshot.
    let snapshot = app.host.snapshot();
    // Boxed, because the surrounding future is moved from layer to layer.
    let answer = Box::pin(answer(app, &snapshot, request));
    named(&snapshot, answer, refused).await
}

async fn answer(app: Arc<App>, snapshot: &Snapshot, request: Request) -> Result<Response, Error> {
    let (parts, body) = request.into_parts();
    let (key_user, bytes) = received(&app, &parts, body).await?;
    // To record everything, each answer must be parsed.
    if !app.traces.keeps_everything()
        && !scope::is_limited(&app, &parts)
        && let Some(outline) = snapshot.may_forward().then(|| Outline::read(&bytes)).flatten()
        && let Some((ready, model, stream)) = nobody_looks(snapshot, &outline)
        && let Some(provider) = ready.kernel.provider()
    {
        let exchange = exchange::of(&app, &parts, Arc::new(app.memory.share()));
        let body = bytes.clone();
        let request = ForwardRequest { body, outline: &outline, stream, model, exchange: &exchange };
        if let Some(forwarded) = provider.forward(request) {
            let mut facts = TurnFacts { user: key_user, model: ready.facts, ..TurnFacts::default() };
            let watch = recording::begin(&app, DOOR, stream, snapshot.generation, &parts, &mut facts);
            exchange.count_in(watch.trace());
            let keep_alive_ms = app.config.server.keep_alive_ms;
            let (trace, model) = (facts.trace, facts.model.text_or_empty("id"));
            let sent_body = || Json::parse(&bytes).ok().into();
            let call = TracedCall::begin(trace.as_ref(), provider.name(), &model, sent_body);
            let relayed = async { relay::relay(call.follow(forwarded.await)?, keep_alive_ms, trace).await };
            let relayed = match (relayed.await, exchange.memory()) {
                (Ok(response), Some(memory)) => Ok(recording::held_until_sent(response, memory).await),
                (relayed, _) => relayed,
            };
            let mut response = recording::ended(watch, relayed, refused);
            exchange::answer(&exchange, &mut response);
            return Ok(response);
        }
    }
    // A turn is large. It is boxed, so that forwarded requests do not reserve its memory.
    let call = Call::new(&app, snapshot, &parts);
    Box::pin(serve_turn(&OpenAi, &call, &bytes, &key_user)).await
}

/// OpenAI's chat API.
struct OpenAi;

impl Endpoint for OpenAi {
    const NAME: &'static str = DOOR;
    type Encoder = Completion;

    async fn decode(&self, call: &Call<'_>, bytes: &Bytes) -> Result<(ChatRequest, Completion), Error> {
        let chat = ChatRequest::new(call.parse(bytes)?)?;
        let is_legacy = expects_function_call(chat.body());
        Ok((chat, Completion { is_legacy, ..Completion::default() }))
    }

    /// Returns the context of the turn, whose earlier parts may be requests of an Open WebUI.
    fn context(
        &self,
        call: &Call<'_>,
        chat: &ChatRequest,
        ready: &mut Ready,
        facts: &mut TurnFacts,
    ) -> Context {
        pipelines::split_turn::go_on(call.app, call.snapshot, call.parts, chat.body(), ready, facts)
    }

    fn prepare(
        &self,
        call: &Call<'_>,
        chat: &ChatRequest,
        _: (&Ready, &TurnFacts),
        encoder: &mut Completion,
    ) {
        let split = pipelines::split_turn::of_chat(call.app, call.parts, chat.body());
        encoder.split = split.map(|split| (split, String::new()));
    }

    fn earlier_events(&self, call: &Call<'_>, chat: &ChatRequest) -> Vec<EmittedEvent> {
        let split = pipelines::split_turn::of_chat(call.app, call.parts, chat.body());
        split.map_or_else(Vec::new, |split| split.take_events())
    }
}

/// Returns the model and the stream flag of a request that can be forwarded unchanged, because no filter,
/// tool or setting applies to it. A request with a field of this host is parsed instead.
fn nobody_looks<'a>(snapshot: &Snapshot, outline: &Outline<'a>) -> Option<(Ready, &'a str, bool)> {
    let (mut model, mut stream, mut has_messages, mut is_plain) = (None, None, false, true);
    for (key, value) in outline.fields() {
        match key {
            "model" => is_plain &= model.replace(value).is_none(),
            "stream" => is_plain &= stream.replace(value).is_none(),
            "messages" => has_messages = value.strip_prefix('[').is_some_and(|rest| rest.trim_start() != "]"),
            key => is_plain &= value == "null" || !is_ours(key, value.starts_with('{')),
        }
    }
    // Only a parsed body shows the models that other fields select.
    let selects = |(key, value): (&str, &str)| {
        !matches!(key, "model" | "messages") && value.starts_with(['"', '[', '{'])
    };
    if !(is_plain && has_messages) || (snapshot.checks_fields() && outline.fields().any(selects)) {
        return None;
    }
    // A name with escapes requires a parser.
    let model = model?.strip_prefix('"')?.strip_suffix('"').filter(|name| !name.contains('\\'))?;
    let stream = match stream.unwrap_or("null") {
        "true" => true,
        "false" | "null" => false,
        _ => return None,
    };
    let ready = snapshot.ready(model, &[]).ok()?;
    ready.is_untouched().then_some((ready, model, stream))
}

/// Writes a `chat.completion` or its chunks.
#[derive(Default)]
pub(crate) struct Completion {
    /// The turn of an Open WebUI that calls the outlets after the answer, and the text streamed so far.
    split: Option<(SplitTurn, String)>,
    /// Set if the client expects a call as `function_call`.
    is_legacy: bool,
}

impl Encoder for Completion {
    const TAKES_RAW: bool = true;

    async fn encode(self, answer: Json) -> Result<Json, Error> {
        if !self.is_legacy {
            return Ok(answer);
        }
        let answer = answer.deep_clone();
        write_function_calls(&answer, "message");
        Ok(answer)
    }

    fn encode_chunk(&mut self, mut chunk: Chunk) -> Bytes {
        if let (true, Chunk::Model(chunk)) = (self.is_legacy, &mut chunk)
            && write_function_calls(&chunk.event, "delta")
        {
            chunk.changed();
        }
        if let (Some((_, sent)), Chunk::Model(chunk)) = (&mut self.split, &chunk) {
            sent.push_str(&event::text(&chunk.event));
        }
        encode_chunk(&chunk)
    }

    fn encode_end(self, end: Result<Json, Error>) -> BoxFuture<'static, Bytes> {
        if let (Some((split, sent)), Ok(answer)) = (self.split, &end) {
            let text = message::text_of(&response::message_of(answer)).to_string();
            if text != sent && !sent.is_empty() {
                split.answer_edited(AnswerEdit { sent, text });
            }
        }
        Box::pin(ready(match end {
            Ok(_) => Bytes::from_static(relay::DONE),
            Err(error) => relay::failed(&error),
        }))
    }

    fn encode_error(error: Error) -> Response {
        unlogged(&error)
    }
}

/// Encodes a chunk as an event.
pub(crate) fn encode_chunk(chunk: &Chunk) -> Bytes {
    match chunk {
        Chunk::Model(chunk) => relay::event(chunk),
        Chunk::Emitted(event) => relay::emitted(event),
    }
}

/// Encodes the end of a stream: the error, if any, then `last`, then the end marker.
pub(crate) fn encode_end(failure: Option<&Error>, last: &[u8]) -> Bytes {
    let Some(failure) = failure else { return [last, relay::DONE].concat().into() };
    [&relay::error_event(failure)[..], last, relay::DONE].concat().into()
}
