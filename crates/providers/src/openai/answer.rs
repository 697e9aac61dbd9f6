//! Recognition of answers by their content instead of their media type, and passthrough of answers in the
//! requested format.

use crate::answer_stream::chunks;
use crate::mask::{hidden, without};
use crate::openai::provider::OpenAi;
use crate::origin::{Shape, guess};
use bytes::{Bytes, BytesMut};
use memchr::memmem::Finder;
use std::sync::LazyLock;
use valvehouse_core::chat::{CallStream, split};
use valvehouse_core::error::Error;
use valvehouse_core::provider::{PassthroughAnswer, PassthroughBody, whole_within};
use valvehouse_json::Json;
use valvehouse_net::{Response, sse};
use valvehouse_wire::openai::answer;
use valvehouse_wire::openai::stream::ChatReader;
use valvehouse_wire::{AnswerError, is_error};

const EVENTS: &str = "text/event-stream";

impl OpenAi {
    /// Returns the kind of an answer. It waits for the first bytes, because services send errors and complete
    /// answers with the media type of a stream, and streams with that of JSON.
    pub(super) async fn shape(&self, response: &mut Response) -> Result<Shape, Error> {
        if let Some(packing) = response.header("content-encoding").filter(|packing| *packing != "identity") {
            return Err(self.service.origin.error(&format!(
                "returned content-encoding {packing}, which is not supported; disable it at the service or a proxy before it"
            )));
        }
        let start = response.peek().await?;
        if start.is_empty() {
            return Err(self.service.origin.cut("it is empty"));
        }
        let kind = response.media_type();
        let is_json = kind == "application/json" || kind.ends_with("+json");
        Ok(match (&*kind, guess(&start)) {
            (EVENTS, Shape::Other) => Shape::Events,
            (_, Shape::Other) if is_json => Shape::Json,
            (EVENTS | "" | "text/plain" | "application/octet-stream", found) => found,
            (_, found) if is_json => found,
            _ => Shape::Other,
        })
    }

    /// Returns a successful answer that is relayed without being parsed.
    pub(super) async fn forwarded(
        &self,
        mut response: Response,
        stream: bool,
    ) -> Result<PassthroughAnswer, Error> {
        let (status, named) = (response.status, response.header("content-type").map(str::to_owned));
        let shape = self.shape(&mut response).await?;
        let (content_type, body) = match (shape, stream) {
            (Shape::Events, true) => {
                let named = named.filter(|_| response.media_type() == EVENTS);
                (named.or_else(|| Some(EVENTS.to_owned())), self.unread(response))
            }
            (Shape::Json, false) => {
                let whole = self.no_error(response.whole().await?)?;
                (named, PassthroughBody::Whole(without(whole, self.service.origin.key.as_ref())))
            }
            (Shape::Json, true) => {
                let answer = self.service.whole(response, answer::read_choices).await?;
                (Some(EVENTS.to_owned()), PassthroughBody::Whole(as_events(&answer)?))
            }
            (Shape::Events, false) => {
                let memory = response.memory();
                let reader = ChatReader::new(CallStream::default());
                let chunks = chunks(self.service.origin.clone(), response.into_stream(), reader);
                let answer = whole_within(chunks, memory.as_deref()).await?;
                (Some("application/json".to_owned()), PassthroughBody::Whole(encoded(&answer)?))
            }
            // Another protocol with one event per line: the client that requested it can read it.
            (Shape::Other, _) if response.media_type() == "application/x-ndjson" => {
                (named, self.unread(response))
            }
            (Shape::Other, _) => return Err(self.unexpected(response).await),
        };
        Ok(PassthroughAnswer { provider: self.service.origin.provider.clone(), status, content_type, body })
    }

    /// Returns a body that is not parsed; only the key is masked.
    fn unread(&self, response: Response) -> PassthroughBody {
        PassthroughBody::Stream(hidden(response.into_stream(), self.service.origin.key.as_ref()))
    }

    /// Returns a complete answer, unless it is an error with a successful status. An answer with choices is
    /// not parsed.
    fn no_error(&self, body: Bytes) -> Result<Bytes, Error> {
        static CHOICES: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"choices\""));
        if CHOICES.find(&body).is_none() {
            let answer = self.service.parse(&body)?;
            let error = match is_error(&answer) {
                true => Some(AnswerError::Sent(answer)),
                false if answer.is_object() => None,
                false => Some(AnswerError::Lacks("choices", answer)),
            };
            if let Some(error) = error {
                return Err(self.service.origin.unreadable(error));
            }
        }
        // Without a `Content-Length`, only the end of the JSON shows if it is complete.
        match body.trim_ascii_end().ends_with(b"}") {
            true => Ok(body),
            false => Err(self.service.origin.cut("its JSON is incomplete")),
        }
    }
}

/// Encodes a complete answer as a stream of events.
fn as_events(answer: &Json) -> Result<Bytes, Error> {
    let mut out = BytesMut::new();
    for event in split(answer, true) {
        sse::write(&mut out, None, &encoded(&event)?);
    }
    sse::write(&mut out, None, b"[DONE]");
    Ok(out.freeze())
}

fn encoded(value: &Json) -> Result<Bytes, Error> {
    let bytes = value.encode().map_err(|error| Error::Host(format!("cannot write a response: {error}")))?;
    Ok(bytes.into())
}
