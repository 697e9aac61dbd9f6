//! The provider for Anthropic's Messages API.

use crate::relay;
use crate::service::{BETA, LIST_TIME, Service, encoded};
use futures::future::BoxFuture;
use std::fmt;
use url::Url;
use valvehouse_core::chat::ONLY_ANTHROPIC;
use valvehouse_core::chat::request::wants_usage;
use valvehouse_core::context::Exchange;
use valvehouse_core::error::Error;
use valvehouse_core::provider::{Answer, Provider, RelayRequest, RelayResponse, Request};
use valvehouse_grants::Secret;
use valvehouse_json::Json;
use valvehouse_net::{Client, HttpCall, Response};
use valvehouse_wire::messages::request::{self, MessagesRequest};
use valvehouse_wire::messages::stream::MessagesReader;
use valvehouse_wire::messages::{answer, models};

/// The supported version of the API.
const VERSION: &str = "2023-06-01";

/// A service with Anthropic's Messages API.
///
/// Thinking, citations and searches are preserved by the conversion to OpenAI's format and back: see
/// [`valvehouse_wire::messages`].
#[derive(Clone)]
pub struct Anthropic {
    service: Service,
    /// Set if the key is sent as `authorization: Bearer`.
    bearer: bool,
}

impl Anthropic {
    /// Creates a provider with its configured name. `/v1/messages` is appended to `base_url`; a trailing `/v1` is
    /// not repeated.
    ///
    /// # Errors
    /// Returns an error if `base_url` is not a valid URL.
    pub fn new(name: &str, base_url: &str, client: Client) -> Result<Self, Error> {
        let service = Service::new(name, base_url, "https://api.anthropic.com", client)?;
        Ok(Self { service: service.without_headers("openai-"), bearer: false })
    }

    /// Adds a key that is sent as `authorization: Bearer …`, as subscriptions require.
    #[must_use]
    pub fn with_bearer(mut self, key: impl Into<Secret>) -> Self {
        self.bearer = true;
        self.with_key(key)
    }

    /// Adds a key that is sent as `x-api-key`.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<Secret>) -> Self {
        self.service.set_key(key.into());
        self
    }

    /// Adds a header to every call. Its value may be a key.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: impl Into<Secret>) -> Self {
        self.service.add_header(name, value.into());
        self
    }

    pub(super) fn endpoint(&self, step: &str) -> Url {
        let version = (!self.service.ends_with("/v1")).then_some("v1");
        self.service.endpoint(&version.into_iter().chain([step]).collect::<Vec<_>>())
    }

    async fn send(&self, call: HttpCall, exchange: Option<&Exchange>) -> Result<Response, Error> {
        // A version that the client sends takes precedence.
        let call = call.header("anthropic-version", VERSION);
        let with_key = |call: HttpCall, key: &Secret| match self.bearer {
            true => call.bearer(key),
            false => call.secret_header("x-api-key", key),
        };
        self.service.send(call, exchange, with_key).await
    }

    async fn ask(&self, request: Request) -> Result<Answer, Error> {
        let MessagesRequest { body, beta, refused_betas, left_out } =
            request::write(&request.body, request.stream)?;
        if let Some(turn) = &request.turn {
            left_out.iter().for_each(|name| turn.leave_out(self.name(), name));
        }
        let accept = if request.stream { "text/event-stream" } else { "application/json" };
        let call = HttpCall::post(self.endpoint("messages"), encoded(&body)?).json(accept);
        let exchange = request.turn.as_ref().map(|turn| turn.exchange());
        let beta = betas(beta, exchange);
        let is_taken = |word: &&str| refused_betas.iter().all(|own| own.as_str() != Some(word.trim()));
        let beta = beta.split(',').filter(is_taken).collect::<Vec<_>>().join(",");
        let call = if beta.is_empty() { call } else { call.header("anthropic-beta", &beta) };
        let response = self.send(call, exchange).await?;
        let with_usage = !request.stream || wants_usage(&request.body);
        let of_anthropics = request.body.get(ONLY_ANTHROPIC).is_some();
        let reader = MessagesReader::default()
            .with_usage(with_usage)
            .with_first_usage(of_anthropics && request.stream);
        self.service.answer(response, request.stream, reader, answer::read, "a message; check base_url").await
    }

    async fn list(&self) -> Result<Vec<Json>, Error> {
        let mut url = self.endpoint("models");
        // The page size is the maximum, which exceeds the number of Anthropic's models.
        url.query_pairs_mut().append_pair("limit", "1000");
        let call = HttpCall::get(url).header("accept", "application/json").within(LIST_TIME);
        let answer = self.service.parse(&self.send(call, None).await?.whole().await?)?;
        let models = answer.list("data");
        Ok(models.iter().filter(|model| model.text("id").is_some()).map(models::read).collect())
    }
}

/// Returns the betas of a body, and those that the client sent in headers.
fn betas(body: Option<String>, exchange: Option<&Exchange>) -> String {
    let mut all = body.unwrap_or_default();
    for (_, value) in exchange.into_iter().flat_map(Exchange::sent).filter(|(name, _)| *name == BETA) {
        for word in value.split(',').map(str::trim) {
            if !word.is_empty() && all.split(',').all(|known| known.trim() != word) {
                all.push_str(if all.is_empty() { "" } else { "," });
                all.push_str(word);
            }
        }
    }
    all
}

impl fmt::Debug for Anthropic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Anthropic({})", self.service)
    }
}

impl Provider for Anthropic {
    fn name(&self) -> &str {
        &self.service.origin.provider
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        Box::pin(self.list())
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        Box::pin(self.ask(request))
    }

    fn has_route(&self, path: &str) -> bool {
        relay::is_anthropic(path)
    }

    fn relay<'a>(&'a self, request: RelayRequest<'a>) -> BoxFuture<'a, Result<RelayResponse, Error>> {
        Box::pin(async move {
            let exchange = request.exchange;
            let version = if self.service.ends_with("/v1") { "" } else { "v1/" };
            let path = format!("{version}{}", request.path);
            let call = relay::call(self.service.endpoint_at(&path, request.query), request);
            let beta = betas(None, Some(exchange));
            let call = if beta.is_empty() { call } else { call.header("anthropic-beta", &beta) };
            relay::relayed(self.send(call, Some(exchange)).await?, &self.service)
        })
    }
}
