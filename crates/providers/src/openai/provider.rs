//! The service as a provider: requests go out as they are, answers are told apart by what they are.

use super::stream;
use crate::origin::{Shape, is_error};
use crate::relay;
use crate::service::{LIST_TIME, Service, encoded};
use bytes::Bytes;
use futures::future::BoxFuture;
use std::fmt;
use valvehouse_config::Secret;
use valvehouse_core::anthropic;
use valvehouse_core::context::Exchange;
use valvehouse_core::fault::Fault;
use valvehouse_core::provider::whole;
use valvehouse_core::provider::{
    Answer, ForwardRequest, Forwarded, Provider, RelayRequest, Relayed, Request,
};
use valvehouse_json::{Json, Object};
use valvehouse_net::{Address, Call, Client, Response};

/// A service with OpenAI's chat API: OpenAI itself, vLLM, Groq, OpenRouter, Ollama's `/v1`, …
///
/// Unknown fields travel along untouched, both ways.
#[derive(Clone)]
pub struct OpenAi {
    pub(crate) service: Service,
    chat: Address,
}

impl OpenAi {
    /// A service under its configured name. `base_url` is what `/chat/completions` is appended to:
    /// `https://api.openai.com/v1`. A query (`?api-version=…`) is kept.
    pub fn new(name: &str, base_url: &str, client: Client) -> Result<Self, Fault> {
        let service = Service::new(name, base_url, "https://api.openai.com/v1", client)?;
        let chat = service.endpoint(&["chat", "completions"]).into();
        Ok(Self { service, chat })
    }

    /// The same with a key, sent as `authorization: Bearer …`.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<Secret>) -> Self {
        self.service.set_key(key.into());
        self
    }

    /// The same with one more header on every call; it may be a key too (`api-key`).
    #[must_use]
    pub fn with_header(mut self, name: &str, value: impl Into<Secret>) -> Self {
        self.service.add_header(name, value.into());
        self
    }

    pub(crate) async fn send(&self, call: Call, exchange: Option<&Exchange>) -> Result<Response, Fault> {
        self.service.send(call, exchange, |call, key| call.bearer(key)).await
    }

    async fn post_chat(
        &self,
        body: Bytes,
        stream: bool,
        exchange: Option<&Exchange>,
    ) -> Result<Response, Fault> {
        let accept = if stream { "text/event-stream" } else { "application/json" };
        let call = Call::post(self.chat.clone(), body)
            .header("content-type", "application/json")
            .header("accept", accept);
        self.send(call, exchange).await
    }

    async fn ask(&self, request: Request) -> Result<Answer, Fault> {
        let exchange = request.turn.as_ref().map(|turn| turn.exchange());
        let mut response = self.post_chat(encode(&request)?, request.stream, exchange).await?;
        match self.shape(&mut response).await? {
            Shape::Json if request.stream => self.with_choices(response).await.map(Answer::Whole),
            Shape::Json => self.whole(response).await.map(Answer::Whole),
            Shape::Events => {
                let pieces = stream::pieces(self.service.origin.clone(), response.into_stream());
                if request.stream {
                    return Ok(Answer::Stream(pieces));
                }
                whole(pieces).await.map(Answer::Whole)
            }
            Shape::Other => Err(self.unexpected(response).await),
        }
    }

    pub(super) async fn whole(&self, response: Response) -> Result<Json, Fault> {
        let answer = self.service.parse(&response.whole().await?)?;
        if answer.get("choices").is_some_and(|choices| !choices.is_empty()) {
            return Ok(answer);
        }
        if is_error(&answer) {
            return Err(self.service.origin.in_band(&answer));
        }
        match answer.get("choices") {
            Some(Json::Array(_)) => Ok(answer),
            _ => Err(self.service.lacks(&answer, "choices")),
        }
    }

    /// A whole answer in place of a stream, which cannot end without a choice.
    pub(super) async fn with_choices(&self, response: Response) -> Result<Json, Fault> {
        let answer = self.whole(response).await?;
        match answer.get("choices").is_some_and(|choices| !choices.is_empty()) {
            true => Ok(answer),
            false => Err(self.service.origin.cut("it has no choices")),
        }
    }

    pub(super) async fn unexpected(&self, response: Response) -> Fault {
        const ANSWER: &str = "a chat answer; is base_url right (it usually ends in /v1)?";
        self.service.unexpected(response, ANSWER).await
    }

    async fn list(&self) -> Result<Vec<Json>, Fault> {
        let call = Call::get(self.service.endpoint(&["models"]))
            .header("accept", "application/json")
            .within(LIST_TIME);
        let mut response = self.send(call, None).await?;
        if self.shape(&mut response).await? == Shape::Other && response.media_type() == "text/html" {
            return Err(self.unexpected(response).await);
        }
        let answer = self.service.parse(&response.whole().await?)?;
        // Some services give the bare list.
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

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Fault>> {
        Box::pin(self.list())
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Fault>> {
        Box::pin(self.ask(request))
    }

    fn forward<'a>(&'a self, request: ForwardRequest<'a>) -> Option<BoxFuture<'a, Result<Forwarded, Fault>>> {
        Some(Box::pin(async move {
            let ForwardRequest { body, stream, exchange, .. } = request;
            let response = self.post_chat(body, stream, Some(exchange)).await?;
            self.forwarded(response, stream).await
        }))
    }

    fn has_route(&self, path: &str) -> bool {
        relay::is_openai(path)
    }

    fn relay<'a>(&'a self, request: RelayRequest<'a>) -> BoxFuture<'a, Result<Relayed, Fault>> {
        Box::pin(async move {
            let exchange = request.exchange;
            let call = relay::call(self.service.endpoint_at(request.path, request.query), request);
            relay::relayed(self.send(call, Some(exchange)).await?, &self.service)
        })
    }
}

/// The body as it goes out. The request's own value stays as it is: it may be asked again.
fn encode(request: &Request) -> Result<Bytes, Fault> {
    let Json::Object(body) = &anthropic::plain(&request.body) else {
        return Err(Fault::invalid("the request body must be a JSON object", None));
    };
    let mut entries = body.entries();
    match entries.iter_mut().find(|(key, _)| key == "stream") {
        Some((_, stream)) => *stream = request.stream.into(),
        None if request.stream => entries.push(("stream".into(), true.into())),
        None => {}
    }
    if !request.stream {
        // Services refuse it where nothing streams.
        entries.retain(|(key, _)| key != "stream_options");
    }
    let body: Json = entries.into_iter().collect::<Object>().into();
    encoded(&body)
}
