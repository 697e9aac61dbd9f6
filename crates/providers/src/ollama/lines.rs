//! An answer that comes as lines of JSON, however its bytes are cut.

use super::answer::Reading;
use crate::origin::{Origin, is_error};
use crate::service::{Reads, drain, read};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::BoxStream;
use std::collections::VecDeque;
use valvehouse_core::fault::Fault;
use valvehouse_core::provider::Piece;
use valvehouse_json::Json;

/// A line may be this long: calls come whole.
const MAX_LINE: usize = 16 * 1024 * 1024;

/// The pieces of an answer. An error is the last item.
pub(super) fn pieces(
    origin: Origin,
    reading: Reading,
    body: BoxStream<'static, Result<Bytes, Fault>>,
) -> BoxStream<'static, Result<Piece, Fault>> {
    let lines = Lines {
        origin,
        reading,
        body,
        held: BytesMut::new(),
        searched: 0,
        ready: VecDeque::new(),
        state: State::Going,
    };
    read(lines)
}

struct Lines {
    origin: Origin,
    reading: Reading,
    body: BoxStream<'static, Result<Bytes, Fault>>,
    /// The bytes of a line that has no end yet.
    held: BytesMut,
    /// As much of it is known to have none.
    searched: usize,
    ready: VecDeque<Json>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Going,
    /// The body is over: what is held is the last line.
    Over,
    /// The last line was read.
    Done,
}

impl Reads for Lines {
    async fn next(&mut self) -> Option<Result<Piece, Fault>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Some(Ok(Piece::new(chunk)));
            }
            if self.state == State::Done {
                drain(&mut self.body).await;
                return None;
            }
            match self.line() {
                Some(line) => match self.read(&line) {
                    Ok(()) => {}
                    Err(fault) => return Some(Err(fault)),
                },
                None if self.state == State::Over => {
                    return Some(Err(self.origin.cut("it ended without a line that says it is done")));
                }
                None => match self.body.next().await {
                    Some(Ok(bytes)) if self.held.len() + bytes.len() > MAX_LINE => {
                        let what = format!("cannot be read: a line is longer than {} MiB", MAX_LINE >> 20);
                        return Some(Err(self.origin.fault(&what)));
                    }
                    Some(Ok(bytes)) => self.held.extend_from_slice(&bytes),
                    Some(Err(fault)) => return Some(Err(fault)),
                    None => self.state = State::Over,
                },
            }
        }
    }
}

impl Lines {
    /// The next line that is not empty.
    fn line(&mut self) -> Option<BytesMut> {
        loop {
            let line = match self.held[self.searched..].iter().position(|byte| *byte == b'\n') {
                Some(end) => self.held.split_to(self.searched + end + 1),
                None if self.state == State::Over && !self.held.is_empty() => self.held.split(),
                None => {
                    self.searched = self.held.len();
                    return None;
                }
            };
            self.searched = 0;
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
    }

    fn read(&mut self, line: &[u8]) -> Result<(), Fault> {
        let json = self.origin.parse_part("a line", line, self.state == State::Over)?;
        if is_error(&json) {
            return Err(self.origin.in_band(&json));
        }
        let read = self.reading.read(&json);
        self.ready.extend(read.chunks);
        if read.is_last {
            self.state = State::Done;
        }
        Ok(())
    }
}
