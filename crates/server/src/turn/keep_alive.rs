//! Keep-alive messages in silent streams, because proxies close connections that are silent for long.

use bytes::Bytes;
use futures::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// A comment, which clients ignore.
pub(crate) const COMMENT: &[u8] = b": keep-alive\n\n";

/// A stream with keep-alive messages, which are sent only between events.
pub(crate) struct KeepAlive<S> {
    bytes: S,
    every: Duration,
    word: &'static [u8],
    timer: Pin<Box<Sleep>>,
    last_activity: Instant,
    end: End,
}

impl<S> KeepAlive<S> {
    /// Creates a stream that sends a comment after `every_ms` milliseconds of silence; 0 disables comments.
    pub(crate) fn new(bytes: S, every_ms: u64) -> Self {
        Self::with_word(bytes, every_ms, COMMENT)
    }

    /// Creates a stream that sends `word` instead of a comment.
    pub(crate) fn with_word(bytes: S, every_ms: u64, word: &'static [u8]) -> Self {
        // A year stands for never.
        let never = Duration::from_secs(365 * 24 * 3600);
        let every = if every_ms == 0 { never } else { Duration::from_millis(every_ms) };
        Self {
            bytes,
            every,
            word,
            timer: Box::pin(sleep(every)),
            last_activity: Instant::now(),
            end: End::default(),
        }
    }

    /// Returns `true` if a keep-alive is due. The timer is reset only after it has expired, because thousands
    /// of events may arrive per second.
    fn is_time(&mut self, context: &mut Context<'_>) -> bool {
        while self.timer.as_mut().poll(context).is_ready() {
            let silent = self.last_activity.elapsed();
            if silent >= self.every {
                self.last_activity = Instant::now();
            }
            self.timer.as_mut().reset(self.last_activity + self.every);
            if silent >= self.every && self.end.is_between_events() {
                return true;
            }
        }
        false
    }
}

impl<S: Stream<Item = Bytes> + Unpin> Stream for KeepAlive<S> {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match Pin::new(&mut self.bytes).poll_next(context) {
            Poll::Ready(Some(bytes)) => {
                self.last_activity = Instant::now();
                self.end.follow(&bytes);
                Poll::Ready(Some(bytes))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending if self.is_time(context) => Poll::Ready(Some(Bytes::from_static(self.word))),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// The last bytes that were sent.
#[derive(Default)]
pub(crate) struct End {
    bytes: Vec<u8>,
}

impl End {
    /// The number of bytes that determine the end of an event.
    const LENGTH: usize = 4;

    pub(crate) fn follow(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(&bytes[bytes.len().saturating_sub(Self::LENGTH)..]);
        self.bytes.drain(..self.bytes.len().saturating_sub(Self::LENGTH));
    }

    /// Returns `true` if nothing has been sent, or the last line was empty.
    pub(crate) fn is_between_events(&self) -> bool {
        let ends = |end: &[u8]| self.bytes.ends_with(end);
        self.bytes.is_empty() || ends(b"\n\n") || ends(b"\r\r") || ends(b"\n\r\n") || ends(b"\r\n\r")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_line_ends_an_event_with_any_line_ending_and_chunking() {
        for (chunks, between) in [
            (vec![], true),
            (vec!["data: a\n\n"], true),
            (vec!["data: a\n"], false),
            (vec!["data: a\n", "\n"], true),
            (vec!["data: a\r\n\r", "\n"], true),
            (vec!["data: a\r\n"], false),
            (vec!["data: a", "\r", "\r"], true),
            (vec!["a\n\n", "data: b\n"], false),
        ] {
            let mut end = End::default();
            chunks.iter().for_each(|chunk| end.follow(chunk.as_bytes()));
            assert_eq!(end.is_between_events(), between, "{chunks:?}");
        }
    }
}
