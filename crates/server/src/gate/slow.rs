//! Bodies that do not come: whoever sends nothing for long has broken off.

use axum::Error;
use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// So long nothing of a body may come.
const SILENCE: Duration = Duration::from_secs(30);

/// The same body; it fails when nothing of it comes for long.
pub(super) fn unhurried(body: Body) -> Body {
    Body::new(Unhurried { body, timer: None })
}

struct Unhurried {
    body: Body,
    /// Since there was something to wait for; most bodies come with their head.
    timer: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for Unhurried {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Poll::Ready(next) = Pin::new(&mut self.body).poll_frame(context) {
            self.timer = None;
            return Poll::Ready(next);
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(SILENCE)));
        match timer.as_mut().poll(context) {
            Poll::Ready(()) => {
                let why = format!("nothing of it came for {} s", SILENCE.as_secs());
                Poll::Ready(Some(Err(Error::new(std::io::Error::new(std::io::ErrorKind::TimedOut, why)))))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt as _;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_coming_fails_and_a_slow_one_does_not() {
        let slowly = futures::stream::iter(0..5).then(|_| async {
            sleep(SILENCE - Duration::from_secs(1)).await;
            Ok::<_, Error>(Bytes::from_static(b"x"))
        });
        let stops = futures::stream::pending::<Result<Bytes, Error>>();
        let body = unhurried(Body::from_stream(slowly.chain(stops)));
        let came: Vec<_> = body.into_data_stream().take(6).collect().await;
        assert!(came[..5].iter().all(Result::is_ok));
        assert!(came[5].as_ref().is_err_and(|error| error.to_string().contains("came for 30 s")), "{came:?}");
    }
}
