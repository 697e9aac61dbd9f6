//! A connection whose received bytes count toward the memory of the host until their message is complete.

use crate::body::ReceivedBytes;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use valvehouse_core::context::MemoryLimit;

/// A connection and the memory for which the current message counts.
pub(super) struct CountedIo<S> {
    inner: S,
    memory: MemoryLimit,
    received: ReceivedBytes,
}

impl<S> CountedIo<S> {
    pub(super) fn new(inner: S, memory: MemoryLimit) -> Self {
        Self { inner, received: ReceivedBytes::new(&memory), memory }
    }

    /// Returns the memory of the current message, and starts the next one.
    pub(super) fn complete(&mut self) -> ReceivedBytes {
        std::mem::replace(&mut self.received, ReceivedBytes::new(&self.memory))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        let count = buffer.filled().len() - before;
        match self.received.add(count) {
            Ok(()) => polled,
            Err(error) => Poll::Ready(Err(io::Error::new(io::ErrorKind::OutOfMemory, error.to_string()))),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
