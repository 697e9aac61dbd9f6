//! Responses in the background: queued, run by this host, and stored with their events, without a connected
//! client.

use super::endpoint::{Responses, code_of, message_of};
use super::socket::{BETWEEN, data_of};
use super::storage::{self, Keeper};
use crate::auth;
use crate::body::{ReceivedBytes, parsed};
use crate::reply::json_response;
use crate::scope;
use crate::turn::endpoint::{Call, Endpoint as _};
use crate::turn::events::as_events;
use crate::turn::keep_alive::KeepAlive;
use crate::turn::serve::serve_turn;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::{self, Stream};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::Snapshot;
use valvehouse_host::app::{App, QueueSlot, StopReason, Ticket};
use valvehouse_json::Json;
use valvehouse_net::sse;
use valvehouse_store::{StoredResponse, now};
use valvehouse_wire::responses::answer::ResponseState;
use valvehouse_wire::responses::stream::ResponsesWriter;

/// The maximum run time of a response.
const MAX_TIME: Duration = Duration::from_secs(3600);
/// The time for which the events of a response are stored.
const EVENTS_KEPT: Duration = Duration::from_secs(2 * 3600);
/// The maximum size of all events of a response, in bytes.
const MAX_EVENTS: usize = 64 << 20;
/// The maximum delay before an event is stored.
const FLUSH: Duration = Duration::from_millis(100);
/// The maximum size of the events that wait to be stored, in bytes.
const MAX_WAITING: usize = 1 << 20;
/// The interval of a runner's heartbeats.
const PULSE: Duration = Duration::from_secs(2);
/// The interval at which a reader polls the store for further events.
const LOOK: Duration = Duration::from_millis(100);
/// The maximum number of events that a reader loads at once.
const AT_ONCE: i64 = 200;
/// The maximum number of attempts to store the end of a response.
const TRIES: u32 = 5;
/// The maximum time that a request to cancel waits for the end of its response.
const CANCELING: Duration = Duration::from_secs(3);

/// Returns `true` if a request asks for a response in the background.
pub(super) fn is_background(bytes: &Bytes) -> bool {
    memchr::memmem::find(bytes, b"\"background\"").is_some()
        && parsed(bytes).is_ok_and(|sent| sent.get("background").and_then(|is| is.as_bool()) == Some(true))
}

/// Starts a response in the background and returns it as queued, or its events.
///
/// # Errors
/// Returns a request error if the request is invalid or its model is unavailable, and the error of the store.
pub(super) async fn create(
    app: &Arc<App>,
    snapshot: &Snapshot,
    parts: Parts,
    bytes: &Bytes,
    key_user: Json,
) -> Result<Response, Error> {
    let endpoint = Responses { begun: None, in_background: true };
    let call = Call::new(app, snapshot, &parts);
    let (chat, mut answer) = endpoint.decode(&call, bytes).await?;
    scope::check_model(app, &parts, snapshot, &chat.model(), chat.body())?;
    endpoint.ready(&call, &chat)?;
    let sent = parsed(bytes)?;
    let is_streamed = chat.is_streamed();
    // The turn is always streamed, because its events are stored.
    sent.set("stream", true).map_err(|error| Error::Host(error.to_string()))?;
    let keeper = answer.keeper.take().ok_or_else(|| Error::Host("a response has no store".into()))?;
    let queued = answer.writer.standing(&[], &ResponseState::Queued);
    let id = answer.writer.resource().id().to_owned();
    // The body of the request is released with this call; the run holds its own one and the response to store.
    let body = Bytes::from(sent.to_string());
    let mut held = ReceivedBytes::new(&app.memory);
    held.add(body.len())?;
    keeper.begin(&queued).await?;
    let caller = auth::asker(app, &parts.headers);
    let run = Run {
        app: app.clone(),
        id: id.clone(),
        keeper,
        writer: answer.writer,
        parts,
        body: held.count(body),
        key_user,
        log: Log::default(),
    };
    if let Err(error) = app.detached.spawn(&id, &caller, |ticket| run.run(ticket)) {
        app.host.store().delete_response(&id).await?;
        return Err(error);
    }
    Ok(match is_streamed {
        true => streamed(app, id, -1),
        false => json_response(StatusCode::OK, &queued),
    })
}

