//! The collection of a streamed answer within the limits of the host.

use super::contract::{Answer, StreamChunk};
use crate::chat::Fold;
use crate::context::HeldMemory;
use crate::error::Error;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use valvehouse_json::Json;

/// The maximum size of a streamed answer as received, in bytes. It includes what filters remove.
const MAX_RECEIVED: usize = 512 << 20;
/// The number of bytes by which the counted memory of an answer grows.
const STEP: usize = 64 << 10;
/// The number of copies of a streamed answer that the host holds at most: as it is collected, as it was sent to the
/// client, as the filters see it, and as it is encoded.
const COPIES: usize = 4;

/// A streamed answer as it is collected. Its memory counts for its request.
pub(crate) struct AnswerCollector<'a> {
    fold: Fold,
    counted: usize,
    received: usize,
    memory: Option<&'a HeldMemory>,
}

impl<'a> AnswerCollector<'a> {
    pub(crate) fn new(memory: Option<&'a HeldMemory>) -> Self {
        Self { fold: Fold::default(), counted: STEP, received: 0, memory }
    }

    /// Counts an event as received.
    ///
    /// # Errors
    /// Returns an error if the answer exceeds its limit.
    pub(crate) fn receive(&mut self, chunk: &StreamChunk) -> Result<(), Error> {
        self.received += chunk.raw.len();
        if self.received <= MAX_RECEIVED {
            return Ok(());
        }
        let message =
            format!("the model's answer exceeded its limit of {} MiB as received", MAX_RECEIVED >> 20);
        Err(Error::Provider { message: message.into(), timeout: false })
    }

    /// Adds an event. The first bytes are not counted, so that short answers cost nothing.
    ///
    /// # Errors
    /// Returns an error if the answer exceeds its limit, or if the requests of the host hold too much memory.
    pub(crate) fn push(&mut self, event: &Json) -> Result<(), Error> {
        self.fold.push(event);
        while self.fold.size() > self.counted {
            self.fold.check_size()?;
            if let Some(memory) = self.memory {
                memory.grow(COPIES * STEP)?;
            }
            self.counted += STEP;
        }
        Ok(())
    }

    /// Returns `true` if this choice has a `finish_reason`.
    pub(crate) fn has_ended(&self, index: i64) -> bool {
        self.fold.has_ended(index)
    }

    /// Returns the answer.
    pub(crate) fn finish(self) -> Json {
        self.fold.finish()
    }
}

/// Returns an answer as a `chat.completion`; a streamed one is collected.
///
/// # Errors
/// Returns the error with which the stream ends, and an error if the answer exceeds 64 MiB.
pub async fn whole(answer: Answer) -> Result<Json, Error> {
    match answer {
        Answer::Whole(whole) => Ok(whole),
        Answer::Stream(chunks) => whole_within(chunks, None).await,
    }
}

/// Collects a streamed answer as [`whole`] does. Its memory counts for a request.
///
/// # Errors
/// Returns the errors of [`whole`], and an error if the requests of the host hold too much memory.
pub async fn whole_within(
    mut chunks: BoxStream<'static, Result<StreamChunk, Error>>,
    memory: Option<&HeldMemory>,
) -> Result<Json, Error> {
    let mut collector = AnswerCollector::new(memory);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        collector.receive(&chunk)?;
        collector.push(&chunk.event)?;
    }
    Ok(collector.finish())
}
