//! The service as a provider: requests go out as they are, answers are told apart by what they are.

use super::stream;
use crate::anthropic;
use crate::config::Secret;
use crate::fault::Fault;
use crate::json::{Json, Object};
use crate::llm::origin::{Origin, Shape, is_error};
use crate::llm::{Answer, Forwarded, Provider, Request};
use crate::net::{Call, Client, Response, shown};
use bytes::Bytes;
use futures::future::BoxFuture;
use std::fmt;
use std::time::Duration;
use url::Url;

/// A list of models is no work; who takes longer has other problems.
const LIST_TIME: Duration = Duration::from_secs(30);

/// A service with OpenAI's chat API: OpenAI itself, vLLM, Groq, OpenRouter, Ollama's `/v1`, …
///
/// Unknown fields travel along untouched, both ways.
#[derive(Clone)]
pub struct OpenAi {
    base_url: Url,
    headers: Vec<(String, Secret)>,
    client: Client,
    pub(super) origin: Origin,
}

impl OpenAi {
    /// A service under its configured name. `base_url` is what `/chat/completions` is appended to:
    /// `https://api.openai.com/v1`. A query (`?api-version=…`) is kept.
    pub fn new(name: &str, base_url: &str, client: Client) -> Result<Self, Fault> {
        let url = Url::parse(base_url.trim()).map_err(|error| wrong_url(name, &error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.cannot_be_a_base() {
            return Err(wrong_url(name, "it does not begin with http:// or https://"));
        }
        let origin = Origin { provider: name.to_owned(), address: shown(&url), key: None };
        Ok(Self { base_url: url, headers: Vec::new(), client, origin })
    }

    /// The same with a key, sent as `authorization: Bearer …`.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<Secret>) -> Self {
        self.origin.key = Some(key.into()).filter(|key| !key.is_empty());
        self
    }

    /// The same with one more header on every call; it may be a key too (`api-key`).
    #[must_use]
    pub fn with_header(mut self, name: &str, value: impl Into<Secret>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    fn endpoint(&self, steps: &[&str]) -> Url {
        let mut url = self.base_url.clone();
        // Refused only by addresses that cannot be a base, which `new` does not let in.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(steps);
        }
        url
    }

    async fn send(&self, call: Call) -> Result<Response, Fault> {
        let call = call.provider(&self.origin.provider);
        let call = self.headers.iter().fold(call, |call, (name, value)| call.secret_header(name, value));
        let call = match &self.origin.key {
            Some(key) => call.bearer(key),
            None => call,
        };
        self.client.send(call).await
    }

    async fn post_chat(&self, body: Bytes, stream: bool) -> Result<Response, Fault> {
        let accept = if stream { "text/event-stream" } else { "application/json" };
        let call = Call::post(self.endpoint(&["chat", "completions"]), body)
            .header("content-type", "application/json")
            .header("accept", accept);
        self.send(call).await
    }

    async fn ask(&self, request: Request) -> Result<Answer, Fault> {
        let mut response = self.post_chat(encode(&request)?, request.stream).await?;
        if !(200..300).contains(&response.status) {
            return Err(self.origin.refused(response).await);
        }
        match self.shape(&mut response).await? {
            Shape::Json => self.whole(response).await.map(Answer::Whole),
            Shape::Events => {
                let pieces = stream::pieces(self.origin.clone(), response.into_stream());
                if request.stream {
                    return Ok(Answer::Stream(pieces));
                }
                stream::whole(pieces).await.map(Answer::Whole)
            }
            Shape::Other => Err(self.unexpected(response).await),
        }
    }

    pub(super) async fn whole(&self, response: Response) -> Result<Json, Fault> {
        let answer = self.parse(&response.whole().await?)?;
        if answer.get("choices").is_some_and(|choices| !choices.is_empty()) {
            return Ok(answer);
        }
        if is_error(&answer) {
            return Err(self.origin.in_band(&answer));
        }
        match answer.get("choices") {
            Some(Json::Array(_)) => Ok(answer),
            _ => Err(self.origin.fault(&format!(
                "answered without `choices`; it begins: {}",
                self.origin.excerpt(answer.to_string().as_bytes())
            ))),
        }
    }

    pub(super) fn parse(&self, body: &Bytes) -> Result<Json, Fault> {
        Json::parse(body).map_err(|error| {
            let start = self.origin.excerpt(body);
            self.origin.fault(&format!("answered what is no valid JSON: {error}; it begins: {start}"))
        })
    }

    pub(super) async fn unexpected(&self, response: Response) -> Fault {
        let kind = match response.media_type() {
            kind if kind.is_empty() => "something without a content-type".to_owned(),
            kind => kind,
        };
        let (start, _) = response.start(4096).await.unwrap_or_default();
        self.origin.fault(&format!(
            "answered {kind} instead of a chat answer; is base_url right (it usually ends in /v1)? It begins: {}",
            self.origin.excerpt(&start)
        ))
    }

    async fn list(&self) -> Result<Vec<Json>, Fault> {
        let call =
            Call::get(self.endpoint(&["models"])).header("accept", "application/json").within(LIST_TIME);
        let mut response = self.send(call).await?;
        if !(200..300).contains(&response.status) {
            return Err(self.origin.refused(response).await);
        }
        if self.shape(&mut response).await? == Shape::Other && response.media_type() == "text/html" {
            return Err(self.unexpected(response).await);
        }
        let answer = self.parse(&response.whole().await?)?;
        // Some services give the bare list.
        let list = answer.get("data").unwrap_or(answer);
        Ok(list.items().into_iter().filter(|model| model.text("id").is_some()).collect())
    }
}

/// Without headers and the address as it was given: both may hold a key.
impl fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenAi({} at {})", self.origin.provider, self.origin.address)
    }
}

impl Provider for OpenAi {
    fn name(&self) -> &str {
        &self.origin.provider
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Fault>> {
        Box::pin(self.list())
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Fault>> {
        Box::pin(self.ask(request))
    }

    fn forward(&self, body: Bytes, stream: bool) -> Option<BoxFuture<'_, Result<Forwarded, Fault>>> {
        Some(Box::pin(async move {
            let response = self.post_chat(body, stream).await?;
            // Errors are told in our words: a service may repeat our key in its own.
            if !(200..300).contains(&response.status) {
                return Err(self.origin.refused(response).await);
            }
            self.forwarded(response, stream).await
        }))
    }
}

fn wrong_url(name: &str, why: &str) -> Fault {
    Fault::Host(format!(
        "the base_url of provider {name} is no address: {why}; it looks like https://api.openai.com/v1"
    ))
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
    body.encode().map(Bytes::from).map_err(|error| Fault::invalid(format!("the request is {error}"), None))
}
