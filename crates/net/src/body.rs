//! Responses of HTTP calls: status and headers at once, the body as a stream, with time limits and described
//! errors.

use super::explain::{FailedCall, Peer};
use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use reqwest::header::HeaderMap;
use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use valvehouse_core::context::HeldMemory;
use valvehouse_core::error::Error;
use valvehouse_grants::Timeouts;

/// The deadlines of a response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The deadline of the first part of the response.
    pub(super) answer_by: Instant,
    /// The deadline of the whole response, if the call has a time limit.
    pub(super) end_by: Option<Instant>,
}

impl Limits {
    /// Waits for the head of a response until the deadlines.
    pub(super) async fn within<T>(
        self,
        timeout: Duration,
        peer: &Peer,
        sending: impl Future<Output = Result<T, FailedCall>>,
    ) -> Result<T, Error> {
        match timeout_at(self.first(self.answer_by), sending).await {
            Ok(sent) => sent.map_err(|failed| peer.unreachable(&failed)),
            Err(_) if self.is_over() => Err(peer.too_long()),
            Err(_) => Err(peer.silent(timeout)),
        }
    }

    fn first(self, by: Instant) -> Instant {
        self.end_by.map_or(by, |end| end.min(by))
    }

    fn is_over(self) -> bool {
        self.end_by.is_some_and(|end| Instant::now() >= end)
    }
}

/// The bytes of a response. The stream ends after an error.
pub(super) struct ResponseBytes<S> {
    body: Option<S>,
    peer: Peer,
    /// The time limits for the first bytes and for each further part.
    answer: Duration,
    idle: Duration,
    has_begun: bool,
    limits: Limits,
    /// The deadline of the next bytes, and the timer for it.
    by: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> ResponseBytes<S> {
    pub(super) fn new(body: S, peer: Peer, timeouts: Timeouts, limits: Limits) -> Self {
        let Timeouts { answer, idle, .. } = timeouts;
        let by = limits.first(limits.answer_by);
        Self { body: Some(body), peer, answer, idle, has_begun: false, limits, by, timer: None }
    }

    /// Returns `true` if the deadline has passed. The timer is created on the first wait and reset only when
    /// it expires, because bytes may arrive thousands of times per second.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let by = self.by;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(by)));
        if timer.deadline() > by {
            timer.as_mut().reset(by);
        }
        while timer.as_mut().poll(context).is_ready() {
            if Instant::now() >= by {
                return true;
            }
            timer.as_mut().reset(by);
        }
        false
    }

    fn end(&mut self, error: Error) -> Poll<Option<Result<Bytes, Error>>> {
        self.body = None;
        Poll::Ready(Some(Err(error)))
    }
}

impl<S: Stream<Item = Result<Bytes, FailedCall>> + Unpin> Stream for ResponseBytes<S> {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        match body.poll_next_unpin(context) {
            Poll::Ready(Some(Ok(bytes))) => {
                this.has_begun = true;
                this.by = this.limits.first(Instant::now() + this.idle);
                Poll::Ready(Some(Ok(bytes)))
            }
            Poll::Ready(Some(Err(failed))) => {
                let error = this.peer.interrupted(&failed);
                this.end(error)
            }
            Poll::Ready(None) => {
                this.body = None;
                Poll::Ready(None)
            }
            Poll::Pending if this.is_late(context) => {
                let error = match this.has_begun {
                    _ if this.limits.is_over() => this.peer.too_long(),
                    true => this.peer.stopped(this.idle),
                    false => this.peer.silent(this.answer),
                };
                this.end(error)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

/// The maximum size of a decompressed body that is read as a whole, in bytes.
pub const MAX_BODY: usize = 64 * 1024 * 1024;

/// A response whose body is a stream.
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    headers: HeaderMap,
    /// The part of the body that [`Response::peek`] has read.
    begun: Option<Bytes>,
    body: BoxStream<'static, Result<Bytes, Error>>,
    /// The memory that a body counts toward if it is read as a whole.
    memory: Option<Arc<HeldMemory>>,
}

/// The size from which a body counts, in bytes.
const COUNTED: usize = 16 << 10;
/// The number of copies of a body that the host holds at most: as received, and as JSON.
const COPIES: usize = 2;

impl Response {
    pub(super) fn new(
        status: u16,
        headers: HeaderMap,
        body: BoxStream<'static, Result<Bytes, Error>>,
    ) -> Self {
        Self { status, headers, begun: None, body, memory: None }
    }

