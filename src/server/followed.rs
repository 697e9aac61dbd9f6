//! Answers that are followed to their last byte.

use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::response::Response;
use futures::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Whoever follows an answer. Dropped before the end, it knows that the client went away.
pub(super) trait Follower: Send + Unpin + 'static {
    /// The answer comes bit by bit.
    fn streams(&mut self) {}
    /// A bit of it.
    fn sends(&mut self) {}
    /// All of it is there.
    fn done(self);
}

/// The same answer, followed to its end: one that is there as a whole has it behind it.
pub(super) fn followed(response: Response, mut follower: impl Follower) -> Response {
    if response.body().size_hint().exact().is_some() {
        follower.done();
        return response;
    }
    follower.streams();
    response
        .map(|body| Body::from_stream(Followed { data: body.into_data_stream(), follower: Some(follower) }))
}

struct Followed<F> {
    data: BodyDataStream,
    follower: Option<F>,
}

impl<F: Follower> Stream for Followed<F> {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = Pin::new(&mut self.data).poll_next(context);
        match &polled {
            Poll::Ready(Some(Ok(_))) => self.follower.iter_mut().for_each(F::sends),
            Poll::Ready(None) => self.follower.take().into_iter().for_each(F::done),
            _ => {}
        }
        polled
    }
}
