//! The HTTP client: pooled connections, no proxy for loopback addresses, redacted keys, and time limits for
//! every step.

use super::body::Response;
use super::body::{Limits, ResponseBytes};
use super::call::{Address, HttpCall, Payload};
use super::explain::{FailedCall, Peer};
use super::plain::{self, KEEP_ALIVE, Plain, USER_AGENT};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt, TryStreamExt};
use hyper::Uri;
use reqwest::header::{HOST, HeaderMap, HeaderValue};
use reqwest::{StatusCode, redirect};
use std::sync::{Arc, Once};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use url::{Host, Url};
use valvehouse_core::error::{Error, Explanation};
use valvehouse_grants::Timeouts;

/// The environment variables that set a proxy.
const PROXIES: [&str; 4] = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];

/// An HTTP client. Clones share the connections.
#[derive(Debug, Clone)]
pub struct Client {
    /// The client for addresses without TLS and proxy; many hosts need no other.
    plain: Plain,
    /// `true` if the environment sets a proxy for such addresses.
    is_proxied: bool,
    /// The client for loopback addresses, which no proxy can reach.
    local: Trusting,
    outward: Trusting,
    timeouts: Timeouts,
}

/// A client with the trusted certificates of the system. Reading them takes memory and more time than a whole
/// start, so it is created on first use.
type Trusting = Arc<OnceCell<reqwest::Client>>;

impl Client {
    /// Creates a client with the default timeouts.
    ///
    /// # Errors
    /// Returns an error if the certificates of the system cannot be read.
    pub fn new() -> Result<Self, Error> {
        Self::with_timeouts(Timeouts::default())
    }

    /// Creates a client with these timeouts.
    ///
    /// # Errors
    /// Returns an error if the certificates of the system cannot be read.
    pub fn with_timeouts(timeouts: Timeouts) -> Result<Self, Error> {
        install_crypto();
        let is_proxied = PROXIES.iter().any(|name| std::env::var_os(name).is_some_and(|it| !it.is_empty()));
        let (local, outward) = (Trusting::default(), Trusting::default());
        Ok(Self { plain: plain::client(&timeouts), is_proxied, local, outward, timeouts })
    }

    /// Returns the time limits.
    pub fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// Prepares the client for calls to this address in the background, so that the first call does not wait.
    pub fn prepare(&self, address: &str) {
        let (Ok(url), Ok(runtime)) = (Url::parse(address), Handle::try_current()) else { return };
        let (client, address) = (self.clone(), Address::from(url));
        if client.plainly(&address).is_some() {
            return;
        }
        runtime.spawn(async move {
            if let Err(error) = client.trusting(&address).await {
                tracing::warn!("{error}");
            }
        });
    }

    /// Returns the address for sending without TLS and without a proxy, if possible.
    fn plainly(&self, to: &Address) -> Option<(Uri, HeaderValue)> {
        to.plain.clone().filter(|_| !self.is_proxied || is_loopback(&to.url))
    }

    /// Returns the client for all other addresses.
    async fn trusting(&self, to: &Address) -> Result<&reqwest::Client, Error> {
        let timeouts = self.timeouts;
        match is_loopback(&to.url) {
            true => self.local.get_or_try_init(|| aside(move || settings(timeouts).no_proxy())).await,
            false => self.outward.get_or_try_init(|| aside(move || settings(timeouts))).await,
        }
    }

