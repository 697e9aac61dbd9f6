//! Bodies that do not come: whoever sends nothing for long has broken off.

use axum::Error;
use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use futures::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// So long nothing of a body may come.
const SILENCE: Duration = Duration::from_secs(30);

/// The same body; it fails when nothing of it comes for long.
pub(super) fn unhurried(body: Body) -> Body {
    Body::from_stream(Unhurried { data: body.into_data_stream(), timer: Box::pin(sleep(SILENCE)) })
}

struct Unhurried {
    data: BodyDataStream,
    timer: Pin<Box<Sleep>>,
}

impl Stream for Unhurried {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Poll::Ready(next) = Pin::new(&mut self.data).poll_next(context) {
            self.timer.as_mut().reset(Instant::now() + SILENCE);
            return Poll::Ready(next);
        }
        match self.timer.as_mut().poll(context) {
            Poll::Ready(()) => {
                let why = format!("nothing of it came for {} s", SILENCE.as_secs());
                Poll::Ready(Some(Err(Error::new(std::io::Error::new(std::io::ErrorKind::TimedOut, why)))))
            }
            Poll::Pending => Poll::Pending,
        }
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
