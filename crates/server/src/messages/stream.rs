//! A turn whose answer is streamed in Anthropic's events.

use super::refusal;
use crate::first_choice;
use crate::openai::streaming::{Item, Streaming, as_events};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream, StreamExt};
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::anthropic::Writer;
use valvehouse_core::context::{Context, TurnFacts};
use valvehouse_core::fault::Fault;
use valvehouse_host::Ready;
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_net::sse;

/// Begins the turn. Until its first word there is a status to tell the truth with.
pub(super) async fn streamed(
    app: &Arc<App>,
    ready: Ready,
    body: Json,
    facts: TurnFacts,
    context: Context,
    headers: &HeaderMap,
) -> Result<Response, Fault> {
    // Other services' bytes would not be understood here.
    let (first, mut streaming) = Streaming::begin(app, ready, body, facts, context, headers, false).await?;
    let mut response = Response::default();
    streaming.name(&mut response);
    let rest = stream::poll_fn(move |context| streaming.poll_next(context));
    let items = stream::iter(first).chain(rest).boxed();
    let quiet = Some(app.config.server.keep_alive_ms).filter(|ms| *ms > 0).map(Duration::from_millis);
    let sending = Sending { items, writer: Writer::default(), quiet };
    let bytes = stream::unfold(Some(sending), |sending| async { Some(sending?.next().await) });
    as_events(&mut response, bytes);
    Ok(response)
}

/// What is on its way to the client.
struct Sending {
    items: BoxStream<'static, Item>,
    writer: Writer,
    /// After so long without a word the client hears that it is still being served.
    quiet: Option<Duration>,
}

impl Sending {
    /// The next bytes, and what sends those after them: nothing once the end is written.
    async fn next(mut self) -> (Bytes, Option<Self>) {
        let mut out = BytesMut::new();
        let next = self.items.next();
        let next = match self.quiet {
            Some(quiet) => tokio::time::timeout(quiet, next).await,
            None => Ok(next.await),
        };
        match next {
            Err(_) => write(&mut out, &Json::from([("type", "ping".into())])),
            Ok(Some(Item::Piece(piece))) => {
                self.writer.write(&piece.event).iter().for_each(|event| write(&mut out, event));
            }
            Ok(Some(Item::Emitted(event))) => {
                write(&mut out, &Json::from([("type", "valvehouse".into()), ("event", event)]));
            }
            // Asked not to, no turn gives raw bytes.
            Ok(Some(Item::Raw(_))) => {}
            Ok(Some(Item::Failed(fault))) => {
                tracing::warn!("a stream ended with an error: {fault}");
                write(&mut out, &refusal::body(&fault));
                return (out.freeze(), None);
            }
            Ok(None) if self.writer.lacks_first_choice() => {
                write(&mut out, &refusal::body(&first_choice::missing()));
                return (out.freeze(), None);
            }
            Ok(None) => {
                self.writer.end().iter().for_each(|event| write(&mut out, event));
                return (out.freeze(), None);
            }
        }
        (out.freeze(), Some(self))
    }
}

/// One event, by its type's name.
fn write(out: &mut BytesMut, event: &Json) {
    let name = event.text("type").unwrap_or_default();
    let data = event.encode().unwrap_or_else(|error| {
        tracing::error!("an event could not be written: {error}");
        b"{}".to_vec()
    });
    sse::write(out, Some(&name), &data);
}
