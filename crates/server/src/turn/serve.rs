//! A turn between the two ends of an endpoint.

use super::answer_bytes::AnswerBytes;
use super::endpoint::{Call, Encoder, Endpoint};
use super::events::as_stream;
use super::keep_alive::KeepAlive;
use super::streaming::{Item, Streaming};
use crate::body::{read, unpacked};
use crate::headers::{EVENTS, events_header, named};
use crate::openai::relay;
use crate::reply::{self, json_response};
use crate::{auth, exchange, facts, recording};
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use valvehouse_core::context::{Events, Turn};
use valvehouse_core::fault::Fault;
use valvehouse_core::kernel::{Reply, Wish};
use valvehouse_core::provider::Piece;
use valvehouse_core::trace::{Recording, Trace};
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// Answers a request of an endpoint whose callers show the keys of users.
pub(crate) async fn serve<E: Endpoint>(app: Arc<App>, endpoint: E, request: Request) -> Response {
    let snapshot = app.host.snapshot();
    let answer = async {
        let (parts, body) = request.into_parts();
        let (key_user, bytes) = received(&app, &parts, body).await?;
        serve_turn(&endpoint, &Call::new(&app, &snapshot, &parts), &bytes, &key_user).await
    };
    // In a place of its own: what is around it is handed on from layer to layer.
    named(&snapshot, Box::pin(answer), refused::<E::Encoder>).await
}

/// The user of the key that a request shows, and its body.
///
/// # Errors
/// Returns a request fault for a key that is not one of the host's, and for a body that is packed or too large.
pub(crate) async fn received(app: &App, parts: &Parts, body: Body) -> Result<(Json, Bytes), Fault> {
    let key_user = auth::user_of_key(app, &parts.headers)?;
    unpacked(&parts.headers)?;
    Ok((key_user, read(body, app.config.server.max_body_mb).await?))
}

/// Logs a fault, and returns it in the words of an endpoint.
pub(crate) fn refused<E: Encoder>(fault: Fault) -> Response {
    reply::log(&fault);
    E::encode_error(fault)
}

/// Runs the turn of one request: decode, the turn, encode.
///
/// # Errors
/// Returns the fault of a request that cannot be read or whose model cannot be had. Faults of the turn itself are
/// answers.
pub(crate) async fn serve_turn<E: Endpoint>(
    endpoint: &E,
    call: &Call<'_>,
    bytes: &Bytes,
    key_user: &Json,
) -> Result<Response, Fault> {
    let Call { app, snapshot, parts, run } = call;
    let (chat, mut encoder) = endpoint.decode(call, bytes).await?;
    let mut ready = endpoint.ready(call, &chat)?;
    let mut facts = facts::of_chat(app, parts, chat.body(), key_user, &ready);
    let context = endpoint.context(call, &chat, &mut ready, &mut facts);
    endpoint.prepare(call, &chat, &ready, &mut encoder);
    let outer = facts.exchange.clone();
    let stream = chat.is_streamed();
    let recording = recording::begin(app, E::NAME, stream, snapshot.generation, &parts.headers, &mut facts);
    let takes_events = stream && endpoint.takes_events(call, &chat);
    // Traces that keep everything need every answer read; events have their place between its pieces.
    let raw = E::Encoder::TAKES_RAW && !app.traces.keeps_everything() && !takes_events;
    let way = Way {
        stream,
        takes_events,
        // A client whose whole answer is waited for hears after a while that it is still being served.
        is_held: ready.kernel.settings().hold,
        trace: facts.trace.clone(),
    };
    let (host, begun) = (Arc::clone(app), run.on_begin());
    let work = move |events, stream| async move {
        let turn = Turn::new(facts, context, events);
        host.turn(&ready, chat, &turn, Wish { stream, raw }, begun).await
    };
    let mut response = respond(call, encoder, way, Some(&recording), work).await;
    exchange::answer(outer.as_deref(), &mut response);
    Ok(recording::until_end(recording, response))
}

/// The way in which a client gets its answer.
pub(crate) struct Way {
    pub(crate) stream: bool,
    /// Is `true` if what plugins emit is part of the stream.
    pub(crate) takes_events: bool,
    /// Is `true` if nothing is sent before the whole answer is there.
    pub(crate) is_held: bool,
    /// The trace that records the end of a stream.
    pub(crate) trace: Option<Arc<Trace>>,
}

/// Does the work of a turn, and writes what comes of it.
pub(crate) async fn respond<E: Encoder, W>(
    call: &Call<'_>,
    encoder: E,
    way: Way,
    recording: Option<&Recording>,
    work: impl FnOnce(Events, Option<Sender<Piece>>) -> W,
) -> Response
where
    W: Future<Output = Result<Reply, Fault>> + Send + 'static,
{
    let header = encoder.header();
    let events = Events::default();
    let answered = match way.stream {
        true => streamed(call, encoder, way, |events, sender| work(events, Some(sender))).await,
        false => whole(call, encoder, way.trace, work(events.clone(), None)).await,
    };
    let mut response = answered.unwrap_or_else(|fault| {
        refused::<E>(match recording {
            Some(recording) => recording.failed(fault),
            None => fault,
        })
    });
    if let Some(events) = events_header(&events.take()) {
        response.headers_mut().insert(EVENTS, events);
    }
    response.headers_mut().extend(header);
    call.run.name(&mut response);
    response
}

async fn whole<E: Encoder>(
    call: &Call<'_>,
    encoder: E,
    trace: Option<Arc<Trace>>,
    work: impl Future<Output = Result<Reply, Fault>>,
) -> Result<Response, Fault> {
    match work.await? {
        Reply::Answer(answer) => Ok(json_response(StatusCode::OK, &encoder.encode(answer).await?)),
        Reply::Raw(forwarded) if E::TAKES_RAW => {
            relay::relay(forwarded, call.app.config.server.keep_alive_ms, trace).await
        }
        Reply::Raw(_) => Err(Fault::Host("an answer came in another service's words".into())),
    }
}

async fn streamed<E: Encoder, W>(
    call: &Call<'_>,
    mut encoder: E,
    way: Way,
    work: impl FnOnce(Events, Sender<Piece>) -> W,
) -> Result<Response, Fault>
where
    W: Future<Output = Result<Reply, Fault>> + Send + 'static,
{
    let keep_alive_ms = call.app.config.server.keep_alive_ms;
    let keep_alive = Duration::from_millis(keep_alive_ms);
    let patience = (way.is_held && !keep_alive.is_zero()).then_some(keep_alive);
    let events = way.takes_events.then(|| (call.app.as_ref(), &call.parts.headers));
    let (first, streaming) = Streaming::begin(events, patience, way.trace.clone(), work).await?;
    if let Some(Item::Raw(forwarded)) = first {
        return relay::relay(forwarded, keep_alive_ms, way.trace).await;
    }
    encoder.before_first().await;
    let mut response = Response::default();
    let written = AnswerBytes::new(first, streaming, encoder);
    let keep_alive_ms = if E::KEEP_ALIVE.is_empty() { 0 } else { keep_alive_ms };
    as_stream(&mut response, E::STREAM_TYPE, KeepAlive::with_word(written, keep_alive_ms, E::KEEP_ALIVE));
    Ok(response)
}
