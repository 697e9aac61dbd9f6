//! A service whose calls are counted and timed, whatever its wire.

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, Stream, StreamExt};
use memchr::memmem;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use valvehouse_core::breaker::Open;
use valvehouse_core::fault::Fault;
use valvehouse_core::figures::{Answered, Asking, Service};
use valvehouse_core::provider::{Answer, Forwarded, Passed, Piece, Provider, Request};
use valvehouse_json::Json;

/// At the end of bytes that nobody reads, `usage` is looked for in as many of them.
const TAIL: usize = 4 * 1024;

/// Wraps any provider.
pub struct Measured {
    provider: Arc<dyn Provider>,
    figures: Arc<Service>,
}

impl Measured {
    /// Around a provider, adding to these figures.
    pub fn new(provider: Arc<dyn Provider>, figures: Arc<Service>) -> Self {
        Self { provider, figures }
    }
}

impl Provider for Measured {
    fn name(&self) -> &str {
        self.provider.name()
    }

    /// A list is no work: it is not counted.
    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Fault>> {
        self.provider.models()
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Fault>> {
        Box::pin(async move {
            let mut asking = self.figures.ask();
            match self.provider.chat(request).await {
                Ok(Answer::Whole(whole)) => {
                    asking.receives();
                    asking.tells(&whole.get("usage").unwrap_or_default());
                    asking.ends(Answered::Whole);
                    Ok(Answer::Whole(whole))
                }
                Ok(Answer::Stream(pieces)) => Ok(Answer::Stream(watched(pieces, asking, LastWords))),
                Err(fault) => {
                    asking.fails(&fault);
                    Err(fault)
                }
            }
        })
    }

    fn forward(&self, body: Bytes, stream: bool) -> Option<BoxFuture<'_, Result<Forwarded, Fault>>> {
        let forwarded = self.provider.forward(body, stream)?;
        Some(Box::pin(async move {
            let mut asking = self.figures.ask();
            match forwarded.await {
                Ok(Forwarded { body, provider, status, content_type }) => {
                    let body = match body {
                        Passed::Stream(body) => Passed::Stream(watched(body, asking, LastBytes::default())),
                        Passed::Whole(body) => {
                            asking.receives();
                            if let Some(usage) = usage_in(&body[body.len().saturating_sub(TAIL)..]) {
                                asking.tells(&usage);
                            }
                            asking.ends(Answered::Whole);
                            Passed::Whole(body)
                        }
                    };
                    Ok(Forwarded { body, provider, status, content_type })
                }
                Err(fault) => {
                    asking.fails(&fault);
                    Err(fault)
                }
            }
        }))
    }

    fn takes_response_format(&self, format: &Json) -> bool {
        self.provider.takes_response_format(format)
    }

    fn rests(&self) -> Option<Open> {
        self.provider.rests()
    }

    fn figures(&self) -> Option<&Service> {
        Some(&self.figures)
    }
}

/// Looks for what a service says of its tokens.
trait Looks<T>: Send + Unpin + 'static {
    fn looks(&mut self, item: &T, asking: &mut Asking);

    /// There is no more.
    fn last(&mut self, asking: &mut Asking) {
        let _ = asking;
    }
}

struct LastWords;

impl Looks<Piece> for LastWords {
    fn looks(&mut self, piece: &Piece, asking: &mut Asking) {
        if let Some(usage @ Json::Object(_)) = piece.event.get("usage") {
            asking.tells(&usage);
        }
    }
}

/// The end of an answer that is passed on unread.
#[derive(Default)]
struct LastBytes {
    /// The last pieces; the first of them may begin before the tail does.
    tail: VecDeque<Bytes>,
    length: usize,
}

impl Looks<Bytes> for LastBytes {
    fn looks(&mut self, bytes: &Bytes, _: &mut Asking) {
        // A copy: these bytes are part of a whole read buffer, which they would keep alive.
        let end = Bytes::copy_from_slice(&bytes[bytes.len().saturating_sub(TAIL)..]);
        self.length += end.len();
        self.tail.push_back(end);
        while let Some(first) = self.tail.front().filter(|first| self.length - first.len() >= TAIL) {
            self.length -= first.len();
            self.tail.pop_front();
        }
    }

    fn last(&mut self, asking: &mut Asking) {
        if let Some(usage) = usage_in(&self.tail.drain(..).collect::<Vec<_>>().concat()) {
            asking.tells(&usage);
        }
    }
}

