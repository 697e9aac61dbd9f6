//! Streams whose first item has arrived, and streams with a deadline.

use futures::stream::{self, BoxStream, Stream, StreamExt};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use valvehouse_core::error::Error;
use valvehouse_core::provider::{Answer, PassthroughAnswer, PassthroughBody, RelayResponse};

type Items<T> = BoxStream<'static, Result<T, Error>>;

/// Waits for the first chunk of a streamed answer, and returns an error that arrives instead.
pub(super) async fn begin(answer: Answer) -> Result<Answer, Error> {
    Ok(match answer {
        Answer::Stream(chunks) => Answer::Stream(first_of(chunks).await?),
        whole => whole,
    })
}

/// Waits for the first bytes of a forwarded answer, and returns an error that arrives instead.
pub(super) async fn begin_forwarded(mut forwarded: PassthroughAnswer) -> Result<PassthroughAnswer, Error> {
    if let PassthroughBody::Stream(body) = forwarded.body {
        forwarded.body = PassthroughBody::Stream(first_of(body).await?);
    }
    Ok(forwarded)
}

/// Waits for the first bytes of any other route's response, and returns an error that arrives instead.
pub(super) async fn begin_relayed(mut relayed: RelayResponse) -> Result<RelayResponse, Error> {
    if let PassthroughBody::Stream(body) = relayed.body {
        relayed.body = PassthroughBody::Stream(first_of(body).await?);
    }
    Ok(relayed)
}

async fn first_of<T: Send + Unpin + 'static>(mut rest: Items<T>) -> Result<Items<T>, Error> {
    match rest.next().await {
        Some(Ok(first)) => Ok(WithFirst { first: Some(first), rest }.boxed()),
        Some(Err(error)) => Err(error),
        None => Ok(stream::empty().boxed()),
    }
}

/// A stream whose first item was read in advance. It costs one comparison for each further item.
struct WithFirst<T> {
    first: Option<T>,
    rest: Items<T>,
}

impl<T: Unpin> Stream for WithFirst<T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(first))),
            None => self.rest.poll_next_unpin(context),
        }
    }
}

/// Returns a stream that ends with an error at its deadline, if there is one.
pub(super) fn limited<T: Send + 'static>(
    items: Items<T>,
    deadline: Option<Instant>,
    error: impl FnOnce() -> Error,
) -> Items<T> {
    match deadline {
        Some(deadline) => until(items, deadline, error()),
        None => items,
    }
}

/// Returns a stream that ends with this error at the deadline.
fn until<T: Send + 'static>(items: Items<T>, deadline: Instant, error: Error) -> Items<T> {
    stream::unfold(Some((items, error)), move |state| async move {
        let (mut items, error) = state?;
        match timeout_at(deadline, items.next()).await {
            Ok(item) => item.map(|item| (item, Some((items, error)))),
            Err(_) => Some((Err(error), None)),
        }
    })
    .boxed()
}

pub(super) fn too_long(provider: &str, total: Duration) -> Error {
    let message = format!(
        "provider {provider} did not complete its response within {} s; raise timeouts.total_ms of provider {provider}",
        total.as_secs_f64()
    );
    Error::Provider { message: message.into(), timeout: true }
}
