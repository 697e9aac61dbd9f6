//! The service as a provider: requests and answers are translated on their way.

use super::stream;
use crate::anthropic::{self, Asked, status_of};
use crate::chat::{Fold, request};
use crate::config::Secret;
use crate::fault::Fault;
use crate::json::Json;
use crate::llm::origin::{Origin, Shape, is_error, shape_of};
use crate::llm::{Answer, Provider, Request};
use crate::net::{Call, Client, Response, shown};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use std::fmt;
use std::time::Duration;
use url::Url;

/// The version of its API that we speak.
const VERSION: &str = "2023-06-01";

/// A list of models is no work; who takes longer has other problems.
const LIST_TIME: Duration = Duration::from_secs(30);

/// A service with Anthropic's Messages.
///
/// Thinking, citations and searches survive the way to OpenAI's words and back: see
/// [`crate::anthropic`].
#[derive(Clone)]
pub struct Anthropic {
    base_url: Url,
    headers: Vec<(String, Secret)>,
    client: Client,
    origin: Origin,
}

impl Anthropic {
    /// A service under its configured name. `base_url` is what `/v1/messages` is appended to; a `/v1`
    /// that is already there stays the only one.
    pub fn new(name: &str, base_url: &str, client: Client) -> Result<Self, Fault> {
        let wrong = |why: &str| {
            Fault::Host(format!(
                "the base_url of provider {name} is no address: {why}; it looks like https://api.anthropic.com"
            ))
        };
        let url = Url::parse(base_url.trim()).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.cannot_be_a_base() {
            return Err(wrong("it does not begin with http:// or https://"));
        }
        let origin = Origin { provider: name.to_owned(), address: shown(&url), key: None };
        Ok(Self { base_url: url, headers: Vec::new(), client, origin })
    }

    /// The same with a key, sent as `x-api-key`.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<Secret>) -> Self {
        self.origin.key = Some(key.into()).filter(|key| !key.is_empty());
        self
    }

    /// The same with one more header on every call; it may be a key too.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: impl Into<Secret>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(super) fn endpoint(&self, step: &str) -> Url {
        let mut url = self.base_url.clone();
        let has_version = url.path().trim_end_matches('/').ends_with("/v1");
        // Refused only by addresses that cannot be a base, which `new` does not let in.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend((!has_version).then_some("v1")).push(step);
        }
        url
    }

    async fn send(&self, call: Call) -> Result<Response, Fault> {
        let call = call.provider(&self.origin.provider).header("anthropic-version", VERSION);
        let call = self.headers.iter().fold(call, |call, (name, value)| call.secret_header(name, value));
        let call = match &self.origin.key {
            Some(key) => call.secret_header("x-api-key", key),
            None => call,
        };
        let response = self.client.send(call).await?;
        if (200..300).contains(&response.status) {
            return Ok(response);
        }
        Err(self.origin.refused(response).await)
    }

    async fn ask(&self, request: Request) -> Result<Answer, Fault> {
        let Asked { body, beta } = anthropic::ask(&request.body, request.stream)?;
        let body = body.encode().map_err(|error| Fault::invalid(format!("the request is {error}"), None))?;
        let accept = if request.stream { "text/event-stream" } else { "application/json" };
        let call = Call::post(self.endpoint("messages"), body.into())
            .header("content-type", "application/json")
            .header("accept", accept);
        let call = match beta {
            Some(beta) => call.header("anthropic-beta", &beta),
            None => call,
        };
        let mut response = self.send(call).await?;
        match shape_of(&mut response).await? {
            Shape::Json => self.whole(response).await.map(Answer::Whole),
            Shape::Events => {
                let with_usage = !request.stream || request::wants_usage(&request.body);
                let mut pieces = stream::pieces(self.origin.clone(), response.into_stream(), with_usage);
                if request.stream {
                    return Ok(Answer::Stream(pieces));
                }
                let mut fold = Fold::default();
                while let Some(piece) = pieces.next().await {
                    fold.push(&piece?.event);
                }
                Ok(Answer::Whole(fold.finish()))
            }
            Shape::Other => Err(self.unexpected(response).await),
        }
    }

    async fn whole(&self, response: Response) -> Result<Json, Fault> {
        let message = self.parse(&response.whole().await?)?;
        if message.get("content").is_some_and(|content| content.as_array().is_some()) {
            return Ok(anthropic::completion(&message));
        }
        if is_error(&message) {
            return Err(in_band(&self.origin, &message));
        }
        let start = self.origin.excerpt(message.to_string().as_bytes());
        Err(self.origin.fault(&format!("answered without `content`; it begins: {start}")))
    }

    fn parse(&self, body: &Bytes) -> Result<Json, Fault> {
        Json::parse(body).map_err(|error| {
            let start = self.origin.excerpt(body);
            self.origin.fault(&format!("answered what is no valid JSON: {error}; it begins: {start}"))
        })
    }

    async fn unexpected(&self, response: Response) -> Fault {
        let kind = match response.media_type() {
            kind if kind.is_empty() => "something without a content-type".to_owned(),
            kind => kind,
        };
        let (start, _) = response.start(4096).await.unwrap_or_default();
        let start = self.origin.excerpt(&start);
        self.origin
            .fault(&format!("answered {kind} instead of a message; is base_url right? It begins: {start}"))
    }

    async fn list(&self) -> Result<Vec<Json>, Fault> {
        let mut url = self.endpoint("models");
        // As many as there may be at once: more than Anthropic has.
        url.query_pairs_mut().append_pair("limit", "1000");
        let call = Call::get(url).header("accept", "application/json").within(LIST_TIME);
        let answer = self.parse(&self.send(call).await?.whole().await?)?;
        let models = answer.get("data").unwrap_or_default().items();
        Ok(models.iter().filter(|model| model.text("id").is_some()).map(entry).collect())
    }
}

/// A model in OpenAI's words, with all that Anthropic says of it.
fn entry(model: &Json) -> Json {
    let created = model.text("created_at").and_then(|time| time.parse::<jiff::Timestamp>().ok());
    let entry = Json::from([
        ("id", model.get("id").unwrap_or_default()),
        ("object", "model".into()),
        ("created", created.map_or(0, |time| time.as_second()).into()),
        ("owned_by", "anthropic".into()),
    ]);
    if let Json::Object(fields) = model {
        fields.for_each(|key, value| {
            if !matches!(key, "id" | "type") {
                // Copies, in an object just made.
                let _ = entry.set(key, value.copy());
            }
        });
    }
    entry
}

/// An error inside an answer that began as a success: its kind says which status it would have had.
pub(super) fn in_band(origin: &Origin, event: &Json) -> Fault {
    let kind = event.at_path("error.type");
    match (origin.in_band(event), kind.as_str().and_then(status_of)) {
        (Fault::Answered { provider, body, retry_after, .. }, Some(status)) => {
            Fault::Answered { provider, status, body, retry_after }
        }
        (fault, _) => fault,
    }
}

/// Without headers and the address as it was given: both may hold a key.
impl fmt::Debug for Anthropic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Anthropic({} at {})", self.origin.provider, self.origin.address)
    }
}

impl Provider for Anthropic {
    fn name(&self) -> &str {
        &self.origin.provider
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Fault>> {
        Box::pin(self.list())
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Fault>> {
        Box::pin(self.ask(request))
    }
}
