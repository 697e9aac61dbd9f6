//! The provider for Ollama's API.

use crate::answer_stream::chunks_of_lines;
use crate::relay;
use crate::service::{LIST_TIME, Service, encoded};
use futures::future::BoxFuture;
use std::fmt;
use url::Url;
use valvehouse_core::context::Exchange;
use valvehouse_core::error::Error;
use valvehouse_core::provider::{Answer, Provider, RelayRequest, RelayResponse, Request};
use valvehouse_grants::Secret;
use valvehouse_json::Json;
use valvehouse_net::{Client, HttpCall, Response};
use valvehouse_wire::ollama::answer::OllamaReader;
use valvehouse_wire::ollama::{models, request};

/// A service with Ollama's own API.
#[derive(Clone)]
pub struct Ollama {
    service: Service,
}

impl Ollama {
    /// Creates a provider with its configured name. `/api/chat` is appended to `base_url`; a trailing `/v1`, as
    /// OpenAI clients need it, is removed.
    ///
    /// # Errors
    /// Returns an error if `base_url` is not a valid URL.
    pub fn new(name: &str, base_url: &str, client: Client) -> Result<Self, Error> {
        let base = base_url.trim().trim_end_matches('/');
        let base = base.strip_suffix("/v1").or_else(|| base.strip_suffix("/api")).unwrap_or(base);
        Service::new(name, base, "http://127.0.0.1:11434", client).map(|service| Self { service })
    }

    /// Adds a key that is sent as `authorization: Bearer …`, as Ollama's cloud requires.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<Secret>) -> Self {
        self.service.set_key(key.into());
        self
    }

    fn endpoint(&self, step: &str) -> Url {
        self.service.endpoint(&["api", step])
    }

    async fn send(&self, call: HttpCall, exchange: Option<&Exchange>) -> Result<Response, Error> {
        self.service.send(call, exchange, |call, key| call.bearer(key)).await
    }

    async fn ask(&self, request: Request) -> Result<Answer, Error> {
        let body = request::write(&request.body, request.stream)?;
        let call =
            HttpCall::post(self.endpoint("chat"), encoded(&body)?).header("content-type", "application/json");
        let exchange = request.turn.as_ref().map(|turn| turn.exchange());
        let response = self.send(call, exchange).await?;
        if response.media_type() == "text/html" {
            let (start, _) = response.start(4096).await.unwrap_or_default();
            let start = self.service.origin.excerpt(&start);
            let what = "returned a web page instead of a chat response; check base_url";
            return Err(self.service.origin.error_quoting(what, &start));
        }
        let reader = OllamaReader::new(&request.body);
        if request.stream {
            let chunks = chunks_of_lines(self.service.origin.clone(), response.into_stream(), reader);
            return Ok(Answer::Stream(chunks));
        }
        self.service.whole(response, |answer| reader.whole(answer)).await.map(Answer::Whole)
    }

    async fn list(&self) -> Result<Vec<Json>, Error> {
        let call = HttpCall::get(self.endpoint("tags")).within(LIST_TIME);
        let response = self.send(call, None).await?;
        let answer = self.service.parse(&response.whole().await?)?;
        let models = answer.list("models");
        Ok(models.iter().filter_map(models::read).collect())
    }
}

impl fmt::Debug for Ollama {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ollama({})", self.service)
    }
}

impl Provider for Ollama {
    fn name(&self) -> &str {
        &self.service.origin.provider
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        Box::pin(self.list())
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        Box::pin(self.ask(request))
    }

    /// Ollama supports some of OpenAI's routes.
    fn has_route(&self, path: &str) -> bool {
        matches!(path, "embeddings" | "completions")
    }

    fn relay<'a>(&'a self, request: RelayRequest<'a>) -> BoxFuture<'a, Result<RelayResponse, Error>> {
        Box::pin(async move {
            let exchange = request.exchange;
            let path = format!("v1/{}", request.path);
            let call = relay::call(self.service.endpoint_at(&path, request.query), request);
            relay::relayed(self.send(call, Some(exchange)).await?, &self.service)
        })
    }
}
