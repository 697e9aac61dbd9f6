//! The provider for OpenAI's chat API: requests are sent unchanged, and answers are classified by their
//! content.
//!
//! The reader of a stream reports errors among the events and detects an incomplete end.

use super::quirks::{Quirks, with_lost_signatures};
use crate::origin::{Origin, Shape, is_error};
use crate::relay;
use crate::service::{LIST_TIME, Reads, Service, drain, encoded, read};
use bytes::Bytes;
use compact_str::CompactString;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use memchr::memmem::{self, Finder};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;
use valvehouse_config::Secret;
use valvehouse_core::chat::{CallStream, call, delta, plain, tool_results};
use valvehouse_core::context::Exchange;
use valvehouse_core::error::Error;
use valvehouse_core::provider::{
    Answer, ForwardRequest, PassthroughAnswer, Provider, RelayRequest, RelayResponse, Request, StreamChunk,
    whole_within,
};
use valvehouse_json::{Json, Object};
use valvehouse_net::sse::{Parser, SseEvent};
use valvehouse_net::{Address, Client, HttpCall, Response};

/// A service with OpenAI's chat API, such as OpenAI, vLLM, Groq, OpenRouter or Ollama's `/v1`.
///
/// Unknown fields pass unchanged in both directions.
#[derive(Clone)]
pub struct OpenAi {
    pub(crate) service: Service,
    chat: Address,
    quirks: &'static Quirks,
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
        let quirks = Quirks::of("", chat.host_str().unwrap_or(""));
        Ok(Self { service, chat: chat.into(), quirks })
    }

    /// Sets the kind of service in the configuration, which may expect more than OpenAI's own.
    #[must_use]
    pub fn of_kind(mut self, kind: &str) -> Self {
        let chat = self.service.endpoint(&["chat"]);
        self.quirks = Quirks::of(kind, chat.host_str().unwrap_or(""));
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
        let mut response = self.post_chat(self.encode(&request)?, request.stream, exchange).await?;
        match self.shape(&mut response).await? {
            Shape::Json if request.stream => self.with_choices(response).await.map(Answer::Whole),
            Shape::Json => self.whole(response).await.map(Answer::Whole),
            Shape::Events => {
                let memory = response.memory();
                let calls = CallStream::new(&request.body.field("tools"));
                let chunks = chunks(self.service.origin.clone(), response.into_stream(), calls);
                if request.stream {
                    return Ok(Answer::Stream(chunks));
                }
                whole_within(chunks, memory.as_deref()).await.map(Answer::Whole)
            }
            Shape::Other => Err(self.unexpected(response).await),
        }
    }

    pub(super) async fn whole(&self, response: Response) -> Result<Json, Error> {
        let answer = self.service.parse(&response.whole().await?)?;
        if answer.get("choices").is_some_and(|choices| !choices.is_empty()) {
            for choice in answer.list("choices") {
                call::tidy_all(&choice.field("message"))
                    .map_err(|error| self.service.origin.bad_call(error))?;
            }
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

    /// Returns a complete answer to a request for a stream, which must contain a choice.
    pub(super) async fn with_choices(&self, response: Response) -> Result<Json, Error> {
        let answer = self.whole(response).await?;
        match answer.get("choices").is_some_and(|choices| !choices.is_empty()) {
            true => Ok(answer),
            false => Err(self.service.origin.cut("it has no choices")),
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
        if self.quirks.expects_extras {
            return None;
        }
        Some(Box::pin(async move {
            let ForwardRequest { body, stream, exchange, .. } = request;
            let body = self.switched_off(body)?;
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

impl OpenAi {
    /// Encodes the body of a request. The request itself stays unchanged, because it may be retried.
    fn encode(&self, request: &Request) -> Result<Bytes, Error> {
        let Json::Object(body) = &tool_results::as_texts(&plain(&request.body)) else {
            return Err(Error::invalid("the request body must be a JSON object", None));
        };
        let mut entries = body.entries();
        self.quirks.switch_off(&mut entries);
        if self.quirks.expects_extras {
            self.mark_lost(&mut entries, request);
        }
        encode(entries, request)
    }

    /// Marks lost signatures in a request, and reports them.
    fn mark_lost(&self, entries: &mut [(CompactString, Json)], request: &Request) {
        let model = request.body.text_or_empty("model");
        let Some((_, messages)) = entries.iter_mut().find(|(key, _)| key == "messages") else { return };
        if let Some(marked) = with_lost_signatures(&model, &messages.items()) {
            *messages = marked.into();
            if let Some(turn) = &request.turn {
                turn.leave_out(self.name(), "thought_signature");
            }
        }
    }

    /// Returns an encoded body with the service's own field for no thinking. Most bodies are not parsed.
    fn switched_off(&self, body: Bytes) -> Result<Bytes, Error> {
        if !self.quirks.may_switch_off() || memmem::find(&body, b"\"reasoning_effort\"").is_none() {
            return Ok(body);
        }
        let parsed = Json::parse(&body).map_err(|error| Error::invalid(error.to_string(), None))?;
        let mut entries = parsed.entries();
        self.quirks.switch_off(&mut entries);
        encoded(&entries.into_iter().collect::<Object>().into())
    }
}

fn encode(mut entries: Vec<(CompactString, Json)>, request: &Request) -> Result<Bytes, Error> {
    match entries.iter_mut().find(|(key, _)| key == "stream") {
        Some((_, stream)) => *stream = request.stream.into(),
        None if request.stream => entries.push(("stream".into(), true.into())),
        None => {}
    }
    if !request.stream {
        // Services reject the field if the answer is not streamed.
        entries.retain(|(key, _)| key != "stream_options");
    }
    let body: Json = entries.into_iter().collect::<Object>().into();
    encoded(&body)
}

/// Converts the events of a streamed answer to chunks. An error is the last item.
pub(super) fn chunks(
    origin: Origin,
    body: BoxStream<'static, Result<Bytes, Error>>,
    calls: CallStream,
) -> BoxStream<'static, Result<StreamChunk, Error>> {
    let parser = Parser::default();
    read(Reader { origin, body, parser, ended: false, is_done: false, choices: BTreeMap::new(), calls })
}

struct Reader {
    origin: Origin,
    body: BoxStream<'static, Result<Bytes, Error>>,
    parser: Parser,
    ended: bool,
    /// Set once `[DONE]` was received.
    is_done: bool,
    calls: CallStream,
    /// The choices by index; `true` once their finish reason was received.
    choices: BTreeMap<i64, bool>,
}

/// Finds events that may have tool calls.
static CALLS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"tool_calls\""));

enum Line {
    Chunk(StreamChunk),
    Done,
    Nothing,
}

impl Reads for Reader {
    async fn next(&mut self) -> Option<Result<StreamChunk, Error>> {
        loop {
            if self.is_done {
                drain(&mut self.body).await;
                return self.done().map(Err);
            }
            match self.parser.next() {
                Some(Ok(event)) => match self.read(event) {
                    Ok(Line::Chunk(chunk)) => return Some(Ok(chunk)),
                    Ok(Line::Done) => {
                        self.is_done = true;
                        // A service that sends no finish reasons may leave calls open.
                        match self.calls.rest() {
                            Ok(rest) => {
                                if let Some(rest) = rest {
                                    return Some(Ok(StreamChunk::new(rest)));
                                }
                            }
                            Err(error) => return Some(Err(self.origin.bad_call(error))),
                        }
                    }
                    Ok(Line::Nothing) => {}
                    Err(error) => return Some(Err(error)),
                },
                Some(Err(error)) => {
                    return Some(Err(self
                        .origin
                        .error(&format!("sent a stream that cannot be read: {error}"))));
                }
                None if self.ended => return self.end().map(Err),
                None => match self.body.next().await {
                    Some(Ok(bytes)) => self.parser.push(&bytes),
                    Some(Err(error)) if self.is_complete() => {
                        tracing::debug!("ignored data after the end of a response: {error}");
                        return None;
                    }
                    Some(Err(error)) => return Some(Err(error)),
                    None => {
                        self.ended = true;
                        self.parser.finish();
                    }
                },
            }
        }
    }
}

impl Reader {
    fn read(&mut self, event: SseEvent) -> Result<Line, Error> {
        match event.data.trim_ascii() {
            b"" => return Ok(Line::Nothing),
            b"[DONE]" => return Ok(Line::Done),
            _ => {}
        }
        let json = self.origin.parse_part("an event", &event.data, self.ended)?;
        if event.name.as_deref() == Some("error") || is_error(&json) {
            return Err(self.origin.in_band(&json));
        }
        if let Some(api) = other_api(&json) {
            let what =
                format!("sent an event of {api} instead of a chat completion; check its base_url and kind");
            return Err(self.origin.error(&what));
        }
        self.note_choices(&json);
        let may_call = CALLS.find(&event.data).is_some() || self.calls.is_holding();
        let is_changed =
            may_call && self.calls.correct(&json).map_err(|error| self.origin.bad_call(error))?;
        let raw = if is_changed { Bytes::new() } else { event.data };
        Ok(Line::Chunk(StreamChunk::received(raw, json, event.name)))
    }

    fn note_choices(&mut self, event: &Json) {
        let Some(Json::Array(choices)) = event.get("choices") else { return };
        choices.with(|choices| {
            for (place, choice) in choices.iter().enumerate() {
                let index = choice.get("index").and_then(|index| index.as_i64()).unwrap_or(place as i64);
                *self.choices.entry(index).or_default() |= delta::is_last(choice);
            }
        });
    }

    /// Returns `true` if every choice has a finish reason. A missing `[DONE]` is ignored then.
    fn is_complete(&self) -> bool {
        !self.choices.is_empty() && self.choices.values().all(|ended| *ended)
    }

    /// Returns the error of a stream that ended with `[DONE]`. If no choice has a finish reason, the service
    /// never sends them, and all choices are complete. If only some choices have one, the others are
    /// incomplete.
    fn done(&self) -> Option<Error> {
        if self.choices.is_empty() {
            return Some(self.origin.cut("the stream ended without a response"));
        }
        let mut open = self.choices.iter().filter(|(_, ended)| !**ended).map(|(index, _)| index);
        let first = open.next()?;
        let is_habit = open.count() + 1 == self.choices.len();
        (!is_habit).then(|| self.origin.cut(&format!("choice {first} ended without a finish_reason")))
    }

    fn end(&self) -> Option<Error> {
        (!self.is_complete())
            .then(|| self.origin.cut("the stream ended without a finish_reason and without [DONE]"))
    }
}

/// Returns the API of an event, if it is another API than chat completions.
fn other_api(event: &Json) -> Option<&'static str> {
    let kind = event.text("type").filter(|_| event.get("choices").is_none())?;
    match kind.split(['.', '_']).next() {
        Some("message" | "content") => Some("Anthropic's Messages"),
        Some("response") => Some("OpenAI's Responses"),
        _ => None,
    }
}