/// Streams the events of a response that follow the event number `after`, including future ones.
///
/// # Errors
/// Returns a request error if the response was not created in the background or its events have expired.
pub(super) async fn resume(app: &Arc<App>, stored: &StoredResponse, after: i64) -> Result<Response, Error> {
    let invalid = |message: String, code| {
        Err(Error::Request {
            message,
            param: Some("stream"),
            code: Some(code),
            kind: RequestErrorKind::Invalid,
        })
    };
    let id = &stored.id;
    if !is_in_background(stored)? {
        return invalid(
            format!(
                "cannot stream `{id}` again: it was not created with `background: true`; fetch it without `stream`"
            ),
            "response_not_in_background",
        );
    }
    if stored.runner.is_empty() && app.host.store().response_events(id, -1, 1).await?.is_empty() {
        return invalid(
            format!("cannot stream `{id}`: its events are no longer stored; fetch it without `stream`"),
            "response_events_expired",
        );
    }
    Ok(streamed(app, id.clone(), after))
}

/// Cancels a response on any host. A finished response stays unchanged.
///
/// # Errors
/// Returns a request error if the response was not created in the background, and the error of the store.
pub(super) async fn cancel(app: &Arc<App>, parts: &Parts, stored: StoredResponse) -> Result<Json, Error> {
    let id = &stored.id;
    if !is_in_background(&stored)? {
        return Err(Error::invalid(
            format!("cannot cancel `{id}`: it was not created with `background: true`"),
            None,
        ));
    }
    let mut latest = stored;
    let id = latest.id.clone();
    let id = id.as_str();
    if !latest.runner.is_empty() && app.detached.cancel(id) {
        let until = Instant::now() + CANCELING;
        let store = app.host.store();
        while Instant::now() < until
            && store.response_runner(id).await?.is_some_and(|(runner, _)| !runner.is_empty())
        {
            tokio::time::sleep(LOOK / 10).await;
        }
        latest = storage::find(app, parts, id).await?;
    }
    if !latest.runner.is_empty() {
        // Another host runs the response. Its next heartbeat reports the takeover.
        let response = storage::response_of(&latest)?;
        response.put("status", "cancelled");
        let store = app.host.store();
        store.change_response(id, &latest.runner, &response.to_string(), None, true).await?;
        latest = storage::find(app, parts, id).await?;
    }
    storage::response_of(&latest)
}

fn is_in_background(stored: &StoredResponse) -> Result<bool, Error> {
    Ok(storage::response_of(stored)?.is_true("background"))
}

/// Streams the stored events of a response.
fn streamed(app: &Arc<App>, id: String, after: i64) -> Response {
    let mut response = Response::default();
    let events = Box::pin(events_of(app.clone(), id, after));
    as_events(&mut response, KeepAlive::new(events, app.config.server.keep_alive_ms));
    response
}

/// Reads the stored events of a response until it ends. The last event is missing if the response was
/// canceled or its host stopped.
fn events_of(app: Arc<App>, id: String, after: i64) -> impl Stream<Item = Bytes> {
    stream::unfold(Some(after), move |after| {
        let (app, id) = (app.clone(), id.clone());
        async move {
            let mut after = after?;
            let store = app.host.store();
            loop {
                // The runner is read first, so that all events stored before the end are read as well.
                let runner = store.response_runner(&id).await.ok().flatten();
                let events = match store.response_events(&id, after, AT_ONCE).await {
                    Ok(events) => events,
                    Err(error) => {
                        tracing::warn!("cannot read the events of the response {id}: {error}");
                        return None;
                    }
                };
                if let Some((last, _)) = events.last() {
                    after = *last;
                    return Some((written(&events), Some(after)));
                }
                let is_under_way =
                    runner.is_some_and(|(runner, seen_ms)| !runner.is_empty() && !storage::is_lost(seen_ms));
                // If this host stops, the client resumes the stream of another host's response elsewhere.
                if !is_under_way || app.is_stopping() && !app.detached.has(&id) {
                    return None;
                }
                tokio::time::sleep(LOOK).await;
            }
        }
    })
}

/// Encodes events, each named by its type.
fn written(events: &[(i64, String)]) -> Bytes {
    let mut out = BytesMut::new();
    for (_, event) in events {
        sse::write(&mut out, Some(type_of(event)), event.as_bytes());
    }
    out.freeze()
}

