//! The canned answers of models, hosts and people in a test environment, in the order in which the test defines
//! them.

use super::places::{Place, Places};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::{self, BoxFuture, FutureExt};
use futures::stream::{self, BoxStream, StreamExt};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use valvehouse_core::chat::{Head, delta, event, message, response};
use valvehouse_core::context::{EmittedEvent, Questions};
use valvehouse_core::error::Error;
use valvehouse_core::provider::{self, Answer, Provider, Reply, Request};
use valvehouse_core::text;
use valvehouse_dialect::call::resources::{ChatRecord, Chats, Models, Question};
use valvehouse_json::Json;
use valvehouse_net::web::{self, Ask, WebError};

/// A model that returns each of its answers once.
#[derive(Debug, Clone, Default)]
pub(super) struct Model(Arc<Mutex<Asking>>);

#[derive(Debug, Default)]
struct Asking {
    answers: VecDeque<Reply>,
    requests: Vec<Json>,
    unanswered: Option<String>,
}

impl Model {
    /// Adds an answer: a text, a list of chunks, a message, or `#{error, status?}`.
    pub(super) fn answers(&self, answer: &Json) {
        let reply = match answer {
            Json::Text(text) => Reply::text(text),
            Json::Array(given) => Reply::chunks(chunks(&given.items())),
            Json::Object(_) if answer.get("error").is_some() => Reply::error(error(answer)),
            Json::Object(_) if answer.get("choices").is_some() => Reply::whole(answer.deep_clone()),
            other => message_reply(message_of(other)),
        };
        self.0.lock().answers.push_back(reply);
    }

    /// Returns its requests so far.
    pub(super) fn requests(&self) -> Vec<Json> {
        self.0.lock().requests.iter().map(Json::deep_clone).collect()
    }

    /// Returns the reason why a request had no answer.
    pub(super) fn unanswered(&self) -> Option<String> {
        self.0.lock().unanswered.clone()
    }

    fn next(&self, request: &Json) -> Result<Reply, Error> {
        let mut asking = self.0.lock();
        asking.requests.push(request.deep_clone());
        let count = asking.requests.len();
        asking.answers.pop_front().ok_or_else(|| {
            let why = format!(
                "the model was called {} and {} canned; add one: canned::model(\"…\")",
                text::count(count, "time"),
                text::count(count - 1, "answer")
            );
            asking.unanswered = Some(why.clone());
            Error::Host(why)
        })
    }

    async fn answer(&self, request: Request) -> Result<Answer, Error> {
        let reply = self.next(&request.body)?;
        provider::CannedProvider::new([reply]).chat(request).await
    }
}

impl Provider for Model {
    fn name(&self) -> &str {
        "canned"
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        future::ready(Ok(Vec::new())).boxed()
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        self.answer(request).boxed()
    }
}

impl Model {
    /// Answers a request of a script.
    async fn ask(self, Question { request, turn, .. }: Question, streams: bool) -> Result<Answer, Error> {
        let own = turn.facts().model.text_or_empty("id");
        if request.get("model").is_none() {
            request.edit("model", own);
        }
        self.answer(Request::new(request, streams)).await
    }
}

/// `llm::chat` and `llm::stream` call the same model.
impl Models for Model {
    fn chat(&self, question: Question) -> BoxFuture<'static, Result<Json, Error>> {
        let asked = self.clone().ask(question, false);
        async move { Ok(Question::answer(&provider::whole(asked.await?).await?)) }.boxed()
    }

    fn stream(&self, question: Question) -> BoxStream<'static, Result<Json, Error>> {
        let events = self.clone().ask(question, true).map(|answer| match answer {
            Ok(Answer::Stream(chunks)) => chunks.map(|chunk| chunk.map(|chunk| chunk.event)).boxed(),
            Ok(Answer::Whole(whole)) => {
                let message = response::message_of(&whole);
                let event = event::of_choice(&whole, &whole.at_path("choices.0"), &message);
                stream::iter([Ok(event)]).boxed()
            }
            Err(error) => stream::iter([Err(error)]).boxed(),
        });
        stream::once(events).flatten().boxed()
    }
}

/// The stored conversations, each of one user.
#[derive(Debug, Clone, Default)]
pub(super) struct StoredChats(Arc<Mutex<Vec<StoredChat>>>);

/// A user, the record of one of their conversations, and its messages.
type StoredChat = (String, ChatRecord, Vec<Json>);