    /// Sets where the memory of the body counts if it is read as a whole.
    #[must_use]
    pub fn counted_in(mut self, memory: Option<Arc<HeldMemory>>) -> Self {
        self.memory = memory;
        self
    }

    /// Returns where the memory of the body counts.
    pub fn memory(&self) -> Option<Arc<HeldMemory>> {
        self.memory.clone()
    }

    /// Returns a header if it exists and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the headers that are text, with lower-case names.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
    }

    /// Returns the `content-type` without parameters in lower case; "" if there is none.
    pub fn media_type(&self) -> Cow<'_, str> {
        let value = self.header("content-type").unwrap_or("");
        let media = value.split_once(';').map_or(value, |(media, _)| media).trim();
        if media.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Cow::Owned(media.to_ascii_lowercase());
        }
        Cow::Borrowed(media)
    }

    /// Returns the body as a stream, decompressed.
    pub fn into_stream(self) -> BoxStream<'static, Result<Bytes, Error>> {
        match self.begun {
            Some(begun) => stream::iter([Ok(begun)]).chain(self.body).boxed(),
            None => self.body,
        }
    }

    /// Returns the first bytes of the body without consuming them, for services that do not send a content
    /// type.
    ///
    /// # Errors
    /// Returns an error if the connection fails or a time limit is exceeded.
    pub async fn peek(&mut self) -> Result<Bytes, Error> {
        while self.begun.is_none()
            && let Some(bytes) = self.body.next().await
        {
            self.begun = Some(bytes?).filter(|bytes| !bytes.is_empty());
        }
        Ok(self.begun.clone().unwrap_or_default())
    }

    /// Reads the whole body, at most [`MAX_BODY`] bytes.
    ///
    /// # Errors
    /// Returns an error if the body is longer, the connection fails, or a time limit is exceeded.
    pub async fn whole(self) -> Result<Bytes, Error> {
        let (body, rest) = self.start(MAX_BODY).await?;
        if rest {
            let message = format!("a response exceeded its limit of {} MiB", MAX_BODY >> 20);
            return Err(Error::Provider { message: message.into(), timeout: false });
        }
        Ok(body)
    }

    /// Reads at most `limit` bytes of the body, for error pages. The second value is `true` if there are
    /// more.
    ///
    /// # Errors
    /// Returns an error if the connection fails, a time limit is exceeded, or the requests of the host hold too much
    /// memory.
    pub async fn start(mut self, limit: usize) -> Result<(Bytes, bool), Error> {
        let first = self.peek().await?;
        self.begun = None;
        if let Some(memory) = self.memory.as_ref().filter(|_| first.len() > COUNTED) {
            memory.grow(COPIES * first.len())?;
        }
        let Some(second) = self.body.next().await else {
            // Most bodies arrive in one part, which is not copied.
            return Ok((first.slice(..first.len().min(limit)), first.len() > limit));
        };
        let mut body = BytesMut::from(first);
        body.extend_from_slice(&second?);
        let mut counted = body.len().max(COUNTED);
        while body.len() <= limit
            && let Some(bytes) = self.body.next().await
        {
            body.extend_from_slice(&bytes?);
            while body.len() > counted {
                if let Some(memory) = &self.memory {
                    memory.grow(COPIES * COUNTED)?;
                }
                counted += COUNTED;
            }
        }
        let is_longer = body.len() > limit;
        body.truncate(limit);
        Ok((body.freeze(), is_longer))
    }
}