/// Returns the type of an encoded event, its first field.
fn type_of(event: &str) -> &str {
    let kind = event.strip_prefix(r#"{"type":""#).and_then(|rest| rest.split_once('"'));
    kind.map_or("", |(kind, _)| kind)
}

/// The events of a response that are not stored yet, and the results of all events.
#[derive(Default)]
struct Log {
    /// The number of the next event.
    next: i64,
    waiting: Vec<(i64, String)>,
    /// The size of the waiting events, in bytes.
    waiting_size: usize,
    /// The size of all events, in bytes.
    size: usize,
    /// The completed items.
    output: Vec<Json>,
    /// The response in the last event.
    last: Option<Json>,
}

impl Log {
    fn push(&mut self, event: String) {
        match type_of(&event) {
            "response.output_item.done" => {
                let item = Json::parse(event.as_bytes()).ok().and_then(|event| event.get("item"));
                self.output.extend(item.map(|item| item.deep_clone()));
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                let response = Json::parse(event.as_bytes()).ok().and_then(|event| event.get("response"));
                self.last = response.map(|response| response.deep_clone());
            }
            _ => {}
        }
        self.size += event.len();
        self.waiting_size += event.len();
        self.waiting.push((self.next, event));
        self.next += 1;
    }

    fn push_all(&mut self, events: &[Json]) {
        events.iter().for_each(|event| self.push(event.to_string()));
    }

    /// Stores the waiting events and returns `true` on success. After a failure, they keep waiting.
    async fn flush(&mut self, app: &App, id: &str) -> bool {
        if self.waiting.is_empty() {
            return true;
        }
        let kept = i64::try_from(EVENTS_KEPT.as_millis()).unwrap_or(i64::MAX);
        let until = now().saturating_add(kept);
        match app.host.store().append_response_events(id, &self.waiting, until).await {
            Ok(()) => {
                self.waiting.clear();
                self.waiting_size = 0;
                true
            }
            Err(error) => {
                tracing::warn!("cannot store the events of the response {id}: {error}");
                false
            }
        }
    }
}

/// The reasons to interrupt a turn.
enum Interruption {
    /// Another host took over the response, or it was canceled or deleted.
    Lost,
    /// The response was canceled, or the host stops.
    Stopped(StopReason),
    /// The response exceeded its time limit.
    TooLong,
}

/// A response that this host runs.
struct Run {
    app: Arc<App>,
    id: String,
    keeper: Keeper,
    /// Writes the events that no turn writes: the first ones, and those of an end caused by the host.
    writer: ResponsesWriter,
    parts: Parts,
    body: Bytes,
    key_user: Json,
    log: Log,
}

impl Run {
    async fn run(mut self, ticket: Ticket) {
        let queued = self.writer.queue();
        self.log.push_all(&queued);
        self.log.flush(&self.app, &self.id).await;
        let place = ticket.place();
        let mut end = Box::pin(interruption(self.app.clone(), self.id.clone(), ticket));
        let ended = self.work(place, &mut end).await;
        drop(end);
        match ended {
            Ok(()) => {}
            Err(Interruption::Lost) => {
                tracing::info!("the response {} was canceled, deleted or marked as failed", self.id);
                return;
            }
            Err(Interruption::Stopped(StopReason::Canceled)) => {
                let response = self.writer.standing(&self.log.output, &ResponseState::Canceled);
                return self.finish(response).await;
            }
            Err(Interruption::Stopped(StopReason::HostCloses)) => {
                self.fail(
                    "server_error",
                    "the host stopped before the response was finished; send the request again",
                );
            }
            Err(Interruption::TooLong) => {
                let limit = MAX_TIME.as_secs();
                self.fail("server_error", &format!("the response exceeded its limit of {limit} seconds"));
            }
        }
        if self.log.last.is_none() {
            self.fail("server_error", "the response ended early");
        }
        let response = Json::from(self.log.last.take());
        self.finish(response).await;
    }

    /// Runs the turn and records its events.
    async fn work(
        &mut self,
        place: QueueSlot,
        interruption: &mut (impl Future<Output = Interruption> + Unpin),
    ) -> Result<(), Interruption> {
        let _running = tokio::select! {
            running = place.begin() => running,
            end = &mut *interruption => return Err(end),
        };
        let begun = self.writer.started();
        self.log.push_all(&begun);
        self.log.flush(&self.app, &self.id).await;
        let standing = self.writer.standing(&[], &ResponseState::InProgress).to_string();
        let runner = &self.app.detached.runner;
        let changed = self.app.host.store().change_response(&self.id, runner, &standing, None, false).await;
        if let Err(error) = changed {
            // The end is stored with retries; until then, clients may read an outdated status.
            tracing::warn!("cannot record that the response {} is in progress: {error}", self.id);
        }
        let next = self.log.next.unsigned_abs();
        let endpoint = Responses { begun: Some((self.writer.resource().clone(), next)), in_background: true };
        let snapshot = self.app.host.snapshot();
        let call = Call::new(&self.app, &snapshot, &self.parts);
        let turn = Box::pin(serve_turn(&endpoint, &call, &self.body, &self.key_user));
        let answered = tokio::select! {
            answered = turn => answered,
            end = &mut *interruption => return Err(end),
        };
        let response = match answered {
            Ok(response) if response.status() == StatusCode::OK => response,
            Ok(refusal) => {
                let (code, message) = refusal_of(refusal).await;
                self.fail(&code, &message);
                return Ok(());
            }
            Err(error) => {
                self.fail(code_of(&error), &message_of(&error));
                return Ok(());
            }
        };
        let mut chunks = response.into_body().into_data_stream();
        let mut rest: Vec<u8> = Vec::new();
        let mut flush_at = Instant::now() + FLUSH;
        loop {
            let chunk = tokio::select! {
                chunk = chunks.next() => chunk,
                end = &mut *interruption => return Err(end),
                () = tokio::time::sleep_until(flush_at), if !self.log.waiting.is_empty() => {
                    self.log.flush(&self.app, &self.id).await;
                    flush_at = Instant::now() + FLUSH;
                    continue;
                }
            };
            let Some(Ok(chunk)) = chunk else { return Ok(()) };
            if self.log.waiting.is_empty() {
                flush_at = Instant::now() + FLUSH;
            }
            rest.extend_from_slice(&chunk);
            let mut from = 0;
            let ends: Vec<usize> = memchr::memmem::find_iter(&rest, BETWEEN).collect();
            for end in ends {
                if let Some(event) = data_of(&rest[from..end]) {
                    self.log.push(event);
                }
                from = end + BETWEEN.len();
            }
            rest.drain(..from);
            if self.log.size + rest.len() > MAX_EVENTS {
                self.fail("server_error", &format!("the response exceeded its limit of {MAX_EVENTS} bytes"));
                return Ok(());
            }
            if self.log.waiting_size > MAX_WAITING {
                self.log.flush(&self.app, &self.id).await;
                flush_at = Instant::now() + FLUSH;
            }
        }
    }

    /// Records the events of a failure after the existing ones.
    fn fail(&mut self, code: &str, message: &str) {
        self.writer.go_on(self.log.next.unsigned_abs());
        let events = self.writer.fail_with(code, message, &self.log.output.clone());
        self.log.push_all(&events);
    }

    /// Stores the end. The events are stored first, so that a reader who sees the end has all of them.
    async fn finish(mut self, response: Json) {
        let mut is_added = false;
        for attempt in 1..=TRIES {
            let is_stored = self.log.flush(&self.app, &self.id).await
                && match self.keeper.finish(&self.id, &response, &mut is_added).await {
                    Ok(_) => true,
                    Err(error) => {
                        tracing::warn!("cannot store the response {}: {error}", self.id);
                        false
                    }
                };
            if is_stored {
                return;
            }
            tokio::time::sleep(FLUSH * attempt).await;
        }
    }
}

/// Sends heartbeats until the turn has to be interrupted.
async fn interruption(app: Arc<App>, id: String, mut ticket: Ticket) -> Interruption {
    let until = Instant::now() + MAX_TIME;
    loop {
        tokio::select! {
            reason = ticket.stopped() => return Interruption::Stopped(reason),
            () = tokio::time::sleep_until(until) => return Interruption::TooLong,
            () = tokio::time::sleep(PULSE) => {
                // A failure of the store is tolerated.
                if let Ok(false) = app.host.store().touch_response(&id, &app.detached.runner).await {
                    return Interruption::Lost;
                }
            }
        }
    }
}

/// Returns the code and the message of an error response.
async fn refusal_of(response: Response) -> (String, String) {
    let bytes = axum::body::to_bytes(response.into_body(), MAX_WAITING).await.ok();
    let body = bytes.and_then(|bytes| Json::parse(&bytes).ok());
    // An unreadable body is reported as a server error.
    let error = body.map_or(Json::Null, |body| body.field("error"));
    let code =
        ["code", "type"].iter().find_map(|key| error.text(key)).unwrap_or_else(|| "server_error".into());
    (code.into(), error.string("message"))
}
