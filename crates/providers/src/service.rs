//! A service over HTTP, for every protocol: its address, credentials and errors.

use super::answer_stream::chunks;
use super::origin::{Origin, Shape, is_time, shape_of};
use bytes::Bytes;
use std::fmt;
use std::time::Duration;
use url::Url;
use valvehouse_core::context::Exchange;
use valvehouse_core::error::Error;
use valvehouse_core::provider::{Answer, whole_within};
use valvehouse_grants::Secret;
use valvehouse_json::Json;
use valvehouse_net::{Client, HttpCall, Response, shown};
use valvehouse_wire::{AnswerError, StreamReader, unwrapped};

/// The timeout of a list of models.
pub(super) const LIST_TIME: Duration = Duration::from_secs(30);

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
        let parsed = Json::parse_shared(body).or_else(|_| Json::parse_lenient(body));
        parsed.map(unwrapped).map_err(|error| {
            let what = format!("returned a response that is not valid JSON: {error}");
            self.origin.error_quoting(&what, &self.origin.excerpt(body))
        })
    }

    /// Reads the answer to a chat request, which may be complete although a stream was requested, and the reverse.
    /// `instead_of` names the answer in the error for another kind of body.
    pub(super) async fn answer<R: StreamReader>(
        &self,
        mut response: Response,
        is_streamed: bool,
        reader: R,
        whole: fn(&Json) -> Result<Json, AnswerError>,
        instead_of: &str,
    ) -> Result<Answer, Error> {
        match shape_of(&mut response).await? {
            Shape::Json => self.whole(response, whole).await.map(Answer::Whole),
            Shape::Events => {
                let memory = response.memory();
                let chunks = chunks(self.origin.clone(), response.into_stream(), reader);
                if is_streamed {
                    return Ok(Answer::Stream(chunks));
                }
                whole_within(chunks, memory.as_deref()).await.map(Answer::Whole)
            }
            Shape::Other => Err(self.unexpected(response, instead_of).await),
        }
    }

    /// Reads a complete answer.
    pub(super) async fn whole(
        &self,
        response: Response,
        read: impl FnOnce(&Json) -> Result<Json, AnswerError>,
    ) -> Result<Json, Error> {
        let answer = self.parse(&response.whole().await?)?;
        read(&answer).map_err(|error| self.origin.unreadable(error))
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
