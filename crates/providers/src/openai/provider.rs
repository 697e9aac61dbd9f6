//! The provider for OpenAI's chat API: requests are sent unchanged, and answers are classified by their
//! content.

use crate::answer_stream::chunks;
use crate::origin::Shape;
use crate::relay;
use crate::service::{LIST_TIME, Service, encoded};
use bytes::Bytes;
use futures::future::BoxFuture;
use std::fmt;
use valvehouse_core::chat::CallStream;
use valvehouse_core::context::Exchange;
use valvehouse_core::error::Error;
use valvehouse_core::provider::{
    Answer, ForwardRequest, PassthroughAnswer, Provider, RelayRequest, RelayResponse, Request, whole_within,
};
use valvehouse_grants::Secret;
use valvehouse_json::Json;
use valvehouse_net::{Address, Client, HttpCall, Response};
use valvehouse_wire::openai::answer;
use valvehouse_wire::openai::request::{self, ChatBody};
use valvehouse_wire::openai::stream::ChatReader;
use valvehouse_wire::service::KnownService;

/// A service with OpenAI's chat API, such as OpenAI, vLLM, Groq, OpenRouter or Ollama's `/v1`.
///
/// Unknown fields pass unchanged in both directions.
#[derive(Clone)]
pub struct OpenAi {
    pub(crate) service: Service,
    chat: Address,
    pub(crate) known: &'static KnownService,
}

impl OpenAi {
    /// Creates a provider with its configured name. `/chat/completions` is appended to `base_url`, such as
    /// `https://api.openai.com/v1`. A query (`?api-version=…`) is kept.
    ///
    /// # Errors
    /// Returns an error if `base_url` is not a valid URL.
    pub fn new(name: &str, base_url: &str, client: Client) -> Result<Self, Error> {
        let service = Service::new(name, base_url, "https://api.openai.com/v1", client)?;
        let chat = service.endpoint(&["chat", "completions"]);
        let known = KnownService::of(chat.host_str().unwrap_or(""), "");
        Ok(Self { service, chat: chat.into(), known })
    }

    /// Sets the kind of service in the configuration, which may expect more than OpenAI's own.
    #[must_use]
    pub fn of_kind(mut self, kind: &str) -> Self {
        let chat = self.service.endpoint(&["chat"]);
        self.known = KnownService::of(chat.host_str().unwrap_or(""), kind);
        self
    }

    /// Adds a key that is sent as `authorization: Bearer …`.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<Secret>) -> Self {
        self.service.set_key(key.into());
        self
    }

    /// Adds a header to every call. Its value may be a key (`api-key`).
    #[must_use]
    pub fn with_header(mut self, name: &str, value: impl Into<Secret>) -> Self {
        self.service.add_header(name, value.into());
        self
    }

    pub(crate) async fn send(&self, call: HttpCall, exchange: Option<&Exchange>) -> Result<Response, Error> {
        self.service.send(call, exchange, |call, key| call.bearer(key)).await
    }

    async fn post_chat(
        &self,
        body: Bytes,
        stream: bool,
        exchange: Option<&Exchange>,
    ) -> Result<Response, Error> {
        let accept = if stream { "text/event-stream" } else { "application/json" };
        self.send(HttpCall::post(self.chat.clone(), body).json(accept), exchange).await
    }

    async fn ask(&self, request: Request) -> Result<Answer, Error> {
        let exchange = request.turn.as_ref().map(|turn| turn.exchange());
        let ChatBody { body, left_out } = request::write(&request.body, request.stream, self.known)?;
        if let (Some(turn), Some(name)) = (&request.turn, left_out) {
            turn.leave_out(self.name(), name);
        }
        let mut response = self.post_chat(encoded(&body)?, request.stream, exchange).await?;
        match self.shape(&mut response).await? {
            Shape::Json => {
                let read = if request.stream { answer::read_choices } else { answer::read };
                self.service.whole(response, read).await.map(Answer::Whole)
            }
            Shape::Events => {
                let memory = response.memory();
                let reader = ChatReader::new(CallStream::new(&request.body.field("tools")));
                let chunks = chunks(self.service.origin.clone(), response.into_stream(), reader);
                if request.stream {
                    return Ok(Answer::Stream(chunks));
                }
                whole_within(chunks, memory.as_deref()).await.map(Answer::Whole)
            }
            Shape::Other => Err(self.unexpected(response).await),
        }
    }

    pub(super) async fn unexpected(&self, response: Response) -> Error {
        const ANSWER: &str = "a chat response; check base_url (it usually ends in /v1)";
        self.service.unexpected(response, ANSWER).await
    }

    async fn list(&self) -> Result<Vec<Json>, Error> {
        let call = HttpCall::get(self.service.endpoint(&["models"]))
            .header("accept", "application/json")
            .within(LIST_TIME);
        let mut response = self.send(call, None).await?;
        if self.shape(&mut response).await? == Shape::Other && response.media_type() == "text/html" {
            return Err(self.unexpected(response).await);
        }
        let answer = self.service.parse(&response.whole().await?)?;
        // Some services return the list without an object around it.
        let list = answer.get("data").unwrap_or(answer);
        Ok(list.items().into_iter().filter(|model| model.text("id").is_some()).collect())
    }
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenAi({})", self.service)
    }
}

impl Provider for OpenAi {
    fn name(&self) -> &str {
        &self.service.origin.provider
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        Box::pin(self.list())
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        Box::pin(self.ask(request))
    }

    fn forward<'a>(
        &'a self,
        request: ForwardRequest<'a>,
    ) -> Option<BoxFuture<'a, Result<PassthroughAnswer, Error>>> {
        if self.known.expects_extras {
            return None;
        }
        Some(Box::pin(async move {
            let ForwardRequest { body, stream, exchange, .. } = request;
            let body = match request::rewrite(&body, self.known)? {
                Some(rewritten) => encoded(&rewritten)?,
                None => body,
            };
            let response = self.post_chat(body, stream, Some(exchange)).await?;
            self.forwarded(response, stream).await
        }))
    }

    fn has_route(&self, path: &str) -> bool {
        relay::is_openai(path)
    }

    fn relay<'a>(&'a self, request: RelayRequest<'a>) -> BoxFuture<'a, Result<RelayResponse, Error>> {
        Box::pin(async move {
            let exchange = request.exchange;
            let call = relay::call(self.service.endpoint_at(request.path, request.query), request);
            relay::relayed(self.send(call, Some(exchange)).await?, &self.service)
        })
    }
}