    /// Sends a call and returns its response, whatever the status.
    ///
    /// The future is boxed, so that HTTP is compiled here and not again in every dependent package.
    ///
    /// # Errors
    /// Returns an error if the call is invalid, the service cannot be reached, or a time limit is reached.
    pub fn send(&self, call: HttpCall) -> BoxFuture<'_, Result<Response, Error>> {
        Box::pin(self.send_unboxed(call))
    }

    async fn send_unboxed(&self, call: HttpCall) -> Result<Response, Error> {
        let Timeouts { connect, answer, .. } = self.timeouts;
        let HttpCall { method, to, mut headers, body, provider, total, problem } = call;
        let peer = Peer { provider, address: to.shown.clone(), connect: Some(connect), total };
        if let Some(problem) = problem {
            let message = format!("cannot send a request to {}: {problem}", peer.name());
            let message = Explanation::new("cannot send a request to the service", message);
            return Err(Error::Provider { message, timeout: false });
        }
        let now = Instant::now();
        let limits = Limits { answer_by: now + answer, end_by: total.map(|total| now + total) };
        if let Some((uri, host)) = self.plainly(&to) {
            headers.entry(HOST).or_insert(host);
            let sending = plain::send(&self.plain, method, uri, headers, body);
            let (mut head, body) = limits.within(answer, &peer, sending).await?.into_parts();
            let body = plain::body(&mut head.headers, body);
            return Ok(self.answered(head.status, head.headers, body, peer, limits));
        }
        let client = self.trusting(&to).await?;
        let request = client.request(method, Url::clone(&to.url)).headers(headers).body(match body {
            Payload::Whole(body) => body.into(),
            Payload::Stream(body) => reqwest::Body::wrap_stream(body),
        });
        let sending = async { request.send().await.map_err(FailedCall::from) };
        let mut response = limits.within(answer, &peer, Box::pin(sending)).await?;
        let headers = std::mem::take(response.headers_mut());
        let (status, body) = (response.status(), response.bytes_stream().map_err(FailedCall::from));
        Ok(self.answered(status, headers, body, peer, limits))
    }

    /// Creates a response. Its first bytes have the time limit of the response, because many services send
    /// headers at once.
    fn answered(
        &self,
        status: StatusCode,
        headers: HeaderMap,
        body: impl Stream<Item = Result<Bytes, FailedCall>> + Send + Unpin + 'static,
        peer: Peer,
        limits: Limits,
    ) -> Response {
        let body = ResponseBytes::new(body, peer, self.timeouts, limits).boxed();
        Response::new(status.as_u16(), headers, body)
    }
}

/// Installs one crypto library for the whole process, if none is installed.
pub(super) fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

pub(super) fn settings(timeouts: Timeouts) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .connect_timeout(timeouts.connect)
        .tcp_nodelay(true)
        .tcp_keepalive(KEEP_ALIVE)
        // With HTTP/2, one connection carries all calls, so a dead one must be detected.
        .http2_keep_alive_interval(Duration::from_secs(30))
        .http2_keep_alive_timeout(Duration::from_secs(10))
        // A redirect could send the key to another service, and turns POST into GET.
        .redirect(redirect::Policy::none())
}

/// Builds a client. Without CA certificates, the client can still be used for `http://`.
pub(super) fn build(settings: impl Fn() -> reqwest::ClientBuilder) -> Result<reqwest::Client, Error> {
    settings()
        .build()
        .or_else(|error| {
            tracing::warn!(
                "cannot load CA certificates, so https requests will fail: {}",
                std::error::Error::source(&error).unwrap_or(&error)
            );
            trust_nobody(settings()).build()
        })
        .map_err(|error| not_set_up(&error))
}

/// Returns a client for libraries with their own protocols over HTTP: it has no total time limit, and does
/// not follow redirects, which could send a key to another service.
///
/// # Errors
/// Returns an error if the client cannot be created.
pub async fn following_nobody(url: &Url) -> Result<reqwest::Client, Error> {
    install_crypto();
    let is_local = is_loopback(url);
    aside(move || {
        let settings = settings(Timeouts::default());
        if is_local { settings.no_proxy() } else { settings }
    })
    .await
}

/// Builds a client on a thread that may block.
pub(super) async fn aside(
    settings: impl Fn() -> reqwest::ClientBuilder + Send + 'static,
) -> Result<reqwest::Client, Error> {
    let built = tokio::task::spawn_blocking(move || build(settings)).await;
    built.map_err(|error| not_set_up(&error))?
}

/// Removes all trusted certificates, for `http://` only.
fn trust_nobody(settings: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
    let nobody = rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    settings.tls_backend_preconfigured(nobody)
}

