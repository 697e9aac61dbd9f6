//! The minimum rate at which the bodies and messages of clients arrive: whoever sends slower holds their memory.

use axum::body::HttpBody;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// The number of bytes that extend the wait for a client by a second.
const RATE: usize = 1 << 10;

/// The time for which the host still waits for a client. It is `limit` at first and at most; waiting shortens it, and
/// each KiB received extends it by a second. The time in which the host does not read is not counted.
#[derive(Debug)]
pub(crate) struct Arrival {
    limit: Duration,
    left: Duration,
    /// The start of the current wait.
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Arrival {
    /// Starts with this limit; without one if it is zero.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, left: limit, since: None, timer: None }
    }

    /// Waits for a client. Returns an error once the wait was too long.
    pub(crate) fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<TooSlow> {
        if self.limit.is_zero() {
            return Poll::Pending;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.left)));
        if self.since.is_none() {
            let now = Instant::now();
            self.since = Some(now);
            timer.as_mut().reset(now + self.left);
        }
        timer.as_mut().poll(context).map(|()| TooSlow)
    }

    /// Ends the current wait, and counts received bytes.
    pub(crate) fn receive(&mut self, bytes: usize) {
        if let Some(since) = self.since.take() {
            self.left = self.left.saturating_sub(since.elapsed());
        }
        if self.left < self.limit {
            let more = Duration::from_millis((bytes * 1000 / RATE) as u64);
            self.left = self.left.saturating_add(more).min(self.limit);
        }
    }

    /// Starts anew with the next message.
    pub(crate) fn reset(&mut self) {
        (self.left, self.since) = (self.limit, None);
    }
}

/// The error of a body or message that arrives too slowly.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TooSlow;

impl fmt::Display for TooSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "it arrived slower than 1 KiB per second for longer than allowed ([server] body_timeout_ms)",
        )
    }
}

impl Error for TooSlow {}

/// A body that ends with [`TooSlow`] if it arrives too slowly.
pub(crate) struct TimedBody<B> {
    body: B,
    arrival: Arrival,
}

impl<B> TimedBody<B> {
    pub(crate) fn new(body: B, limit: Duration) -> Self {
        Self { body, arrival: Arrival::new(limit) }
    }
}

impl<B: HttpBody<Data = Bytes, Error: Error + Send + Sync + 'static> + Unpin> HttpBody for TimedBody<B> {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(frame) => {
                if let Some(Ok(frame)) = &frame {
                    self.arrival.receive(frame.data_ref().map_or(0, Bytes::len));
                }
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => self.arrival.poll_late(context).map(|slow| Some(Err(slow.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use futures::StreamExt as _;

    /// Returns the time until a body of many pieces is refused, if it is.
    async fn refused(pieces: usize, bytes: usize, pause: Duration) -> Option<Duration> {
        let begun = Instant::now();
        let pieces = futures::stream::iter(0..pieces).then(move |_| async move {
            sleep(pause).await;
            Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; bytes]))
        });
        let body = TimedBody::new(Body::from_stream(pieces), Duration::from_secs(60));
        let mut body = Body::new(body).into_data_stream();
        while let Some(piece) = body.next().await {
            if let Err(error) = piece {
                assert!(std::error::Error::source(&error).unwrap().is::<TooSlow>(), "{error}");
                return Some(begun.elapsed());
            }
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_arrive_too_slowly_end_and_slow_clients_do_not() {
        let second = Duration::from_secs(1);
        assert_eq!(refused(100, 1, 10 * second).await.unwrap().as_secs(), 60);
        assert!((115..=120).contains(&refused(10_000, 512, second).await.unwrap().as_secs()));
        assert_eq!(refused(1, 1, 61 * second).await.unwrap().as_secs(), 60);
        for (pieces, bytes, pause) in
            [(10_000, 1 << 10, second), (100, 64 << 10, 50 * second), (1, 1, 59 * second), (59, 1, second)]
        {
            assert_eq!(refused(pieces, bytes, pause).await, None, "{bytes} bytes each {pause:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_in_which_nobody_reads_is_not_counted() {
        let pieces = futures::stream::iter(0..10).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"x")));
        let body = TimedBody::new(Body::from_stream(pieces), Duration::from_secs(60));
        let mut body = Body::new(body).into_data_stream();
        while let Some(piece) = body.next().await {
            piece.unwrap();
            sleep(Duration::from_secs(100)).await;
        }
    }
}
