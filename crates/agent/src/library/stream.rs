//! A run of an agent as a stream.

use super::agent::AgentResponse;
use futures::future::BoxFuture;
use futures::stream::Stream;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::Receiver;
use valvehouse_core::chat::ChatChunk;
use valvehouse_core::error::Error;
use valvehouse_core::provider::StreamChunk;

/// The chunks of an agent's answer, a `Stream` of `Result<ChatChunk, Error>`. The run proceeds while the stream is
/// polled and is interrupted when the stream is dropped.
pub struct AgentStream<'a> {
    pub(super) work: Option<BoxFuture<'a, Result<AgentResponse, Error>>>,
    pub(super) chunks: Receiver<StreamChunk>,
    pub(super) ended: Option<Result<AgentResponse, Error>>,
    pub(super) response: Option<AgentResponse>,
}

impl AgentStream<'_> {
    /// Returns the next chunk; `None` at the end.
    ///
    /// # Errors
    /// Returns the error of the run as the last item.
    pub async fn next(&mut self) -> Option<Result<ChatChunk, Error>> {
        std::future::poll_fn(|context| self.poll_chunk(context)).await
    }

    /// Returns the complete response, once the stream is read to its end.
    pub fn response(self) -> Option<AgentResponse> {
        self.response
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<ChatChunk, Error>>> {
        loop {
            if let Ok(chunk) = self.chunks.try_recv() {
                return Poll::Ready(Some(Ok(ChatChunk::new(chunk.event))));
            }
            let Some(work) = &mut self.work else {
                return Poll::Ready(match self.ended.take() {
                    Some(Err(error)) => Some(Err(error)),
                    Some(Ok(response)) => {
                        self.response = Some(response);
                        None
                    }
                    None => None,
                });
            };
            let Poll::Ready(ended) = work.as_mut().poll(context) else {
                // The run sends its chunks while it is polled here.
                return match self.chunks.poll_recv(context) {
                    Poll::Ready(Some(chunk)) => Poll::Ready(Some(Ok(ChatChunk::new(chunk.event)))),
                    Poll::Ready(None) | Poll::Pending => Poll::Pending,
                };
            };
            // The chunks that are still buffered come first.
            (self.work, self.ended) = (None, Some(ended));
        }
    }
}

impl Stream for AgentStream<'_> {
    type Item = Result<ChatChunk, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_chunk(context)
    }
}

impl fmt::Debug for AgentStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentStream").field("response", &self.response).finish_non_exhaustive()
    }
}