impl StoredChats {
    /// Adds a conversation of a user, as the latest one.
    pub(super) fn add(&self, user: String, id: &str, messages: &Json, now_ms: i64) {
        let messages: Vec<Json> = match messages {
            Json::Text(text) => vec![message::user(text.as_str())],
            list => list.items().iter().map(Json::deep_clone).collect(),
        };
        let record = ChatRecord {
            id: id.to_owned(),
            model: "test".to_owned(),
            length: messages.len() as u64,
            summary: None,
            created_at: now_ms,
            updated_at: now_ms,
        };
        self.0.lock().insert(0, (user, record, messages));
    }
}

impl Chats for StoredChats {
    fn list(
        &self,
        user: String,
        before: Option<i64>,
        limit: u64,
    ) -> BoxFuture<'static, Result<Vec<ChatRecord>, Error>> {
        let all = self.0.lock();
        let own = all.iter().filter(|(owner, ..)| *owner == user).map(|(_, record, _)| record);
        let own = own.filter(|record| before.is_none_or(|before| record.updated_at < before));
        let own: Vec<ChatRecord> = own.take(usize::try_from(limit).unwrap_or(usize::MAX)).cloned().collect();
        future::ready(Ok(own)).boxed()
    }

    fn messages(
        &self,
        user: String,
        id: String,
        from: u64,
        to: u64,
    ) -> BoxFuture<'static, Result<Option<Vec<Json>>, Error>> {
        let all = self.0.lock();
        let found = all.iter().find(|(owner, record, _)| *owner == user && record.id == id);
        let range = found.map(|(.., messages)| {
            let numbered = (0..).zip(messages).filter(|(at, _)| (from..to).contains(at));
            numbered.map(|(_, message)| message.deep_clone()).collect()
        });
        future::ready(Ok(range)).boxed()
    }
}

/// Returns the chunks of a stream in the format of providers; adds an end if there is none.
fn chunks(given: &[Json]) -> Vec<Json> {
    let mut chunks: Vec<Json> = given.iter().map(chunk).collect();
    if !chunks.iter().any(|chunk| delta::finishes(chunk) || chunk.get("error").is_some()) {
        chunks.push(Head::with_id("chatcmpl-canned", "test").chunk(Json::object(), Some("stop")));
    }
    chunks
}

/// Converts a text, a delta or a whole event into an event.
fn chunk(chunk: &Json) -> Json {
    match chunk {
        Json::Object(_) if chunk.get("choices").is_none() && chunk.get("error").is_none() => {
            let (delta, why) = (chunk.deep_clone(), chunk.text("finish_reason"));
            delta.remove("finish_reason");
            numbered(&delta);
            Head::with_id("chatcmpl-canned", "test").chunk(delta, why.as_deref())
        }
        other => other.deep_clone(),
    }
}

/// Creates the reply of a message; its keys `usage` and `finish_reason` belong to the whole answer.
fn message_reply(message: Json) -> Reply {
    let (usage, why) = (message.remove("usage"), message.remove("finish_reason"));
    if usage.is_none() && why.is_none() {
        return Reply::message(message);
    }
    let natural = response::natural_finish(&message);
    let why = why.and_then(|why| why.as_str().map(str::to_owned)).unwrap_or_else(|| natural.to_owned());
    let completion = Head::with_id("chatcmpl-canned", "test").completion(message, &why);
    completion.put("usage", usage);
    Reply::whole(completion)
}

/// Adds the index to each tool call of a delta.
fn numbered(delta: &Json) {
    let calls = delta.list("tool_calls");
    for (index, call) in calls.iter().enumerate() {
        written_out(call, index);
        if call.get("index").is_none() {
            call.edit("index", index);
        }
    }
}

/// Converts a test's message: the role may be missing, and calls may have the short form.
fn message_of(given: &Json) -> Json {
    let message = match given {
        Json::Object(_) => given.deep_clone(),
        other => message::assistant(other.to_string()),
    };
    if message.get("role").is_none() {
        let rest = message.entries();
        let entries = [("role".into(), "assistant".into())].into_iter().chain(rest);
        return message_of(&Json::Object(entries.collect()));
    }
    if message.get("content").is_none() {
        message.put("content", Json::Null);
    }
    for (index, call) in message.list("tool_calls").iter().enumerate() {
        written_out(call, index);
    }
    message
}

