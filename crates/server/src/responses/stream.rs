//! A turn whose answer is streamed as the events of a response.

use super::failure::{code_of, message_of};
use super::storage::Keeper;
use super::writer::Writer;
use crate::first_choice;
use crate::openai::keep_alive::KeepAlive;
use crate::openai::streaming::{Item, Streaming, as_events};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream, StreamExt};
use valvehouse_json::Json;
use valvehouse_net::sse;

/// Sends what a turn gives.
pub(super) fn respond(
    first: Option<Item>,
    mut streaming: Streaming,
    writer: Writer,
    keeper: Option<Keeper>,
    keep_alive_ms: u64,
) -> Response {
    let mut response = Response::default();
    streaming.name(&mut response);
    let rest = stream::poll_fn(move |context| streaming.poll_next(context));
    let items = stream::iter(first).chain(rest).boxed();
    let sending = Sending { items, writer, keeper };
    let bytes = stream::unfold(Some(sending), |sending| async { Some(sending?.next().await) });
    let bytes = bytes.filter(|bytes| std::future::ready(!bytes.is_empty())).boxed();
    as_events(&mut response, KeepAlive::new(bytes, keep_alive_ms));
    response
}

/// An answer under way to its client.
struct Sending {
    items: BoxStream<'static, Item>,
    writer: Writer,
    keeper: Option<Keeper>,
}

impl Sending {
    /// The next bytes, and what sends those after them: nothing once the end is written.
    async fn next(mut self) -> (Bytes, Option<Self>) {
        let events = match self.items.next().await {
            Some(Item::Piece(piece)) => self.writer.write(&piece.event),
            Some(Item::Emitted(event)) => self.writer.emitted(event),
            // This endpoint asks for none.
            Some(Item::Raw(_)) => Vec::new(),
            Some(Item::Failed(fault)) => {
                tracing::warn!("a stream ended with an error: {fault}");
                let events = self.writer.fail(code_of(&fault), &message_of(&fault));
                return (written(&events), None);
            }
            None if self.writer.lacks_first_choice() => {
                let fault = first_choice::missing();
                return (written(&self.writer.fail(code_of(&fault), &message_of(&fault))), None);
            }
            None => {
                let events = self.writer.end();
                if let (Some(keeper), Some(last)) = (&self.keeper, events.last()) {
                    let response = last.get("response").unwrap_or_default();
                    keeper.keep(self.writer.id(), &self.writer.items(), &response).await;
                }
                return (written(&events), None);
            }
        };
        (written(&events), Some(self))
    }
}

/// Events, each under the name of its type.
fn written(events: &[Json]) -> Bytes {
    let mut out = BytesMut::new();
    for event in events {
        let name = event.text("type").unwrap_or_default();
        let data = event.encode().unwrap_or_else(|error| {
            tracing::error!("an event could not be written: {error}");
            b"{}".to_vec()
        });
        sse::write(&mut out, Some(&name), &data);
    }
    out.freeze()
}
