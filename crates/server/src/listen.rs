//! Accepts connections, closes those without requests, and finishes open ones at a shutdown.

use crate::address::Peer;
use crate::arrival::TimedBody;
use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Version};
use axum::response::Response;
use futures::FutureExt as _;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use valvehouse_net::YieldingStream;

/// The maximum size of the head of a request, and of the bytes that a connection reads ahead.
const MAX_BUFFER: usize = 64 << 10;
/// The timeout of a request's head, measured from the time at which the connection can receive one.
const HEAD: Duration = Duration::from_secs(30);
/// The interval of the pings that detect a dead HTTP/2 connection.
const PULSE: Duration = Duration::from_secs(30);
/// The pause after a system error, such as too many open files.
const PAUSE: Duration = Duration::from_millis(200);

/// The time for which a connection may still send a request to a host that leaves new connections to others.
const LINGER: Duration = Duration::from_secs(2);
/// The interval at which such a host checks for connections.
const POLL: Duration = Duration::from_millis(10);

/// The treatment of new connections while a host finishes its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewConnections {
    /// They are accepted, and their requests are rejected.
    Rejected,
    /// They are left to other processes that have the same socket. Those that are open already are closed after their next
    /// answer.
    LeftToOthers,
}

/// Serves until `shutdown` completes, then until the requests in progress are `finished`. Bodies may be late by
/// `body_timeout`.
pub(super) async fn serve<F>(
    listener: TcpListener,
    answer: impl Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
    (shutdown, finished): (impl Future<Output = NewConnections>, impl Future<Output = ()>),
    body_timeout: Duration,
) -> io::Result<()>
where
    F: Future<Output = Response> + Send + 'static,
{
    let open = GracefulShutdown::new();
    let builder = builder();
    let mut shutdown = std::pin::pin!(shutdown);
    let closes = Arc::new(AtomicBool::new(false));
    let connections = loop {
        let accepted = tokio::select! {
            connections = &mut shutdown => break connections,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, client)) => {
                let (answer, closes) = (answer.clone(), closes.clone());
                let answer = move |request: Request<Incoming>| {
                    let (closes, version) = (closes.clone(), request.version());
                    let answered = answer(request.map(|body| Body::new(TimedBody::new(body, body_timeout))));
                    answered.map(move |mut response| {
                        if closes.load(Ordering::Relaxed) && version < Version::HTTP_2 {
                            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                        }
                        response
                    })
                };
                tokio::spawn(connection(builder.clone(), open.watcher(), stream, client, answer));
            }
            Err(error) if is_of_one(&error) => tracing::debug!("a client disconnected at once: {error}"),
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    };
    drop(listener);
    if connections == NewConnections::LeftToOthers {
        closes.store(true, Ordering::Relaxed);
        // A client that sends its next request just now must get its answer.
        let closed = async {
            while open.count() > 0 {
                tokio::time::sleep(POLL).await;
            }
        };
        // Clients that send nothing do not delay the end.
        let _ = timeout(LINGER, closed).await;
    }
    futures::join!(open.shutdown(), finished);
    Ok(())
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(MAX_BUFFER);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(PULSE);
    builder
}

/// Serves one connection until its end.
async fn connection<F>(
    builder: Builder<TokioExecutor>,
    watcher: Watcher,
    stream: TcpStream,
    client: SocketAddr,
    answer: impl Fn(Request<Incoming>) -> F,
) where
    F: Future<Output = Response> + Send + 'static,
{
    // Small packets are sent at once.
    let _ = stream.set_nodelay(true);
    let has_request = Arc::new(AtomicBool::new(false));
    let request_flag = has_request.clone();
    let peer = Peer::new(client);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request_flag.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(peer.clone());
        answer(request).map(Ok::<_, Infallible>)
    });
    let connection = watcher
        .watch(builder.serve_connection_with_upgrades(YieldingStream::new(TokioIo::new(stream)), service));
    let mut connection = std::pin::pin!(connection);
    let ended = match timeout(HEAD, &mut connection).await {
        Ok(ended) => ended,
        // The timeouts of both HTTP versions start only when the version is known.
        Err(_) if !has_request.load(Ordering::Relaxed) => return,
        Err(_) => connection.await,
    };
    if let Err(error) = ended {
        tracing::debug!(%client, "a connection ended early: {error}");
    }
}

/// Returns `true` if an error concerns only one connection.
fn is_of_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test(start_paused = true)]
    async fn connections_without_a_complete_head_are_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(
            listener,
            |_| std::future::ready(Response::default()),
            (std::future::pending(), std::future::pending()),
            HEAD,
        ));
        for begun in ["", "P", "PRI * HTTP/2.0\r\n", "GET / HTTP/1.1\r\nhost: loc", "GET / HTTP/1.1\r\n\r\n"]
        {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(begun.as_bytes()).await.unwrap();
            let mut rest = Vec::new();
            let ended = timeout(HEAD * 100, stream.read_to_end(&mut rest)).await;
            assert!(ended.is_ok(), "{begun:?} is still being waited for");
        }
    }
}
