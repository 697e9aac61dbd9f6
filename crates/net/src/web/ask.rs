//! Requests of plugins, checked while they are built, and their responses.

use super::error::WebError;
use bytes::Bytes;
use futures::stream::BoxStream;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use std::time::Duration;
use url::Url;
use valvehouse_json::{Json, Object};

/// The maximum size of a request's body in bytes.
pub const MAX_ASKED: usize = 8 * 1024 * 1024;
/// The default limit of a response's decompressed body in bytes.
pub const MAX_ANSWER: usize = 2 * 1024 * 1024;
/// The maximum limit of a response's body that a request can set, in bytes.
pub const LARGEST_ANSWER: usize = 8 * 1024 * 1024;
/// The maximum size of a streamed body in bytes.
pub const MAX_STREAM: usize = 64 * 1024 * 1024;
/// The maximum time limit of a request.
pub const MAX_WITHIN: Duration = Duration::from_secs(300);
/// The default time limit of a request.
const WITHIN: Duration = Duration::from_secs(10);
/// The maximum length of a URL in bytes.
const MAX_URL: usize = 16 * 1024;
/// The maximum number of headers in a request, and their maximum total size in bytes.
const MAX_HEADERS: usize = 64;
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// The methods that a plugin may use; not `CONNECT` and `TRACE`, which are for proxies.
const METHODS: [Method; 7] =
    [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD, Method::OPTIONS];

/// The headers that belong to the connection or that the host sets.
const OF_THE_HOST: [&str; 11] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "http2-settings",
    "via",
];

/// A request of a plugin.
#[derive(Debug, Clone)]
pub struct Ask {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) within: Duration,
    pub(super) max_answer: usize,
    pub(super) header_bytes: usize,
}

impl Ask {
    /// Creates a request without headers and body, with a time limit of 10 seconds.
    ///
    /// # Errors
    /// Returns an error if the method or the URL is invalid or not supported.
    pub fn new(method: &str, url: &str) -> Result<Self, WebError> {
        let upper_case = method.to_ascii_uppercase();
        let Some(method) = METHODS.into_iter().find(|known| known.as_str() == upper_case) else {
            let known = METHODS.map(|method| method.to_string()).join(", ");
            let shown = quoted(method, 20);
            return Err(WebError::new(format!("invalid method{shown}: expected one of {known}")));
        };
        // The errors do not show the URL, because it may contain a password.
        if url.len() > MAX_URL {
            return Err(WebError::new(format!("the URL exceeded its limit of {MAX_URL} bytes")));
        }
        let url = Url::parse(url).map_err(|error| {
            WebError::new(format!("invalid URL: {error}; write it in full, as in https://example.com/path"))
        })?;
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        Ok(Self { method, url, headers, body, within: WITHIN, max_answer: MAX_ANSWER, header_bytes: 0 })
    }

    /// Returns the request as JSON: `{method, url, headers, body}`.
    pub fn to_json(&self) -> Json {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), text(value.as_bytes())));
        let headers = headers.map(|(name, value)| (name.into(), value.into())).collect::<Object>();
        Json::from([
            ("method", self.method.as_str().into()),
            ("url", self.url.as_str().into()),
            ("headers", headers.into()),
            ("body", text(&self.body).into()),
        ])
    }

    /// Adds an encoded query to that of the URL.
    #[must_use]
    pub fn query(mut self, query: &str) -> Self {
        let joined = match self.url.query().filter(|own| !own.is_empty()) {
            _ if query.is_empty() => return self,
            Some(own) => format!("{own}&{query}"),
            None => query.to_owned(),
        };
        self.url.set_query(Some(&joined));
        self
    }

    /// Sets a header.
    ///
    /// # Errors
    /// Returns an error if the name or the value is invalid, or if the host sets this header itself.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, WebError> {
        let Ok(known) = HeaderName::from_bytes(name.as_bytes()) else {
            let shown = quoted(&name.escape_debug().to_string(), 40);
            return Err(WebError::new(format!("invalid header name{shown}")));
        };
        if OF_THE_HOST.contains(&known.as_str()) || known.as_str().starts_with("proxy-") {
            return Err(WebError::new(format!("the header `{known}` is set by the host; remove it")));
        }
        // The value is not shown, because it may be a key.
        let Ok(mut value) = HeaderValue::from_str(value) else {
            return Err(WebError::new(format!(
                "invalid value of the header `{known}`: expected visible ASCII characters"
            )));
        };
        value.set_sensitive(true);
        self.header_bytes += known.as_str().len() + value.len();
        self.headers.insert(known, value);
        if self.headers.len() > MAX_HEADERS || self.header_bytes > MAX_HEADER_BYTES {
            return Err(WebError::new(format!(
                "the headers exceeded their limit of {MAX_HEADERS} headers or {MAX_HEADER_BYTES} bytes"
            )));
        }
        Ok(self)
    }

    /// Sets the body, and its content type unless a header sets it.
    ///
    /// # Errors
    /// Returns an error if the method has no body or the body is too long.
    pub fn body(mut self, body: Bytes, kind: &str) -> Result<Self, WebError> {
        if body.len() > MAX_ASKED {
            let kib = MAX_ASKED >> 10;
            return Err(WebError::new(format!(
                "the body with {} bytes exceeded its limit of {kib} KiB",
                body.len()
            )));
        }
        let kind = HeaderValue::from_str(kind).map_err(|_| {
            WebError::new("invalid content type of the body: expected visible ASCII characters")
        })?;
        self.headers.entry(CONTENT_TYPE).or_insert(kind);
        self.body = body;
        Ok(self)
    }

    /// Sets the maximum size of the response's body in bytes; the default is [`MAX_ANSWER`].
    ///
    /// # Errors
    ///
    /// Returns an error for 0 and for more than [`LARGEST_ANSWER`].
    pub fn at_most(mut self, bytes: usize) -> Result<Self, WebError> {
        if bytes == 0 || bytes > LARGEST_ANSWER {
            return Err(WebError::new(format!(
                "`max_bytes` must be from 1 to {LARGEST_ANSWER}, not {bytes}"
            )));
        }
        self.max_answer = bytes;
        Ok(self)
    }

    /// Sets the time limit, from the first lookup to the last byte.
    ///
    /// # Errors
    /// Returns an error if the limit is out of range.
    pub fn within(mut self, within: Duration) -> Result<Self, WebError> {
        if within.is_zero() || within > MAX_WITHIN {
            let most = MAX_WITHIN.as_millis();
            return Err(WebError::new(format!("the timeout must be above 0 and at most {most} ms")));
        }
        self.within = within;
        Ok(self)
    }
}

/// Returns a text in quotes for an error, or nothing if it is long: a part of a text could be a part of a secret,
/// which the plugin's redactor would not find.
fn quoted(text: &str, max: usize) -> String {
    if text.len() <= max { format!(" `{text}`") } else { String::new() }
}

/// A response whose body is a stream.
pub struct OpenResponse {
    /// The HTTP status, whatever it is.
    pub status: u16,
    /// The headers with lower-case names; a name may be repeated.
    pub headers: Vec<(String, String)>,
    /// The decompressed body.
    pub body: BoxStream<'static, Result<Bytes, WebError>>,
}

/// A response.
#[derive(Debug, Clone)]
pub struct WebResponse {
    /// The HTTP status, whatever it is.
    pub status: u16,
    /// The headers with lower-case names; a name may be repeated.
    pub headers: Vec<(String, String)>,
    /// The decompressed body.
    pub body: Bytes,
}
