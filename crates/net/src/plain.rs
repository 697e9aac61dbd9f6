//! Calls without TLS and without a proxy, such as to a model server on this computer, for which the general
//! client has too much overhead.

use super::call::Payload;
use super::explain::FailedCall;
use super::yielding::YieldingStream;
use async_compression::futures::bufread::{BrotliDecoder, GzipDecoder, ZlibDecoder};
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{AsyncRead, AsyncReadExt as _, Stream, StreamExt as _, TryStreamExt as _};
use http_body_util::{Either, Full, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use reqwest::header::{HeaderMap, HeaderValue, USER_AGENT as NAME};
use reqwest::{Method, header};
use std::error::Error as StdError;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tower::util::MapResponse;
use valvehouse_core::error::Error;
use valvehouse_grants::Timeouts;

/// The name of this client in requests.
pub(super) const USER_AGENT: &str = concat!("valvehouse/", env!("CARGO_PKG_VERSION"));
/// The idle time after which a connection is probed.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// The size of the chunks in which a body is decompressed, in bytes.
const PIECE: usize = 16 * 1024;

/// A client with pooled connections.
pub(super) type Plain =
    Client<MapResponse<HttpConnector, fn(Connection) -> YieldingStream<Connection>>, Outgoing>;

/// The body of a request: complete or streamed.
type Outgoing = Either<Full<Bytes>, StreamBody<BoxStream<'static, Result<Frame<Bytes>, Error>>>>;

type Connection = TokioIo<TcpStream>;

/// Creates a client.
pub(super) fn client(timeouts: &Timeouts) -> Plain {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_keepalive(Some(KEEP_ALIVE));
    connector.set_connect_timeout(Some(timeouts.connect));
    Client::builder(TokioExecutor::new()).build(MapResponse::new(connector, YieldingStream::new))
}

/// Sends a call and returns the head of the response.
pub(super) async fn send(
    client: &Plain,
    method: Method,
    uri: hyper::Uri,
    mut headers: HeaderMap,
    body: Payload,
) -> Result<hyper::Response<Incoming>, FailedCall> {
    headers.insert(NAME, HeaderValue::from_static(USER_AGENT));
    headers.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    let body = match body {
        Payload::Whole(body) => Either::Left(Full::new(body)),
        Payload::Stream(body) => {
            Either::Right(StreamBody::new(body.map(|bytes| bytes.map(Frame::data)).boxed()))
        }
    };
    let mut request = hyper::Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    client.request(request).await.map_err(|error| failed(error.is_connect(), error))
}

/// Returns a body as a stream. Compression is not requested, because it costs more than it saves on a short
/// way; a compressed body is decompressed anyway.
pub(super) fn body(headers: &mut HeaderMap, body: Incoming) -> BoxStream<'static, Result<Bytes, FailedCall>> {
    let packing = headers.get(header::CONTENT_ENCODING).and_then(|packing| packing.to_str().ok());
    let Some(packing) = packing.map(str::to_ascii_lowercase) else { return Bytewise(body).boxed() };
    let packed = |body| Bytewise(body).map_err(io::Error::other).into_async_read();
    let unpacked = match packing.as_str() {
        "gzip" | "x-gzip" => read(GzipDecoder::new(packed(body))),
        "deflate" => read(ZlibDecoder::new(packed(body))),
        "br" => read(BrotliDecoder::new(packed(body))),
        _ => return Bytewise(body).boxed(),
    };
    headers.remove(header::CONTENT_ENCODING);
    headers.remove(header::CONTENT_LENGTH);
    unpacked
}

/// Decompresses a body in chunks.
fn read(unpacking: impl AsyncRead + Send + 'static) -> BoxStream<'static, Result<Bytes, FailedCall>> {
    stream::try_unfold(Box::pin(unpacking), |mut unpacking| async {
        let mut piece = vec![0; PIECE];
        let read = unpacking.read(&mut piece).await.map_err(|error| failed(false, error))?;
        piece.truncate(read);
        Ok((read > 0).then(|| (piece.into(), unpacking)))
    })
    .boxed()
}

/// The data of a body, without trailers.
struct Bytewise(Incoming);

impl Stream for Bytewise {
    type Item = Result<Bytes, FailedCall>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            return Poll::Ready(match std::task::ready!(Pin::new(&mut self.0).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => Some(Ok(bytes)),
                    // The frame contains trailers.
                    Err(_) => continue,
                },
                Some(Err(error)) => Some(Err(failed(false, error))),
                None => None,
            });
        }
    }
}

fn failed(connecting: bool, error: impl StdError + Send + Sync + 'static) -> FailedCall {
    FailedCall { connecting, timeout: is_timeout(&error), cause: Box::new(error) }
}

fn is_timeout(error: &(dyn StdError + 'static)) -> bool {
    std::iter::successors(Some(error), |error| (*error).source()).any(|error| {
        let error = error.downcast_ref::<io::Error>();
        error.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
    })
}