/// The last object that stands under `usage`.
fn usage_in(bytes: &[u8]) -> Option<Json> {
    const KEY: &[u8] = b"\"usage\"";
    let places: Vec<usize> = memmem::find_iter(bytes, KEY).collect();
    places.into_iter().rev().find_map(|place| object_after(&bytes[place + KEY.len()..]))
}

/// The object behind a colon, whatever comes after it.
fn object_after(key: &[u8]) -> Option<Json> {
    let value = key.trim_ascii_start().strip_prefix(b":")?;
    let mut values = serde_json::Deserializer::from_slice(value).into_iter::<serde::de::IgnoredAny>();
    values.next()?.ok()?;
    Json::parse(&value[..values.byte_offset()]).ok().filter(|usage| matches!(usage, Json::Object(_)))
}

fn watched<T: Send + 'static>(
    items: BoxStream<'static, Result<T, Fault>>,
    asking: Asking,
    looks: impl Looks<T>,
) -> BoxStream<'static, Result<T, Fault>> {
    Watched { items, asking, looks }.boxed()
}

/// An answer under way; dropped before its end, its reader went away.
struct Watched<T, L> {
    items: BoxStream<'static, Result<T, Fault>>,
    asking: Asking,
    looks: L,
}

impl<T, L: Looks<T>> Stream for Watched<T, L> {
    type Item = Result<T, Fault>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let polled = this.items.poll_next_unpin(context);
        match &polled {
            Poll::Ready(Some(Ok(item))) => {
                this.asking.receives();
                this.looks.looks(item, &mut this.asking);
            }
            Poll::Ready(Some(Err(fault))) => this.asking.fails(fault),
            Poll::Ready(None) => {
                this.looks.last(&mut this.asking);
                this.asking.ends(Answered::Whole);
            }
            Poll::Pending => {}
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_core::provider::{Canned, Reply};

    fn measured(reply: Reply) -> Measured {
        Measured::new(Arc::new(Canned::named("lab", [reply])), Arc::default())
    }

    fn ended(measured: &Measured) -> Vec<&'static str> {
        let outcomes = measured.figures.outcomes();
        outcomes.into_iter().filter(|(_, count)| *count > 0).map(|(word, _)| word).collect()
    }

    fn request(stream: bool) -> Request {
        Request::new(Json::parse(br#"{"model":"m","messages":[]}"#).unwrap(), stream)
    }

    #[tokio::test]
    async fn whole_answers_streams_failures_and_those_who_leave_are_told_apart() {
        let whole = measured("hi".into());
        assert!(whole.chat(request(false)).await.is_ok());
        assert_eq!(ended(&whole), ["answered"]);

        let stream = measured(Reply::pieces(["a", "b"]));
        let Ok(Answer::Stream(pieces)) = stream.chat(request(true)).await else { panic!("no stream") };
        assert_eq!((ended(&stream), stream.figures.running()), (vec![], 1));
        assert!(pieces.collect::<Vec<_>>().await.len() > 1);
        assert_eq!((ended(&stream), stream.figures.first().count), (vec!["answered"], 1));

        let left = measured(Reply::pieces(["a", "b"]));
        let Ok(Answer::Stream(mut pieces)) = left.chat(request(true)).await else { panic!("no stream") };
        assert!(pieces.next().await.is_some());
        drop(pieces);
        assert_eq!(ended(&left), ["left"]);

        let busy =
            Fault::Answered { provider: "lab".into(), status: 429, body: Json::Null, retry_after: None };
        let busy = measured(busy.into());
        assert!(busy.chat(request(false)).await.is_err());
        assert_eq!(ended(&busy), ["busy"]);
    }

    #[test]
    fn tokens_are_found_at_the_end_of_bytes_however_they_come() {
        let body = br#"data: {"usage":null}

data: {"choices":[],"usage": {"prompt_tokens":7,"completion_tokens":5}}

data: [DONE]

"#;
        for size in [1, 7, 4096] {
            let (service, mut looks) = (Arc::new(Service::default()), LastBytes::default());
            let mut asking = service.ask();
            let padding = vec![b' '; 3 * TAIL];
            for piece in padding.chunks(size).chain(body.chunks(size)) {
                looks.looks(&Bytes::copy_from_slice(piece), &mut asking);
                assert!(looks.length < 2 * TAIL);
            }
            looks.last(&mut asking);
            asking.ends(Answered::Whole);
            assert_eq!(service.tokens(), [7, 5], "pieces of {size}");
        }
        assert!(usage_in(b"{\"usage\": \"much\"}").is_none());
    }
}