/// Converts `#{ name, arguments }` into the format of providers.
fn written_out(call: &Json, index: usize) {
    if call.get("function").is_some() {
        return;
    }
    let arguments = match call.remove("arguments") {
        None => "{}".into(),
        Some(Json::Text(text)) => text,
        Some(other) => other.to_string().into(),
    };
    let name = Json::from(call.remove("name"));
    if call.get("id").is_none() {
        call.edit("id", format!("call_{}", index + 1));
    }
    call.edit("type", "function");
    call.edit("function", Json::from([("name", name), ("arguments", arguments.into())]));
}

fn error(answer: &Json) -> Error {
    let message = answer.text("error").unwrap_or_else(|| "the model failed".into());
    match answer.get("status").and_then(|status| status.as_i64()) {
        Some(status) => Error::Answered {
            provider: "canned".into(),
            status: u16::try_from(status).unwrap_or(500),
            body: Json::from([("error", Json::from([("message", message.into())]))]),
            retry_after: None,
        },
        None => Error::Provider { message: message.as_str().into(), timeout: false },
    }
}

/// Answers a request to another host. The first defined of several matching places answers.
pub(super) fn respond(hosts: &Places, ask: &Ask) -> Result<web::WebResponse, WebError> {
    let request = ask.to_json();
    let text = |name: &str| request.text_or_empty(name);
    let (method, url) = (text("method"), text("url"));
    // Null if the body is not JSON.
    request.put("json", Json::parse(text("body").as_bytes()).ok());
    let rank = |number: usize, place: &Place| {
        let own = place.method.as_deref();
        // A URL matches with or without the query of the request.
        let is_meant = place.is_meant(&url, '?') && own.is_none_or(|own| own.eq_ignore_ascii_case(&method));
        is_meant.then_some(usize::MAX - number)
    };
    let answer = hosts.next(request.deep_clone(), rank).ok_or_else(|| {
        WebError::new(format!(
            "missing canned answer for {method} {url}; add it to the test: canned::http(\"{url}\", #{{ \
             json: … }})"
        ))
    })?;
    read(&answer)
}

/// Reads `#{ status, headers, text | json | base64 }`, `#{ error }`, or a text.
fn read(answer: &Json) -> Result<web::WebResponse, WebError> {
    if let Some(error) = answer.text("error").filter(|_| answer.get("status").is_none()) {
        return Err(WebError::new(error));
    }
    let status = answer.get("status").and_then(|status| status.as_i64());
    let status = status.and_then(|status| u16::try_from(status).ok()).unwrap_or(200);
    let mut headers: Vec<(String, String)> = Vec::new();
    for (name, value) in answer.field("headers").entries() {
        headers.push((
            name.to_lowercase().into(),
            value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        ));
    }
    let body = match (answer, answer.get("json"), answer.text("text")) {
        (_, None, None) if answer.text("base64").is_some() => {
            let body = STANDARD.decode(answer.text_or_empty("base64").as_bytes());
            let body = body
                .map_err(|why| WebError::new(format!("`base64` of the answer is not valid base64: {why}")))?;
            return Ok(web::WebResponse { status, headers, body: Bytes::from(body) });
        }
        (Json::Text(text), ..) => text.to_string(),
        (_, Some(json), _) => {
            if !headers.iter().any(|(name, _)| name == "content-type") {
                headers.push(("content-type".into(), "application/json".into()));
            }
            json.to_string()
        }
        (_, None, None) => String::new(),
        (_, None, Some(text)) => text.into(),
    };
    Ok(web::WebResponse { status, headers, body: Bytes::from(body) })
}

/// People who receive events and answer questions.
#[derive(Clone, Default)]
pub(super) struct People(Arc<Mutex<Listening>>);

#[derive(Default)]
struct Listening {
    answers: VecDeque<Json>,
    seen: Vec<Json>,
}

impl People {
    pub(super) fn answer(&self, answer: Json) {
        self.0.lock().answers.push_back(answer);
    }

    pub(super) fn seen(&self) -> Vec<Json> {
        self.0.lock().seen.iter().map(Json::deep_clone).collect()
    }

    /// Receives an event; a question is answered immediately or never.
    pub(super) fn on_event(&self, event: &EmittedEvent, questions: &Questions) {
        let (event, id) = (event.0.deep_clone(), event.0.text("id"));
        event.remove("id");
        let mut listening = self.0.lock();
        listening.seen.push(event);
        let Some(id) = id else { return };
        match listening.answers.pop_front() {
            Some(answer) => questions.answer(&id, answer),
            None => questions.dismiss(&id),
        };
    }
}
