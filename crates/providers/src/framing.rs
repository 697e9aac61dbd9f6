//! The framings of streamed answers: server-sent events, and lines of JSON.

use bytes::BytesMut;
use valvehouse_net::sse::{Parser, SseEvent};

/// A framing of events.
pub(super) trait Framing: Default + Send + 'static {
    /// An event, as named in errors.
    const EVENT: &'static str;

    /// Adds bytes.
    fn push(&mut self, bytes: &[u8]);

    /// Ends the input.
    fn finish(&mut self);

    /// Returns the next complete event, or why there can be none.
    fn next_event(&mut self) -> Option<Result<SseEvent, String>>;
}

impl Framing for Parser {
    const EVENT: &'static str = "an event";

    fn push(&mut self, bytes: &[u8]) {
        Parser::push(self, bytes);
    }

    fn finish(&mut self) {
        Parser::finish(self);
    }

    fn next_event(&mut self) -> Option<Result<SseEvent, String>> {
        let event = self.next()?;
        Some(event.map_err(|error| format!("sent a stream that cannot be read: {error}")))
    }
}

/// The maximum length of a line, in bytes. It is large, because calls arrive complete.
const MAX_LINE: usize = 16 * 1024 * 1024;

/// Lines of JSON, which may arrive in any pieces.
#[derive(Default)]
pub(super) struct Lines {
    /// The bytes of an incomplete line.
    held: BytesMut,
    /// The number of these bytes that were searched for the end of the line.
    searched: usize,
    /// Set once the input has ended, so that the remaining bytes are the last line.
    is_finished: bool,
}

impl Framing for Lines {
    const EVENT: &'static str = "a line";

    fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    fn finish(&mut self) {
        self.is_finished = true;
    }

    fn next_event(&mut self) -> Option<Result<SseEvent, String>> {
        let line = match self.held[self.searched..].iter().position(|byte| *byte == b'\n') {
            Some(end) => self.held.split_to(self.searched + end + 1),
            None if self.is_finished && !self.held.is_empty() => self.held.split(),
            None if self.held.len() > MAX_LINE => {
                return Some(Err(format!("sent a line that exceeded its limit of {} MiB", MAX_LINE >> 20)));
            }
            None => {
                self.searched = self.held.len();
                return None;
            }
        };
        self.searched = 0;
        Some(Ok(SseEvent { name: None, data: line.freeze() }))
    }
}
