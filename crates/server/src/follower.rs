//! Answers that are followed to their last byte.

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The follower of an answer. Dropped before the end, it knows that the client went away.
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
    followed_to_the_wire(response, follower)
}

/// The same answer, whose follower is kept until the connection has all of it, also where it is there as a whole.
pub(super) fn followed_to_the_wire(response: Response, follower: impl Follower) -> Response {
    response.map(|body| Body::new(Followed { body, follower: Some(follower) }))
}

struct Followed<F> {
    body: Body,
    follower: Option<F>,
}

impl<F: Follower> HttpBody for Followed<F> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(_))) => self.follower.iter_mut().for_each(F::sends),
            Poll::Ready(None) => self.follower.take().into_iter().for_each(F::done),
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
