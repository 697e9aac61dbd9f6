//! A model with fallbacks, which answer if its provider cannot.
//!
//! The fallbacks are called in order, each with its own model name in the request, until one starts an
//! answer. An answer that has started is never continued by another provider.

use bytes::{Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use std::sync::Arc;
use valvehouse_core::breaker::OpenState;
use valvehouse_core::chat::Outline;
use valvehouse_core::context::{Exchange, Turn};
use valvehouse_core::error::Error;
use valvehouse_core::provider::{
    Answer, ForwardRequest, PassthroughAnswer, PassthroughBody, Provider, Request, StreamChunk, fit,
};
use valvehouse_json::{Json, Object};
use valvehouse_net::sse;

/// A model with fallbacks.
pub struct Fallback {
    first: Choice,
    others: Vec<Choice>,
}

/// A model of a provider.
#[derive(Clone)]
pub struct Choice {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// The name of the model at this provider.
    pub model: String,
}

impl Fallback {
    /// Creates a model with fallbacks, which are called in this order.
    pub fn new(first: Choice, others: Vec<Choice>) -> Self {
        Self { first, others }
    }

    async fn ask(&self, request: Request) -> Result<Answer, Error> {
        let exchange = request.turn.as_ref().map(Turn::exchange);
        let first = &*self.first.provider;
        let error = match first.chat(fit(first, request.clone())?).await {
            Err(error) if is_unable(&error) => error,
            outcome => {
                if let Some(model) = request.body.get("model").as_ref().and_then(Json::as_str) {
                    note(exchange, self.name(), model);
                }
                return outcome;
            }
        };
        for other in self.instead_of(&error) {
            let body = with_model(&request.body, &other.model);
            let attempt = async {
                let service = &*other.provider;
                service.chat(fit(service, Request { body, ..request.clone() })?).await
            };
            if let Some(answer) = other.took_over(attempt.await, exchange) {
                self.replaced();
                return Ok(answer);
            }
        }
        Err(error)
    }

    async fn pass_on(
        &self,
        first: BoxFuture<'_, Result<PassthroughAnswer, Error>>,
        request: ForwardRequest<'_>,
    ) -> Result<PassthroughAnswer, Error> {
        let ForwardRequest { body, stream, exchange, .. } = request;
        let error = match first.await {
            Err(error) if is_unable(&error) => error,
            outcome => {
                note(Some(exchange), self.name(), &self.first.model);
                return outcome;
            }
        };
        // The body was forwarded unparsed. Only a fallback requires it to be parsed.
        let Ok(body) = Json::parse(&body) else { return Err(error) };
        for other in self.instead_of(&error) {
            let body = with_model(&body, &other.model);
            if let Some(forwarded) =
                other.took_over(other.forwarded(body, stream, exchange).await, Some(exchange))
            {
                self.replaced();
                return Ok(forwarded);
            }
        }
        Err(error)
    }

    /// Counts an answer of a fallback.
    fn replaced(&self) {
        if let Some(metrics) = self.first.provider.metrics() {
            metrics.replaced();
        }
    }

    /// Returns the fallbacks, and logs each one when it is called.
    fn instead_of(&self, error: &Error) -> impl Iterator<Item = &Choice> {
        tracing::warn!(provider = self.name(), model = self.first.model, "cannot answer: {error}");
        self.others.iter().inspect(|other| {
            tracing::warn!(
                provider = other.provider.name(),
                model = other.model,
                "the request falls back to this provider"
            );
        })
    }
}

impl Choice {
    /// Returns the answer of this fallback. A failure is only logged, because the client receives the error
    /// of the first model.
    fn took_over<T>(&self, outcome: Result<T, Error>, exchange: Option<&Exchange>) -> Option<T> {
        match outcome {
            Ok(answer) => {
                note(exchange, self.provider.name(), &self.model);
                Some(answer)
            }
            Err(error) => {
                let (provider, model) = (self.provider.name(), &self.model);
                tracing::warn!(provider, model, "this fallback cannot answer either: {error}");
                None
            }
        }
    }

    /// Returns the bytes of an answer in OpenAI's format, even from a provider with another protocol.
    async fn forwarded(
        &self,
        body: Json,
        stream: bool,
        exchange: &Exchange,
    ) -> Result<PassthroughAnswer, Error> {
        let bytes: Bytes = body.encode().map_err(|error| Error::invalid(error.to_string(), None))?.into();
        if let Some(outline) = Outline::read(&bytes)
            && let Some(forwarded) = self.provider.forward(ForwardRequest {
                body: bytes.clone(),
                outline: &outline,
                stream,
                model: &self.model,
                exchange,
            })
        {
            return forwarded.await;
        }
        let answer = self.provider.chat(Request::new(body, stream)).await?;
        let (kind, body) = match answer {
            Answer::Whole(whole) => {
                let bytes = whole.encode().map_err(|error| Error::Host(error.to_string()))?;
                ("application/json", PassthroughBody::Whole(bytes.into()))
            }
            Answer::Stream(chunks) => {
                let events = chunks.map(|chunk| chunk.map(|chunk| event(&chunk)));
                let done = stream::once(std::future::ready(Ok(Bytes::from_static(b"data: [DONE]\n\n"))));
                ("text/event-stream", PassthroughBody::Stream(events.chain(done).boxed()))
            }
        };
        let provider = self.provider.name().into();
        Ok(PassthroughAnswer { provider, status: 200, content_type: Some(kind.to_owned()), body })
    }
}

/// Records the model that answers in the exchange of the request, if there is one.
fn note(exchange: Option<&Exchange>, provider: &str, model: &str) {
    if let Some(exchange) = exchange {
        exchange.serve(provider, model);
    }
}

/// Encodes a chunk as a server-sent event.
fn event(chunk: &StreamChunk) -> Bytes {
    let mut out = BytesMut::new();
    if chunk.raw.is_empty() {
        sse::write(&mut out, chunk.name.as_deref(), chunk.event.to_string().as_bytes());
    } else {
        sse::write(&mut out, chunk.name.as_deref(), &chunk.raw);
    }
    out.freeze()
}

/// Returns the request with another model. The original request stays unchanged.
fn with_model(body: &Json, model: &str) -> Json {
    let entries = body.entries();
    let renamed = entries.into_iter().map(|(key, value)| match key.as_str() {
        "model" => (key, model.into()),
        _ => (key, value),
    });
    renamed.collect::<Object>().into()
}

/// Returns `true` if another provider might succeed: this one is unavailable, overloaded or broken, or
/// rejects the key or the payment. A mistake of the caller would be rejected by every provider.
fn is_unable(error: &Error) -> bool {
    match error {
        Error::Answered { status, .. } => {
            matches!(status, 401 | 402 | 408 | 409 | 425 | 429) || *status >= 500
        }
        Error::Unanswered { .. } | Error::BreakerOpen { .. } | Error::Provider { .. } => true,
        _ => false,
    }
}

impl Provider for Fallback {
    fn name(&self) -> &str {
        self.first.provider.name()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        self.first.provider.models()
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        Box::pin(self.ask(request))
    }

    fn forward<'a>(
        &'a self,
        request: ForwardRequest<'a>,
    ) -> Option<BoxFuture<'a, Result<PassthroughAnswer, Error>>> {
        let first = self.first.provider.forward(request.clone())?;
        Some(Box::pin(self.pass_on(first, request)))
    }

    fn chooses(&self) -> bool {
        true
    }

    fn open_breakers(&self) -> Vec<OpenState> {
        self.first.provider.open_breakers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_core::chat::{message, response};
    use valvehouse_core::provider::{CannedProvider, Reply};

    fn answered(status: u16) -> Error {
        Error::Answered { provider: "a".into(), status, body: Json::Null, retry_after: None }
    }

    fn fallback(replies: [Reply; 3]) -> ([CannedProvider; 3], Fallback) {
        let mut names = ["a", "b", "c"].into_iter();
        let canned = replies.map(|reply| CannedProvider::named(names.next().unwrap(), [reply]));
        let choice = |canned: &CannedProvider| Choice {
            provider: Arc::new(canned.clone()),
            model: format!("model-{}", canned.name()),
        };
        let others = canned[1..].iter().map(choice).collect();
        (canned.clone(), Fallback::new(choice(&canned[0]), others))
    }

    async fn ask(fallback: &Fallback) -> (Result<String, Error>, Option<String>) {
        let body = Json::parse(br#"{"model":"model-a","seed":1,"messages":[]}"#).unwrap();
        let turn = Turn::default();
        let request = Request { turn: Some(turn.clone()), ..Request::new(body, false) };
        let answer = fallback.chat(request).await;
        let served = turn.exchange().served_by();
        let text = answer.map(|answer| match answer {
            Answer::Whole(whole) => message::text_of(&response::message_of(&whole)).into(),
            Answer::Stream(_) => panic!("it streams"),
        });
        (text, served)
    }

    #[tokio::test]
    async fn the_first_available_fallback_answers_and_is_named() {
        let (canned, all) = fallback(["one".into(), "two".into(), "three".into()]);
        let (text, served) = ask(&all).await;
        assert_eq!((text.unwrap().as_str(), served.as_deref()), ("one", Some("a/model-a")));
        assert!(canned[1].requests().is_empty());

        let (canned, all) = fallback([answered(503).into(), answered(400).into(), "three".into()]);
        let (text, served) = ask(&all).await;
        assert_eq!((text.unwrap().as_str(), served.as_deref()), ("three", Some("c/model-c")));
        assert_eq!(canned[2].requests()[0].to_string(), r#"{"model":"model-c","seed":1,"messages":[]}"#);
        assert_eq!(canned[0].requests()[0].text("model").unwrap(), "model-a");
    }

    #[tokio::test]
    async fn a_client_error_is_not_sent_to_a_fallback() {
        for status in [400, 403, 404, 413, 422] {
            let (canned, all) = fallback([answered(status).into(), "two".into(), "three".into()]);
            assert!(matches!(ask(&all).await.0, Err(Error::Answered { .. })));
            assert!(canned[1].requests().is_empty(), "{status}");
        }
    }

    #[tokio::test]
    async fn if_every_model_fails_the_first_error_is_returned() {
        let down = Error::Unanswered { message: "down".into(), sent: false, timeout: false };
        let (canned, all) = fallback([answered(429).into(), down.into(), answered(500).into()]);
        assert!(matches!(ask(&all).await.0, Err(Error::Answered { status: 429, .. })));
        assert_eq!(canned.map(|canned| canned.requests().len()), [1, 1, 1]);
    }

    #[tokio::test]
    async fn a_passthrough_request_uses_the_bytes_of_the_first_provider() {
        let (_, all) = fallback(["one".into(), Reply::chunks(["o", "ne"]), "three".into()]);
        let body = Json::parse(br#"{"model":"m"}"#).unwrap();
        let forwarded = all.others[0].forwarded(body.deep_clone(), true, &Exchange::default()).await.unwrap();
        assert_eq!(forwarded.content_type.as_deref(), Some("text/event-stream"));
        let bytes: Vec<Bytes> = forwarded.body.into_stream().map(Result::unwrap).collect().await;
        let text = String::from_utf8(bytes.concat()).unwrap();
        assert!(text.starts_with("data: {") && text.ends_with("\n\ndata: [DONE]\n\n"), "{text}");
        assert_eq!(text.matches("data: ").count(), 4);
        let whole = all.others[1].forwarded(body, false, &Exchange::default()).await.unwrap();
        assert_eq!(whole.content_type.as_deref(), Some("application/json"));
    }
}
