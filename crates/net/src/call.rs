//! HTTP calls: the address, the headers, the body, and the provider that they are for.

use super::explain::shown;
use bytes::Bytes;
use futures::stream::BoxStream;
use hyper::Uri;
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use url::{Position, Url};
use valvehouse_core::error::Error;
use valvehouse_grants::Secret;

/// The number of headers of a call that need no more memory.
const HEADERS: usize = 12;

/// The address of calls, parsed once for any number of calls.
#[derive(Debug, Clone)]
pub struct Address {
    pub(super) url: Arc<Url>,
    /// The address in error messages.
    pub(super) shown: Arc<str>,
    /// The address for sending without TLS and without a proxy, if possible, and its `host` header.
    pub(super) plain: Option<(Uri, HeaderValue)>,
}

impl From<Url> for Address {
    fn from(url: Url) -> Self {
        let is_plain = url.scheme() == "http" && url.username().is_empty() && url.password().is_none();
        let mut bare = url.clone();
        // The fragment is not sent.
        bare.set_fragment(None);
        let host = HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort]).ok();
        let plain = bare.as_str().parse().ok().zip(host).filter(|_| is_plain);
        Self { shown: shown(&url).into(), url: Arc::new(url), plain }
    }
}

/// The body of a call.
pub(super) enum Payload {
    Whole(Bytes),
    /// A stream, which can be sent only once.
    Stream(BoxStream<'static, Result<Bytes, Error>>),
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Stream(_) => f.write_str("a stream"),
        }
    }
}

/// An HTTP call.
#[derive(Debug)]
pub struct HttpCall {
    pub(super) method: Method,
    pub(super) to: Address,
    pub(super) headers: HeaderMap,
    pub(super) body: Payload,
    pub(super) provider: Option<Arc<str>>,
    pub(super) total: Option<Duration>,
    pub(super) problem: Option<String>,
}

impl HttpCall {
    /// Creates a GET request.
    pub fn get(to: impl Into<Address>) -> Self {
        Self::new(Method::GET, to.into(), Bytes::new())
    }

    /// Creates a POST request with a body.
    pub fn post(to: impl Into<Address>, body: Bytes) -> Self {
        Self::new(Method::POST, to.into(), body)
    }

    /// Creates a request with any method, without a body.
    pub fn of(method: &str, to: impl Into<Address>) -> Self {
        match Method::from_bytes(method.as_bytes()) {
            Ok(method) => Self::new(method, to.into(), Bytes::new()),
            Err(_) => Self {
                problem: Some(format!("invalid HTTP method `{method}`")),
                ..Self::new(Method::GET, to.into(), Bytes::new())
            },
        }
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: Bytes) -> Self {
        self.body = Payload::Whole(body);
        self
    }

    /// Sets a body that is streamed.
    #[must_use]
    pub fn streaming(mut self, body: BoxStream<'static, Result<Bytes, Error>>) -> Self {
        self.body = Payload::Stream(body);
        self
    }

    fn new(method: Method, to: Address, body: Bytes) -> Self {
        let body = Payload::Whole(body);
        Self {
            method,
            to,
            headers: HeaderMap::with_capacity(HEADERS),
            body,
            provider: None,
            total: None,
            problem: None,
        }
    }

    /// Sets the configured name of the provider, for error messages.
    #[must_use]
    pub fn provider(mut self, name: impl Into<Arc<str>>) -> Self {
        self.provider = Some(name.into());
        self
    }

    /// Adds a header. An invalid one is reported as the error of the call.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        self.add(name, HeaderValue::from_str(value).ok())
    }

    /// Adds `content-type: application/json` for the body, and the media type that is expected as `accept`.
    #[must_use]
    pub fn json(mut self, accepted: &'static str) -> Self {
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.headers.insert(ACCEPT, HeaderValue::from_static(accepted));
        self
    }

    /// Adds a header whose value is redacted in debug output.
    #[must_use]
    pub fn secret_header(self, name: &str, value: &Secret) -> Self {
        self.add(name, hidden(value.expose()))
    }

    /// Adds `authorization: Bearer …`.
    #[must_use]
    pub fn bearer(self, key: &Secret) -> Self {
        self.add("authorization", hidden(&format!("Bearer {}", key.expose())))
    }

    /// Sets the time limit of the whole call.
    #[must_use]
    pub fn within(mut self, total: Duration) -> Self {
        self.total = Some(total);
        self
    }

    fn add(mut self, name: &str, value: Option<HeaderValue>) -> Self {
        match (HeaderName::from_bytes(name.as_bytes()), value) {
            (Ok(name), Some(value)) => {
                self.headers.insert(name, value);
            }
            (Err(_), _) => self.problem = Some(format!("invalid header name `{name}`")),
            // The value is not shown, because it may be a key.
            (_, None) => {
                self.problem =
                    Some(format!("invalid value of the header `{name}`: expected visible ASCII characters"));
            }
        }
        self
    }
}

fn hidden(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}