fn not_set_up(error: &dyn std::error::Error) -> Error {
    Error::Host(format!("cannot set up the HTTP client: {error}"))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use valvehouse_grants::Secret;

    fn failure(result: Result<Response, Error>) -> (String, bool) {
        match result {
            Err(Error::Provider { message, timeout } | Error::Unanswered { message, timeout, .. }) => {
                (message.to_string(), timeout)
            }
            Err(other) => panic!("{other}"),
            Ok(answer) => panic!("answered {}", answer.status),
        }
    }

    #[tokio::test]
    async fn a_refused_connection_names_address_reason_and_fix_but_no_credentials() {
        // The port is bound, but not listened on.
        let down = tokio::net::TcpSocket::new_v4().unwrap();
        down.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = down.local_addr().unwrap().port();
        let url = Url::parse(&format!("http://ann:secret@127.0.0.1:{port}/v1/models?key=hidden")).unwrap();
        let (message, timeout) =
            failure(Client::new().unwrap().send(HttpCall::get(url).provider("lab")).await);
        assert_eq!(
            message,
            format!(
                "cannot reach provider lab at http://127.0.0.1:{port}/v1/models: connection refused (os \
                 error 111); check base_url of provider lab, and that the service is running"
            )
        );
        assert!(!timeout);
    }

    #[tokio::test]
    async fn a_silent_server_causes_a_timeout() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = Url::parse(&format!("http://{}/", silent.local_addr().unwrap())).unwrap();
        let timeouts = Timeouts { answer: Duration::from_millis(50), ..Timeouts::default() };
        let client = Client::with_timeouts(timeouts).unwrap();
        let (message, timeout) = failure(client.send(HttpCall::get(url)).await);
        assert!(timeout && message.contains("sent no response within 0.05 s"), "{message}");
    }

    #[tokio::test]
    async fn a_key_that_is_invalid_in_a_header_is_an_error_without_the_key() {
        let url = Url::parse("http://127.0.0.1:1/").unwrap();
        let call = || HttpCall::get(url.clone()).bearer(&Secret::from("sk-\nsecret"));
        let (message, _) = failure(Client::new().unwrap().send(call()).await);
        assert!(message.contains("authorization") && !message.contains("secret"), "{message}");
        assert!(!format!("{:?}", call().bearer(&Secret::from("sk-fine"))).contains("sk-fine"));
    }

    /// Returns the address of a server that sends this response to every call, and nothing more.
    async fn answering(answer: Vec<u8>) -> Url {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
                stream.write_all(&answer).await.unwrap();
                open.push(stream);
            }
        });
        url
    }

    #[tokio::test]
    async fn the_total_timeout_covers_head_and_body() {
        for begun in ["", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc"] {
            let url = answering(begun.into()).await;
            let call = HttpCall::get(url).within(Duration::from_millis(100));
            let error = match Client::new().unwrap().send(call).await {
                Ok(response) => response.whole().await.unwrap_err(),
                Err(error) => error,
            };
            assert!(
                error.to_string().contains("did not complete its response within 0.1 s"),
                "{begun}: {error}"
            );
        }
    }

    #[tokio::test]
    async fn an_unrequested_encoding_is_decoded_and_a_corrupt_one_is_an_error() {
        use async_compression::futures::bufread::{BrotliEncoder, GzipEncoder, ZlibEncoder};
        let text = "hello, hello, hello ".repeat(5_000);
        let (mut gzip, mut zlib, mut brotli) = (Vec::new(), Vec::new(), Vec::new());
        futures::AsyncReadExt::read_to_end(&mut GzipEncoder::new(text.as_bytes()), &mut gzip).await.unwrap();
        futures::AsyncReadExt::read_to_end(&mut ZlibEncoder::new(text.as_bytes()), &mut zlib).await.unwrap();
        futures::AsyncReadExt::read_to_end(&mut BrotliEncoder::new(text.as_bytes()), &mut brotli)
            .await
            .unwrap();
        let ask = async |packing: &str, body: &[u8]| {
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-encoding: {packing}\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            let url = answering([head.as_bytes(), body].concat()).await;
            let response = Client::new().unwrap().send(HttpCall::get(url).provider("lab")).await.unwrap();
            assert!(response.header("content-encoding").is_none());
            response.whole().await
        };
        for (packing, body) in [("gzip", &gzip), ("deflate", &zlib), ("br", &brotli)] {
            assert_eq!(ask(packing, body).await.unwrap(), text.as_bytes(), "{packing}");
        }
        let error = ask("gzip", b"no gzip at all").await.unwrap_err().to_string();
        assert!(error.starts_with("the response of provider lab at http://127.0.0.1"), "{error}");
    }

    #[test]
    fn loopback_is_recognized_in_every_notation() {
        for (text, loopback) in [
            ("http://localhost:1/", true),
            ("http://127.8.0.1/", true),
            ("http://[::1]:1/", true),
            ("https://api.example.com/", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(text).unwrap()), loopback, "{text}");
        }
    }
}
