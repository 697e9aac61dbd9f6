//! Connections that yield before they write, so that ready tasks do their work first and then write together.
//!
//! A write wakes the task at the other end, which costs more than the write itself if that task is idle.
//! After the first of many writes it is awake until the last. A connection that is alone on its thread, or
//! alternates with one other, writes at once.

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use std::cell::Cell;
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

/// A connection that yields once before each write, unless it is alone.
#[derive(Debug)]
pub struct YieldingStream<T> {
    inner: T,
    id: usize,
    has_yielded: bool,
}

thread_local! {
    /// The two connections that wrote last on this thread; with successive requests, a client's connection
    /// and a service's connection alternate.
    static LAST: Cell<[usize; 2]> = const { Cell::new([0; 2]) };
}

impl<T> YieldingStream<T> {
    /// Wraps a connection.
    pub fn new(inner: T) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        Self { inner, id: NEXT.fetch_add(1, Relaxed), has_yielded: false }
    }

    /// Returns `true` if the connection may write now; otherwise its task is polled again after all ready
    /// tasks.
    fn may_write(&mut self, context: &Context<'_>) -> bool {
        let [last, before] = LAST.get();
        let is_alone = self.id == last || self.id == before;
        self.has_yielded = !is_alone && !self.has_yielded;
        if self.has_yielded {
            context.waker().wake_by_ref();
            return false;
        }
        if self.id != last {
            LAST.set([self.id, last]);
        }
        true
    }
}

impl<T: Unpin> YieldingStream<T> {
    fn inner(self: Pin<&mut Self>) -> Pin<&mut T> {
        Pin::new(&mut self.get_mut().inner)
    }
}

impl<T: Read + Unpin> Read for YieldingStream<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<Result<()>> {
        self.inner().poll_read(context, buffer)
    }
}

impl<T: Write + Unpin> Write for YieldingStream<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        if !self.may_write(context) {
            return Poll::Pending;
        }
        self.inner().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        if !self.may_write(context) {
            return Poll::Pending;
        }
        self.inner().poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.inner().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.inner().poll_shutdown(context)
    }
}

impl<T: Connection> Connection for YieldingStream<T> {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};

    /// Returns a connection and its other end.
    fn connection() -> (YieldingStream<TokioIo<DuplexStream>>, DuplexStream) {
        let (here, there) = duplex(64);
        (YieldingStream::new(TokioIo::new(here)), there)
    }

    /// Returns the number of attempts until a write succeeds.
    fn tries(connection: &mut YieldingStream<TokioIo<DuplexStream>>) -> usize {
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut asks = || Pin::new(&mut *connection).poll_write(&mut context, b"x").is_ready();
        1 + std::iter::repeat_with(&mut asks).take_while(|written| !written).count()
    }

    #[tokio::test]
    async fn tasks_yield_once_each_unless_two_alternate() {
        let (mut all, ends): (Vec<_>, Vec<_>) = std::iter::repeat_with(connection).take(3).unzip();
        for _ in 0..3 {
            assert_eq!(all.iter_mut().map(tries).collect::<Vec<_>>(), [2, 2, 2]);
        }
        for _ in 0..3 {
            assert_eq!(all[1..].iter_mut().map(tries).collect::<Vec<_>>(), [1, 1]);
        }
        drop(all);
        let mut written = String::new();
        for mut end in ends {
            end.read_to_string(&mut written).await.unwrap();
        }
        assert_eq!(written.len(), 15);
    }

    #[tokio::test]
    async fn a_yielding_task_resumes_after_the_ready_ones() {
        use std::sync::{Arc, Mutex};
        let (done, mut tasks) = (Arc::new(Mutex::new(Vec::new())), Vec::new());
        for id in 0..3 {
            let (mut connection, end) = connection();
            let done = done.clone();
            tasks.push(tokio::spawn(async move {
                let _end = end;
                done.lock().unwrap().push(("works", id));
                let writing =
                    std::future::poll_fn(|context| Pin::new(&mut connection).poll_write(context, b"x"));
                assert_eq!(writing.await.unwrap(), 1);
                done.lock().unwrap().push(("writes", id));
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let all = ["works", "writes"].map(|what| [0, 1, 2].map(|id| (what, id))).concat();
        assert_eq!(*done.lock().unwrap(), all);
    }
}
