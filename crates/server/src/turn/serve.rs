//! The turn of an endpoint's request, from decoding to encoding.

use super::answer_bytes::{AnswerBytes, EventForm};
use super::emitted_event::EventText;
use super::endpoint::{Call, Encoder, Endpoint};
use super::events::as_stream;
use super::keep_alive::KeepAlive;
use crate::body::{BodyLimits, read_plain};
use crate::headers::{EVENTS, events_header, named, wants_events};
use crate::openai::relay;
use crate::reply::{self, json_response};
use crate::{auth, exchange, facts, recording, scope};
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use memchr::memmem;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use valvehouse_core::chat::CONTENT_BLOCKS;
use valvehouse_core::chat::items::ADDITIONAL_TOOLS;
use valvehouse_core::chat::{ChatRequest, items, keys};
use valvehouse_core::context::{Context, Events, Turn, TurnFacts};
use valvehouse_core::error::Error;
use valvehouse_core::filter::FilterEntry;
use valvehouse_core::kernel::{RunOptions, TurnEnd, TurnEvent, TurnStream};
use valvehouse_core::trace::TraceGuard;
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// Answers a request at an endpoint that accepts the keys of users.
pub(crate) async fn serve<E: Endpoint>(app: Arc<App>, endpoint: E, request: Request) -> Response {
    let snapshot = app.host.snapshot();
    let answer = async {
        let (parts, body) = request.into_parts();
        let (key_user, bytes) = received(&app, &parts, body).await?;
        serve_turn(&endpoint, &Call::new(&app, &snapshot, &parts), &bytes, &key_user).await
    };
    // Boxed, because the surrounding future is moved from layer to layer.
    named(&snapshot, Box::pin(answer), refused::<E::Encoder>).await
}

/// Returns the user of a request's key, and its body.
///
/// # Errors
/// Returns a request error for an unknown key, and for a body that is too large or has an encoding other than
/// zstd.
pub(crate) async fn received(app: &App, parts: &Parts, body: Body) -> Result<(Json, Bytes), Error> {
    let key_user = auth::user_of_key(app, parts)?;
    Ok((key_user, read_plain(&parts.headers, body, &BodyLimits::of(app)).await?))
}

/// Logs an error and returns it in the format of an endpoint.
pub(crate) fn refused<E: Encoder>(error: Error) -> Response {
    reply::log(&error);
    E::encode_error(error)
}

/// Runs the turn of one request: decodes the request, runs the turn and encodes the answer.
///
/// # Errors
/// Returns a request error if the request is invalid or its model is unavailable. An error of the turn itself
/// is an answer.
pub(crate) async fn serve_turn<E: Endpoint>(
    endpoint: &E,
    call: &Call<'_>,
    bytes: &Bytes,
    key_user: &Json,
) -> Result<Response, Error> {
    let Call { app, snapshot, parts, run, memory } = call;
    let (chat, mut encoder) = endpoint.decode(call, bytes).await?;
    scope::check_model(app, parts, snapshot, &chat.model(), chat.body())?;
    let mut ready = endpoint.ready(call, &chat)?;
    let guards = ready.kernel.chain().guards().map(FilterEntry::name).collect::<Vec<_>>();
    // The messages of a chat are parsed only if they can have items; a key can be written with escapes.
    let has = |part: &[u8]| memmem::find(bytes, part).is_some();
    if !guards.is_empty() {
        keys::check_chat(chat.body())?;
    }
    if !guards.is_empty() && (E::NAME == "responses" || has(CONTENT_BLOCKS.as_bytes()) || has(b"\\u")) {
        refuse_hidden_tools(&guards, chat.body())?;
    }
    let mut facts = facts::of_chat(app, parts, chat.body(), key_user, &ready, memory.clone());
    if let (false, Some(exchange)) = (guards.is_empty(), &facts.exchange) {
        exchange.judge();
    }
    let context = endpoint.context(call, &chat, &mut ready, &mut facts);
    endpoint.prepare(call, &chat, (&ready, &facts), &mut encoder);
    let stream = chat.is_streamed();
    let recording = recording::begin(app, E::NAME, stream, snapshot.generation, parts, &mut facts);
    let takes_events = endpoint.takes_events(call, &chat);
    let form = event_form(call, &chat, takes_events);
    let takes_events = stream && takes_events;
    // To record everything or to send events, the answer must be parsed.
    let is_text = matches!(form, EventForm::Text(_));
    let receiver = match form {
        // Open WebUI shows the events of a stream, and has no way to answer one.
        EventForm::OpenWebUi if takes_events && !wants_events(&parts.headers) => EventReceiver::Shows,
        _ if takes_events => EventReceiver::Answers,
        EventForm::Text(_) if stream => EventReceiver::Shows,
        _ => EventReceiver::Collects,
    };
    let is_metered = facts.exchange.as_ref().is_some_and(|exchange| exchange.is_metered());
    let raw =
        E::Encoder::TAKES_RAW && !is_metered && !app.traces.keeps_everything() && !takes_events && !is_text;
    // If the answer is held back until it is complete, keep-alives are sent meanwhile.
    let is_held = ready.kernel.settings().hold;
    let options =
        options(call, facts, context, stream, receiver).passthrough(raw).calls_last(E::NAME == "chat");
    for event in endpoint.earlier_events(call, &chat) {
        if let Err(error) = options.turn().events().emit(event.0) {
            tracing::warn!("cannot send an event of an inlet: {error}");
        }
    }
    let answer = app.run(&ready, chat, options, run.on_begin());
    let way = Way { stream, is_held, form };
    let response = respond(call, encoder, way, Some(&recording), answer).await;
    Ok(recording::until_end(recording, recording::held_until_sent(response, memory).await))
}

