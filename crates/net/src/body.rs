//! A body in transfer, with time limits and described errors.
//!
//! An answer: status and headers at once, the body as it comes.

use super::explain::{FailedCall, Peer};
use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use reqwest::header::HeaderMap;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use valvehouse_config::Timeouts;
use valvehouse_core::error::Error;

/// Until when something must have come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The first of an answer.
    pub(super) answer_by: Instant,
    /// All of it, where the call has a limit of its own.
    pub(super) end_by: Option<Instant>,
}

impl Limits {
    /// The head of an answer, or why there is none.
    pub(super) async fn within<T>(
        self,
        patience: Duration,
        peer: &Peer,
        sending: impl Future<Output = Result<T, FailedCall>>,
    ) -> Result<T, Error> {
        match timeout_at(self.first(self.answer_by), sending).await {
            Ok(sent) => sent.map_err(|failed| peer.unreachable(&failed)),
            Err(_) if self.is_over() => Err(peer.too_long()),
            Err(_) => Err(peer.silent(patience)),
        }
    }

    fn first(self, by: Instant) -> Instant {
        self.end_by.map_or(by, |end| end.min(by))
    }

    fn is_over(self) -> bool {
        self.end_by.is_some_and(|end| Instant::now() >= end)
    }
}

/// The bytes of an answer. After an error, and after its end, there is nothing more.
pub(super) struct ResponseBytes<S> {
    body: Option<S>,
    peer: Peer,
    /// The time that the first bytes and the next ones may take.
    answer: Duration,
    idle: Duration,
    has_begun: bool,
    limits: Limits,
    /// Until when the next bytes are waited for, and who rings then.
    by: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> ResponseBytes<S> {
    pub(super) fn new(body: S, peer: Peer, timeouts: Timeouts, limits: Limits) -> Self {
        let Timeouts { answer, idle, .. } = timeouts;
        let by = limits.first(limits.answer_by);
        Self { body: Some(body), peer, answer, idle, has_begun: false, limits, by, timer: None }
    }

    /// Returns `true` if it has been waited for too long. A timer is made when there is something to wait for, and
    /// wound up again when it has run down: bytes come thousands of times a second.
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

/// A whole body may be this large, unpacked.
pub const MAX_BODY: usize = 64 * 1024 * 1024;

/// An answer whose body is still coming.
pub struct Response {
    /// The status.
    pub status: u16,
    headers: HeaderMap,
    /// The part of the body that has come already.
    begun: Option<Bytes>,
    body: BoxStream<'static, Result<Bytes, Error>>,
}

impl Response {
    pub(super) fn new(
        status: u16,
        headers: HeaderMap,
        body: BoxStream<'static, Result<Bytes, Error>>,
    ) -> Self {
        Self { status, headers, begun: None, body }
    }

    /// A header, when it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The headers that are text, with their names in lower case.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
    }

    /// `content-type` without parameters, in lower case; "" where there is none.
    pub fn media_type(&self) -> String {
        let value = self.header("content-type").unwrap_or("");
        value.split_once(';').map_or(value, |(media, _)| media).trim().to_ascii_lowercase()
    }

    /// The body as it comes, unpacked.
    pub fn into_stream(self) -> BoxStream<'static, Result<Bytes, Error>> {
        match self.begun {
            Some(begun) => stream::iter([Ok(begun)]).chain(self.body).boxed(),
            None => self.body,
        }
    }

    /// The first bytes that come, left in place; for services that do not say what they send.
    pub async fn peek(&mut self) -> Result<Bytes, Error> {
        while self.begun.is_none()
            && let Some(bytes) = self.body.next().await
        {
            self.begun = Some(bytes?).filter(|bytes| !bytes.is_empty());
        }
        Ok(self.begun.clone().unwrap_or_default())
    }

    /// The whole body, [`MAX_BODY`] at most.
    pub async fn whole(self) -> Result<Bytes, Error> {
        let (body, rest) = self.start(MAX_BODY).await?;
        if rest {
            let message = format!("a response exceeded its limit of {} MiB", MAX_BODY >> 20);
            return Err(Error::Provider { message: message.into(), timeout: false });
        }
        Ok(body)
    }

    /// The first bytes of the body and whether there are more; for error pages.
    pub async fn start(mut self, limit: usize) -> Result<(Bytes, bool), Error> {
        let first = self.peek().await?;
        self.begun = None;
        let Some(second) = self.body.next().await else {
            // Most come in one piece, which is not a copy.
            return Ok((first.slice(..first.len().min(limit)), first.len() > limit));
        };
        let mut body = BytesMut::from(first);
        body.extend_from_slice(&second?);
        while body.len() <= limit
            && let Some(bytes) = self.body.next().await
        {
            body.extend_from_slice(&bytes?);
        }
        let is_longer = body.len() > limit;
        body.truncate(limit);
        Ok((body.freeze(), is_longer))
    }
}
