//! The reading of streamed answers, for every protocol of services.

use crate::answer_error::AnswerError;
use bytes::Bytes;
use compact_str::CompactString;
use std::collections::VecDeque;
use valvehouse_core::provider::StreamChunk;
use valvehouse_json::Json;

/// An event of a streamed answer of a service.
#[derive(Debug)]
pub struct ServiceEvent {
    /// The name of the server-sent event.
    pub name: Option<CompactString>,
    /// The event as received, without framing.
    pub data: Bytes,
    /// The event.
    pub json: Json,
}

/// Reads the events of a streamed answer, one by one.
pub trait StreamReader: Send + 'static {
    /// Reads an event and appends its chunks to `out`.
    ///
    /// # Errors
    /// Returns an error if the service sent one, or if the event cannot be read. No event follows.
    fn read_event(&mut self, event: ServiceEvent, out: &mut VecDeque<StreamChunk>)
    -> Result<(), AnswerError>;

    /// Handles the end marker `[DONE]`, which only OpenAI's chat API needs.
    ///
    /// # Errors
    /// Returns an error if the chunks that waited for the end cannot be read.
    fn read_done(&mut self, out: &mut VecDeque<StreamChunk>) -> Result<(), AnswerError> {
        let _ = out;
        Ok(())
    }

    /// Returns `true` if no event can follow.
    fn is_over(&self) -> bool;

    /// Returns `true` if the answer is complete, so that an interruption is ignored.
    fn is_complete(&self) -> bool {
        self.is_over()
    }

    /// Returns the error of a stream that ends here; `None` if the answer is complete.
    fn end(&self) -> Option<AnswerError>;
}
