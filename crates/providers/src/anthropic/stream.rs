//! An answer that comes as Anthropic's events: pieces of a chat, errors among them, and whether the
//! end is a proper end.

use crate::origin::{Origin, is_error};
use crate::service::{Reads, drain, read};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use std::collections::VecDeque;
use valvehouse_core::anthropic::{self, status_of};
use valvehouse_core::fault::Fault;
use valvehouse_core::provider::Piece;
use valvehouse_json::Json;
use valvehouse_net::sse::{Event, Parser};

/// The pieces of a streamed answer. An error is the last item.
pub(super) fn pieces(
    origin: Origin,
    body: BoxStream<'static, Result<Bytes, Fault>>,
    with_usage: bool,
    with_first_usage: bool,
) -> BoxStream<'static, Result<Piece, Fault>> {
    let reader = Reader {
        origin,
        body,
        parser: Parser::default(),
        message: anthropic::Reader::default().with_usage(with_usage).with_first_usage(with_first_usage),
        ready: VecDeque::new(),
        input: Input::Open,
    };
    read(reader)
}

struct Reader {
    origin: Origin,
    body: BoxStream<'static, Result<Bytes, Fault>>,
    parser: Parser,
    message: anthropic::Reader,
    ready: VecDeque<Json>,
    input: Input,
}

#[derive(PartialEq)]
enum Input {
    Open,
    /// The message has said that it is over.
    Stopped,
    Ended,
}

impl Reads for Reader {
    async fn next(&mut self) -> Option<Result<Piece, Fault>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Some(Ok(Piece::new(chunk)));
            }
            if self.input == Input::Stopped && self.message.is_complete() {
                drain(&mut self.body).await;
                return None;
            }
            match self.parser.next() {
                Some(Ok(event)) => {
                    if let Err(fault) = self.read(&event) {
                        return Some(Err(fault));
                    }
                }
                Some(Err(error)) => return Some(Err(self.origin.fault(&format!("cannot be read: {error}")))),
                None if self.input != Input::Open => return self.end().map(Err),
                None => match self.body.next().await {
                    Some(Ok(bytes)) => self.parser.push(&bytes),
                    Some(Err(fault)) if self.message.is_complete() => {
                        tracing::debug!("after the end of an answer: {fault}");
                        return None;
                    }
                    Some(Err(fault)) => return Some(Err(fault)),
                    None => {
                        self.input = Input::Ended;
                        self.parser.finish();
                    }
                },
            }
        }
    }
}

impl Reader {
    fn read(&mut self, event: &Event) -> Result<(), Fault> {
        // Some services end as OpenAI's do.
        if matches!(event.data.trim_ascii(), b"" | b"[DONE]") {
            return Ok(());
        }
        let json = self.origin.parse_part("an event", &event.data, self.input == Input::Ended)?;
        if event.name.as_deref() == Some("error") || is_error(&json) {
            return Err(in_band(&self.origin, &json));
        }
        if json.text("type").is_some_and(|kind| kind == "message_stop") {
            self.input = Input::Stopped;
        }
        self.ready.extend(self.message.read(&json));
        Ok(())
    }

    /// The fault of a stream that ended too early. A message that named its stop reason is over: a missing
    /// `message_stop` is only a habit then.
    fn end(&self) -> Option<Fault> {
        let cut = || self.origin.cut("the stream ended without a stop_reason");
        (!self.message.is_complete()).then(cut)
    }
}

/// An error inside an answer that began as a success: its kind says which status it would have had.
pub(super) fn in_band(origin: &Origin, event: &Json) -> Fault {
    let kind = event.at_path("error.type");
    match (origin.in_band(event), kind.as_str().and_then(status_of)) {
        (Fault::Answered { provider, body, retry_after, .. }, Some(status)) => {
            Fault::Answered { provider, status, body, retry_after }
        }
        (fault, _) => fault,
    }
}
