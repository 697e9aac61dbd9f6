//! The service as a provider.

use super::answer::Reading;
use super::{lines, request};
use crate::chat::request::wants_usage;
use crate::config::Secret;
use crate::fault::Fault;
use crate::json::Json;
use crate::llm::origin::{Origin, is_error};
use crate::llm::{Answer, Provider, Request};
use crate::net::{Call, Client, Response, shown};
use bytes::Bytes;
use futures::future::BoxFuture;
use std::fmt;
use std::time::Duration;
use url::Url;

/// A list of models is no work; who takes longer has other problems.
const LIST_TIME: Duration = Duration::from_secs(30);

/// A service that speaks Ollama's own API.
#[derive(Clone)]
pub struct Ollama {
    base_url: Url,
    client: Client,
    origin: Origin,
}

impl Ollama {
    /// A service under its configured name. `base_url` is what stands before `/api/chat`; an address that was
    /// meant for OpenAI's clients and ends in `/v1` will do as well.
    pub fn new(name: &str, base_url: &str, client: Client) -> Result<Self, Fault> {
        let base = base_url.trim().trim_end_matches('/');
        let base = base.strip_suffix("/v1").or_else(|| base.strip_suffix("/api")).unwrap_or(base);
        let url = Url::parse(base).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.ok_or_else(|| {
            let example = "it looks like http://127.0.0.1:11434";
            Fault::Host(format!("the base_url of provider {name} is no address: {example}"))
        })?;
        let origin = Origin { provider: name.to_owned(), address: shown(&url), key: None };
        Ok(Self { base_url: url, client, origin })
    }

    /// The same with a key, sent as `authorization: Bearer …`: Ollama's cloud wants one.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<Secret>) -> Self {
        self.origin.key = Some(key.into()).filter(|key| !key.is_empty());
        self
    }

    fn endpoint(&self, step: &str) -> Url {
        let mut url = self.base_url.clone();
        // Refused only by addresses that cannot be a base, which `http` always can.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["api", step]);
        }
        url
    }

    async fn send(&self, call: Call) -> Result<Response, Fault> {
        let call = call.provider(&self.origin.provider);
        let call = match &self.origin.key {
            Some(key) => call.bearer(key),
            None => call,
        };
        let response = self.client.send(call).await?;
        if (200..300).contains(&response.status) {
            return Ok(response);
        }
        Err(self.origin.refused(response).await)
    }

    async fn ask(&self, request: Request) -> Result<Answer, Fault> {
        let asked = request::chat(&request.body, request.stream)?;
        let bytes =
            asked.encode().map_err(|error| Fault::invalid(format!("the request is {error}"), None))?;
        let call = Call::post(self.endpoint("chat"), bytes.into()).header("content-type", "application/json");
        let response = self.send(call).await?;
        if response.media_type() == "text/html" {
            let (start, _) = response.start(4096).await.unwrap_or_default();
            let start = self.origin.excerpt(&start);
            let what =
                format!("answered a page instead of a chat answer; is base_url right? It begins: {start}");
            return Err(self.origin.fault(&what));
        }
        let model = request.body.text("model").unwrap_or_default();
        let reading = Reading::new(model, wants_usage(&request.body));
        if request.stream {
            let body = response.into_stream();
            return Ok(Answer::Stream(lines::pieces(self.origin.clone(), reading, body)));
        }
        let answer = self.parse(&response.whole().await?)?;
        if is_error(&answer) {
            return Err(self.origin.in_band(&answer));
        }
        if answer.get("message").is_none() {
            let start = self.origin.excerpt(answer.to_string().as_bytes());
            return Err(self.origin.fault(&format!("answered without `message`; it begins: {start}")));
        }
        Ok(Answer::Whole(reading.whole(&answer)))
    }

    fn parse(&self, body: &Bytes) -> Result<Json, Fault> {
        Json::parse(body).map_err(|error| {
            let start = self.origin.excerpt(body);
            self.origin.fault(&format!("answered what is no valid JSON: {error}; it begins: {start}"))
        })
    }

    async fn list(&self) -> Result<Vec<Json>, Fault> {
        let response = self.send(Call::get(self.endpoint("tags")).within(LIST_TIME)).await?;
        let answer = self.parse(&response.whole().await?)?;
        let models = answer.get("models").unwrap_or_default().items();
        Ok(models.iter().filter_map(model).collect())
    }
}

/// A model as OpenAI lists it, and what Ollama knows of it beside that.
fn model(known: &Json) -> Option<Json> {
    let name = known.text("name").or_else(|| known.text("model"))?;
    let modified = known.text("modified_at").and_then(|text| text.parse::<jiff::Timestamp>().ok());
    let model = Json::from([
        ("id", name.into()),
        ("object", "model".into()),
        ("created", modified.map_or(0, |moment| moment.as_second()).into()),
        ("owned_by", "library".into()),
    ]);
    for key in ["size", "details"] {
        if let Some(value) = known.get(key) {
            // A new object takes any value.
            let _ = model.set(key, value);
        }
    }
    Some(model)
}

/// Without the address as it was given: it may hold a key.
impl fmt::Debug for Ollama {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ollama({} at {})", self.origin.provider, self.origin.address)
    }
}

impl Provider for Ollama {
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
