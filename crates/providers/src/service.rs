//! A service over HTTP, for every protocol: its address, credentials and errors.

use super::origin::{Origin, is_time, unwrapped};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use std::fmt;
use std::time::Duration;
use url::Url;
use valvehouse_config::Secret;
use valvehouse_core::context::Exchange;
use valvehouse_core::error::Error;
use valvehouse_core::provider::StreamChunk;
use valvehouse_json::Json;
use valvehouse_net::{Client, HttpCall, Response, shown};

/// The timeout of a list of models.
pub(super) const LIST_TIME: Duration = Duration::from_secs(30);

/// The maximum wait for the end of a body after the last event of an answer. A connection is only reused if
/// it was read to its end.
const AFTER_LAST: Duration = Duration::from_millis(100);

/// The header whose values are merged with those in the body.
pub(super) const BETA: &str = "anthropic-beta";

/// The address of a service, and the credentials for it.
#[derive(Clone)]
pub(super) struct Service {
    base_url: Url,
    headers: Vec<(String, Secret)>,
    client: Client,
    pub(super) origin: Origin,
    /// The prefix of the headers that belong to another protocol.
    foreign: &'static str,
}

impl Service {
    /// Creates a service with its configured name. `example` is a valid address for the error message.
    pub(super) fn new(name: &str, base_url: &str, example: &str, client: Client) -> Result<Self, Error> {
        let wrong = |why: &str| {
            Error::Host(format!(
                "invalid base_url of provider {name}: {why}; expected a URL such as {example}"
            ))
        };
        let url = Url::parse(base_url.trim()).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.cannot_be_a_base() {
            return Err(wrong("it does not begin with http:// or https://"));
        }
        let origin = Origin { provider: name.into(), address: shown(&url), key: None };
        Ok(Self { base_url: url, headers: Vec::new(), client, origin, foreign: "anthropic-" })
    }

    /// Excludes client headers with this prefix from requests.
    pub(super) fn without_headers(mut self, foreign: &'static str) -> Self {
        self.foreign = foreign;
        self
    }

    /// Sets the key. An empty key counts as missing.
    pub(super) fn set_key(&mut self, key: Secret) {
        self.origin.key = Some(key).filter(|key| !key.is_empty());
    }

    /// Adds a header to every call. Its value may be a key.
    pub(super) fn add_header(&mut self, name: &str, value: Secret) {
        self.headers.push((name.to_owned(), value));
    }

    /// Returns `true` if the path of the address ends with this text.
    pub(super) fn ends_with(&self, end: &str) -> bool {
        self.base_url.path().trim_end_matches('/').ends_with(end)
    }

