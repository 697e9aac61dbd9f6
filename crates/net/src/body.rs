//! A body on its way: never waited for longer than allowed, and what goes wrong with it told.

use super::explain::{Failed, Peer};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use valvehouse_config::Timeouts;
use valvehouse_core::fault::Fault;

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
        sending: impl Future<Output = Result<T, Failed>>,
    ) -> Result<T, Fault> {
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
pub(super) struct Coming<S> {
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

impl<S> Coming<S> {
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

    fn end(&mut self, fault: Fault) -> Poll<Option<Result<Bytes, Fault>>> {
        self.body = None;
        Poll::Ready(Some(Err(fault)))
    }
}

impl<S: Stream<Item = Result<Bytes, Failed>> + Unpin> Stream for Coming<S> {
    type Item = Result<Bytes, Fault>;

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
                let fault = this.peer.broke_off(&failed);
                this.end(fault)
            }
            Poll::Ready(None) => {
                this.body = None;
                Poll::Ready(None)
            }
            Poll::Pending if this.is_late(context) => {
                let fault = match this.has_begun {
                    _ if this.limits.is_over() => this.peer.too_long(),
                    true => this.peer.stopped(this.idle),
                    false => this.peer.silent(this.answer),
                };
                this.end(fault)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}