/// Rejects items of the Responses API that add tools to a conversation with guards, which check `body.tools`.
fn refuse_hidden_tools(guards: &[&str], body: &Json) -> Result<(), Error> {
    let adds = |item: &Json| {
        let kind = item.text_or_empty("type");
        // The tools of a conversation's `additional_tools` are in `body.tools`, and only those are sent.
        !matches!(&*kind, "mcp_list_tools" | ADDITIONAL_TOOLS)
            && matches!(item.get("tools"), Some(Json::Array(tools)) if !tools.is_empty())
    };
    let Some(Json::Array(messages)) = body.get("messages") else { return Ok(()) };
    let added = messages.with(|messages| {
        let mut items =
            messages.iter().filter(|message| message.get(CONTENT_BLOCKS).is_some()).flat_map(items::of);
        items.find(adds)
    });
    let Some(item) = added else { return Ok(()) };
    let message = format!(
        "cannot accept an item of type {} with tools: these guards check only the tools of the request: {}; send them \
         in `tools`",
        item.text_or_empty("type"),
        guards.join(", ")
    );
    Err(Error::invalid(message, Some("input")))
}

/// The receiver of the events that plugins emit in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventReceiver {
    /// The client receives them in its stream, and can answer questions.
    Answers,
    /// The client only shows them.
    Shows,
    /// They are collected until the end of the turn.
    Collects,
}

/// Returns the options of a request's turn. The approvals of clients that cannot answer questions wait for an
/// operator.
pub(crate) fn options(
    call: &Call<'_>,
    facts: TurnFacts,
    context: Context,
    stream: bool,
    receiver: EventReceiver,
) -> RunOptions<'static> {
    let (events, emitted) = match receiver {
        EventReceiver::Answers => {
            let asker = auth::asker(call.app, &call.parts.headers);
            let (events, emitted) = Events::channel(Some(call.app.questions.of(&asker)));
            (events, Some(emitted))
        }
        EventReceiver::Shows => {
            let (events, emitted) = Events::channel(None);
            (events.holding(call.app.questions.clone()), Some(emitted))
        }
        EventReceiver::Collects => (Events::default().holding(call.app.questions.clone()), None),
    };
    RunOptions::new(Turn::new(facts, context, events)).streamed(stream).emitted(emitted)
}

/// Returns the form in which a client receives emitted events. For clients that do not accept events, the
/// settings select the kinds that become text.
fn event_form(call: &Call<'_>, chat: &ChatRequest, takes_events: bool) -> EventForm {
    let kinds = &call.app.config.server.render_events;
    match takes_events {
        true if facts::is_open_webui(&call.parts.headers, chat.body()) => EventForm::OpenWebUi,
        true => EventForm::Own,
        false if kinds.is_empty() => EventForm::Own,
        false => EventForm::Text(EventText::new(kinds, &chat.model())),
    }
}

/// The way to send an answer.
pub(crate) struct Way {
    pub(crate) stream: bool,
    /// Set if the answer is sent only when it is complete.
    pub(crate) is_held: bool,
    pub(crate) form: EventForm,
}