    /// Returns the address with these segments appended. Its query is kept.
    pub(super) fn endpoint(&self, steps: &[&str]) -> Url {
        let mut url = self.base_url.clone();
        // This only fails for a URL that cannot be a base, which `new` rejects.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(steps);
        }
        url
    }

    /// Returns the address with this path appended. The client's query follows that of the address.
    pub(super) fn endpoint_at(&self, path: &str, query: Option<&str>) -> Url {
        let mut url = self.base_url.clone();
        let own = url.path().trim_end_matches('/').to_owned();
        // The path is set unchanged: its escapes are those of the client, and `set_path` removes `..`.
        url.set_path(&format!("{own}/{path}"));
        if let Some(query) = query.filter(|query| !query.is_empty()) {
            let both = url.query().map_or_else(|| query.to_owned(), |own| format!("{own}&{query}"));
            url.set_query(Some(&both));
        }
        url
    }

    /// Makes a call, with the key if there is one. An unsuccessful response is converted to an error, in
    /// which the key is redacted because a service may repeat it.
    pub(super) async fn send(
        &self,
        call: HttpCall,
        exchange: Option<&Exchange>,
        with_key: impl FnOnce(HttpCall, &Secret) -> HttpCall,
    ) -> Result<Response, Error> {
        let call = call.provider(self.origin.provider.clone());
        let sent = exchange.into_iter().flat_map(Exchange::sent);
        let sent = sent.filter(|(name, _)| !name.starts_with(self.foreign) && *name != BETA);
        let call = sent.fold(call, |call, (name, value)| call.header(name, value));
        let call = self.headers.iter().fold(call, |call, (name, value)| call.secret_header(name, value));
        let call = match &self.origin.key {
            Some(key) => with_key(call, key),
            None => call,
        };
        let memory = exchange.and_then(|exchange| exchange.memory().cloned());
        let response = self.client.send(call).await?.counted_in(memory);
        if let Some(exchange) = exchange {
            exchange.receive(response.headers().filter(|(name, value)| self.may_show(name, value)));
        }
        match (200..300).contains(&response.status) {
            true => Ok(response),
            false => Err(self.origin.refused(response).await),
        }
    }

    /// Returns `true` if a response header may be passed to the client: it must not contain a key, and
    /// `retry-after` must be a time.
    pub(super) fn may_show(&self, name: &str, value: &str) -> bool {
        let keys = self.origin.key.iter().chain(self.headers.iter().map(|(_, value)| value));
        keys.filter(|key| !key.is_empty()).all(|key| !value.contains(key.expose()))
            && (name != "retry-after" || is_time(value))
    }

    /// Parses a body as JSON.
    pub(super) fn parse(&self, body: &Bytes) -> Result<Json, Error> {
        Json::parse_shared(body).map(unwrapped).map_err(|error| {
            let what = format!("returned a response that is not valid JSON: {error}");
            self.origin.error_quoting(&what, &self.origin.excerpt(body))
        })
    }

    /// Returns the error for an answer without a required field.
    pub(super) fn lacks(&self, answer: &Json, key: &str) -> Error {
        let start = self.origin.excerpt(answer.to_string().as_bytes());
        self.origin.error_quoting(&format!("returned a response without `{key}`"), &start)
    }

    /// Returns the error for an answer of an unexpected kind.
    pub(super) async fn unexpected(&self, response: Response, instead_of: &str) -> Error {
        let kind = match &*response.media_type() {
            "" => "a response without a content-type".to_owned(),
            kind => kind.to_owned(),
        };
        let (start, _) = response.start(4096).await.unwrap_or_default();
        let start = self.origin.excerpt(&start);
        self.origin.error_quoting(&format!("returned {kind} instead of {instead_of}"), &start)
    }
}

/// Omits the headers and the configured address, because both may contain a key.
impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.origin.provider, self.origin.address)
    }
}

/// Encodes the body of a request.
pub(super) fn encoded(body: &Json) -> Result<Bytes, Error> {
    body.encode_raw()
        .map(Bytes::from)
        .map_err(|error| Error::invalid(format!("the request is {error}"), None))
}

/// Reads the rest of a body after the last event of an answer.
pub(super) async fn drain(body: &mut BoxStream<'static, Result<Bytes, Error>>) {
    let rest = async { while let Some(Ok(_)) = body.next().await {} };
    // After the timeout, the connection is closed instead of reused.
    let _ = tokio::time::timeout(AFTER_LAST, rest).await;
}

/// A reader of a streamed answer.
pub(super) trait Reads: Send + 'static {
    /// Returns the next chunk; `None` after the last.
    fn next(&mut self) -> impl Future<Output = Option<Result<StreamChunk, Error>>> + Send;
}

/// Returns all chunks of a reader as a stream. An error is the last item.
pub(super) fn read<R: Reads>(reader: R) -> BoxStream<'static, Result<StreamChunk, Error>> {
    stream::unfold(Some(reader), |reader| async {
        let mut reader = reader?;
        match reader.next().await? {
            Ok(chunk) => Some((Ok(chunk), Some(reader))),
            Err(error) => Some((Err(error), None)),
        }
    })
    .boxed()
}
