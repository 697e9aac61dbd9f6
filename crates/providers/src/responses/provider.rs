//! The provider for the Responses API. Chats are converted; all other routes are those of OpenAI's chat API.

use crate::openai::OpenAi;
use crate::service::{Service, encoded};
use futures::future::BoxFuture;
use std::fmt;
use valvehouse_core::chat::request::wants_usage;
use valvehouse_core::error::Error;
use valvehouse_core::provider::{Answer, Provider, RESPONSES, RelayRequest, RelayResponse, Request};
use valvehouse_grants::Secret;
use valvehouse_json::Json;
use valvehouse_net::{Address, Client, HttpCall};
use valvehouse_wire::responses::stream::ResponsesReader;
use valvehouse_wire::responses::{answer, request};

/// A service with OpenAI's Responses API. It stores nothing, because the host sends the whole
/// conversation.
#[derive(Clone)]
pub struct OpenAiResponses {
    openai: OpenAi,
    responses: Address,
}

impl OpenAiResponses {
    /// Creates a provider with its configured name. `/responses` is appended to `base_url`, such as
    /// `https://api.openai.com/v1`. A query (`?api-version=…`) is kept.
    ///
    /// # Errors
    /// Returns a host error if `base_url` is not a valid URL.
    pub fn new(name: &str, base_url: &str, client: Client) -> Result<Self, Error> {
        let openai = OpenAi::new(name, base_url, client)?;
        let responses = openai.service.endpoint(&["responses"]).into();
        Ok(Self { openai, responses })
    }

    /// Sets the kind of service in the configuration.
    #[must_use]
    pub fn of_kind(mut self, kind: &str) -> Self {
        self.openai = self.openai.of_kind(kind);
        self
    }

    /// Adds a key that is sent as `authorization: Bearer …`.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<Secret>) -> Self {
        self.openai = self.openai.with_key(key);
        self
    }

    /// Adds a header to every call. Its value may be a key (`api-key`).
    #[must_use]
    pub fn with_header(mut self, name: &str, value: impl Into<Secret>) -> Self {
        self.openai = self.openai.with_header(name, value);
        self
    }

    fn service(&self) -> &Service {
        &self.openai.service
    }

    async fn ask(&self, request: Request) -> Result<Answer, Error> {
        let exchange = request.turn.as_ref().map(|turn| turn.exchange());
        let body = request::write(&request.body, request.stream, self.openai.known)?;
        if let Some(turn) = request.turn.as_ref().filter(|_| !request.body.field("stop").is_empty()) {
            turn.leave_out(self.name(), "stop");
        }
        let accept = if request.stream { "text/event-stream" } else { "application/json" };
        let call = HttpCall::post(self.responses.clone(), encoded(&body)?).json(accept);
        let response = self.openai.send(call, exchange).await?;
        let reader = ResponsesReader::default().with_usage(!request.stream || wants_usage(&request.body));
        let expected = "a response; check base_url";
        self.service().answer(response, request.stream, reader, answer::read, expected).await
    }
}

impl fmt::Debug for OpenAiResponses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenAiResponses({})", self.service())
    }
}

impl Provider for OpenAiResponses {
    fn name(&self) -> &str {
        self.openai.name()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        self.openai.models()
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        Box::pin(self.ask(request))
    }

    fn has_route(&self, path: &str) -> bool {
        path == RESPONSES || self.openai.has_route(path)
    }

    fn relay<'a>(&'a self, request: RelayRequest<'a>) -> BoxFuture<'a, Result<RelayResponse, Error>> {
        self.openai.relay(request)
    }
}