/// Sends the answer of a turn.
pub(crate) async fn respond<E: Encoder>(
    call: &Call<'_>,
    encoder: E,
    way: Way,
    recording: Option<&TraceGuard>,
    answer: TurnStream<'static>,
) -> Response {
    let turn = answer.turn().clone();
    let answered = match way.stream {
        true => streamed(call, encoder, (way.is_held, way.form), answer).await,
        false => whole(call, encoder, way.form, answer).await,
    };
    let mut response = answered.unwrap_or_else(|error| {
        refused::<E>(match recording {
            Some(recording) => recording.failed(error),
            None => error,
        })
    });
    if let Some(events) = events_header(&turn.events().take()) {
        response.headers_mut().insert(EVENTS, events);
    }
    call.run.name(&mut response);
    exchange::answer(turn.exchange(), &mut response);
    response
}

async fn whole<E: Encoder>(
    call: &Call<'_>,
    mut encoder: E,
    form: EventForm,
    answer: TurnStream<'static>,
) -> Result<Response, Error> {
    let turn = answer.turn().clone();
    let trace = turn.trace().cloned();
    match answer.end().await? {
        TurnEnd::Answer(answer) => {
            let EventForm::Text(text) = form else {
                return Ok(json_response(StatusCode::OK, &encoder.encode(answer.reply).await?));
            };
            // An agent may have stored the same answer.
            let (events, reply) = (turn.events().take(), answer.reply.deep_clone());
            encoder.exclude(text.write_into(&reply, &events));
            let mut response = json_response(StatusCode::OK, &encoder.encode(reply).await?);
            if let Some(events) = events_header(&events) {
                response.headers_mut().insert(EVENTS, events);
            }
            Ok(response)
        }
        TurnEnd::Passthrough(forwarded) => {
            relay::relay(forwarded, call.app.config.server.keep_alive_ms, trace).await
        }
    }
}

async fn streamed<E: Encoder>(
    call: &Call<'_>,
    mut encoder: E,
    (is_held, form): (bool, EventForm),
    mut answer: TurnStream<'static>,
) -> Result<Response, Error> {
    let keep_alive_ms = call.app.config.server.keep_alive_ms;
    let keep_alive = Duration::from_millis(keep_alive_ms);
    let (mut first, is_text) = (VecDeque::new(), matches!(form, EventForm::Text(_)));
    let begun = match (is_held || is_text) && !keep_alive.is_zero() {
        true => tokio::time::timeout(keep_alive, begin(&mut answer, &mut first, (is_held, is_text))).await,
        false => Ok(begin(&mut answer, &mut first, (is_held, is_text)).await),
    };
    match begun {
        Ok(begun) => begun?,
        Err(_) if is_held || !first.is_empty() => {}
        // Without any event so far, the next one of any kind starts the answer.
        Err(_) => begin(&mut answer, &mut first, (false, false)).await?,
    }
    if let Some(TurnEvent::Passthrough(_)) = first.front()
        && let Some(TurnEvent::Passthrough(forwarded)) = first.pop_front()
    {
        return relay::relay(forwarded, keep_alive_ms, answer.turn().trace().cloned()).await;
    }
    encoder.before_first().await;
    let mut response = Response::default();
    let written = AnswerBytes::new(first, answer, form, encoder);
    let keep_alive_ms = if E::KEEP_ALIVE.is_empty() { 0 } else { keep_alive_ms };
    as_stream(&mut response, E::STREAM_TYPE, KeepAlive::with_word(written, keep_alive_ms, E::KEEP_ALIVE));
    Ok(response)
}

/// Waits for the event that starts an answer: until then, an error can be reported by the HTTP status. The text of an
/// event does not start it while another filter may still reject the request or, if it is held, the answer.
async fn begin(
    answer: &mut TurnStream<'static>,
    first: &mut VecDeque<TurnEvent>,
    (is_held, is_text): (bool, bool),
) -> Result<(), Error> {
    poll_fn(|context| {
        loop {
            match answer.poll_event(context) {
                Poll::Ready(Some(event)) => {
                    let event = event?;
                    let is_early = is_text && matches!(event, TurnEvent::Emitted(_));
                    first.push_back(event);
                    if !is_early {
                        return Poll::Ready(Ok(()));
                    }
                }
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => {
                    let is_accepted = !is_held && answer.turn().exchange().has_begun_call();
                    return if is_accepted && !first.is_empty() {
                        Poll::Ready(Ok(()))
                    } else {
                        Poll::Pending
                    };
                }
            }
        }
    })
    .await
}
