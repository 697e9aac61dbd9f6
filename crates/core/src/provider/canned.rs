//! A provider with predefined replies, for tests, examples and demonstrations.

use super::contract::{Answer, Provider, Request, StreamChunk};
use crate::chat::{Fold, Head, Message, message, request, response, split};
use crate::error::Error;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream;
use parking_lot::Mutex;
use std::sync::Arc;
use valvehouse_json::Json;

/// A provider that returns its replies in order and then repeats the last one. Clones share one provider, so a
/// test can retain one to read [`CannedProvider::requests`].
///
/// ```
/// use valvehouse_core::provider::{CannedProvider, Reply};
/// let provider = CannedProvider::new([Reply::text("hello"), Reply::chunks(["one ", "two"])]);
/// assert!(provider.requests().is_empty());
/// ```
#[derive(Clone)]
pub struct CannedProvider(Arc<Inner>);

struct Inner {
    name: String,
    replies: Vec<Reply>,
    requests: Mutex<Vec<Json>>,
}

/// A predefined reply.
#[derive(Debug, Clone)]
pub struct Reply(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Message(Json),
    Whole(Json),
    Chunks { chunks: Vec<Json>, then: Option<Error> },
    Error(Error),
}

impl Reply {
    /// Creates a reply with an assistant message of this text.
    pub fn text(text: &str) -> Self {
        Self::message(message::assistant(text))
    }

    /// Creates a reply with a message, which may have tool calls.
    pub fn message(message: Json) -> Self {
        Self(Kind::Message(message))
    }

    /// Creates a reply that calls a tool with these arguments.
    pub fn tool_call(name: &str, args: impl Into<Json>) -> Self {
        let function = [("name", name.into()), ("arguments", args.into().to_string().into())];
        let call = [
            ("id", format!("call_{}", uuid::Uuid::new_v4().simple()).into()),
            ("type", "function".into()),
            ("function", Json::from(function)),
        ];
        let message = message::assistant("");
        // A new object accepts any value.
        message.put("content", Json::Null);
        message.put("tool_calls", vec![Json::from(call)]);
        Self::message(message)
    }

    /// Creates a reply from a complete `chat.completion`, which is returned unchanged.
    pub fn whole(completion: Json) -> Self {
        Self(Kind::Whole(completion))
    }

    /// Creates a streamed reply: each string is a delta of content, each object a complete event. If there are
    /// only strings, a chunk with `finish_reason: "stop"` follows.
    pub fn chunks(chunks: impl IntoIterator<Item = impl Into<Json>>) -> Self {
        Self(Kind::Chunks { chunks: chunks.into_iter().map(Into::into).collect(), then: None })
    }

    /// Creates a streamed reply that fails after these chunks.
    pub fn chunks_then_error(chunks: impl IntoIterator<Item = impl Into<Json>>, error: Error) -> Self {
        Self(Kind::Chunks { chunks: chunks.into_iter().map(Into::into).collect(), then: Some(error) })
    }

    /// Creates a reply that fails.
    pub fn error(error: Error) -> Self {
        Self(Kind::Error(error))
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}
impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self::text(&text)
    }
}
impl From<Message> for Reply {
    fn from(message: Message) -> Self {
        Self::message(message.into())
    }
}
impl From<Error> for Reply {
    fn from(error: Error) -> Self {
        Self::error(error)
    }
}

impl CannedProvider {
    /// Creates a provider named `canned` with these replies. Without replies, each call fails.
    pub fn new(replies: impl IntoIterator<Item = impl Into<Reply>>) -> Self {
        Self::named("canned", replies)
    }

    /// Creates a provider with another name.
    pub fn named(name: &str, replies: impl IntoIterator<Item = impl Into<Reply>>) -> Self {
        let replies = replies.into_iter().map(Into::into).collect();
        Self(Arc::new(Inner { name: name.to_owned(), replies, requests: Mutex::default() }))
    }

    /// Returns copies of the request bodies so far.
    pub fn requests(&self) -> Vec<Json> {
        self.0.requests.lock().iter().map(Json::deep_clone).collect()
    }

    fn answer(&self, request: &Request) -> Result<Answer, Error> {
        let count = {
            let mut requests = self.0.requests.lock();
            requests.push(request.body.deep_clone());
            requests.len()
        };
        let replies = &self.0.replies;
        let Some(reply) = replies.get(count - 1).or(replies.last()) else {
            return Err(Error::Host(format!("provider {} has no replies", self.0.name)));
        };
        let model = request.body.text("model").unwrap_or_else(|| "canned".into());
        let head = Head::with_id(format!("chatcmpl-{}-{count}", self.0.name), model);
        let (chunks, then) = match &reply.0 {
            Kind::Error(error) => return Err(error.clone()),
            Kind::Whole(completion) => return Ok(given(&completion.deep_clone(), request)),
            Kind::Message(message) => {
                let completion = head.completion(message.deep_clone(), response::natural_finish(message));
                let messages = request.body.list("messages");
                // A new object accepts any value.
                completion.put("usage", response::word_usage(&messages, message));
                return Ok(given(&completion, request));
            }
            Kind::Chunks { chunks, then } => (events(chunks, then.is_none(), &head), then.clone()),
        };
        if request.stream {
            return Ok(streamed(chunks, then));
        }
        let mut fold = Fold::default();
        chunks.iter().for_each(|chunk| fold.push(chunk));
        then.map_or_else(|| Ok(Answer::Whole(fold.finish())), Err)
    }
}

impl Provider for CannedProvider {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        let model = Json::from([("id", self.0.name.as_str().into()), ("object", "model".into())]);
        Box::pin(std::future::ready(Ok(vec![model])))
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        Box::pin(std::future::ready(self.answer(&request)))
    }
}

/// Returns a complete answer, streamed if the request asks for it.
fn given(completion: &Json, request: &Request) -> Answer {
    if request.stream {
        streamed(split(completion, request::wants_usage(&request.body)), None)
    } else {
        Answer::Whole(completion.clone())
    }
}

fn streamed(events: Vec<Json>, then: Option<Error>) -> Answer {
    let chunks = events.into_iter().map(|event| Ok(StreamChunk::new(event))).chain(then.map(Err));
    Answer::Stream(stream::iter(chunks.collect::<Vec<_>>()).boxed())
}

fn events(chunks: &[Json], complete: bool, head: &Head) -> Vec<Json> {
    let mut events: Vec<Json> = chunks
        .iter()
        .map(|chunk| match chunk {
            Json::Text(text) => head.chunk(Json::from([("content", text.clone().into())]), None),
            event => event.deep_clone(),
        })
        .collect();
    if complete && chunks.iter().all(|chunk| chunk.as_str().is_some()) {
        events.push(head.chunk(Json::object(), Some("stop")));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(provider: &CannedProvider, body: &str, stream: bool) -> Result<Answer, Error> {
        let body = Json::parse(body.as_bytes()).unwrap();
        futures::executor::block_on(provider.chat(Request::new(body, stream)))
    }

    fn text(answer: Answer) -> String {
        match answer {
            Answer::Whole(whole) => message::text_of(&response::message_of(&whole)).into(),
            Answer::Stream(chunks) => {
                let chunks: Vec<_> = futures::executor::block_on(chunks.collect());
                let mut fold = Fold::default();
                chunks.into_iter().for_each(|chunk| fold.push(&chunk.unwrap().event));
                assert!(fold.is_finished());
                fold.text().to_owned()
            }
        }
    }

    #[test]
    fn canned_replies_come_in_order_and_the_last_one_repeats() {
        let provider = CannedProvider::new([Reply::text("one"), Reply::chunks(["t", "wo"])]);
        for (stream, expected) in [(true, "one"), (false, "two"), (true, "two")] {
            assert_eq!(text(ask(&provider, r#"{"model":"m"}"#, stream).unwrap()), expected);
        }
        assert_eq!(provider.requests().len(), 3);
    }

    #[test]
    fn the_canned_provider_records_requests_unchanged() {
        let provider = CannedProvider::new(["hi"]);
        let body = Json::from([("model", "m".into())]);
        let answer = provider.chat(Request::new(body.clone(), false));
        futures::executor::block_on(answer).unwrap();
        body.set("model", "changed").unwrap();
        assert_eq!(provider.requests()[0].text("model").unwrap(), "m");
    }

    #[test]
    fn the_canned_provider_fails_before_and_within_an_answer() {
        let broken = Error::Provider { message: "gone".into(), timeout: false };
        let provider =
            CannedProvider::new([Reply::error(broken.clone()), Reply::chunks_then_error(["a"], broken)]);
        assert!(ask(&provider, "{}", false).is_err());
        let Ok(Answer::Stream(chunks)) = ask(&provider, "{}", true) else { panic!("no stream") };
        let chunks: Vec<_> = futures::executor::block_on(chunks.collect());
        assert!(chunks[0].is_ok() && chunks[1].is_err() && chunks.len() == 2);
        assert!(ask(&CannedProvider::new([""; 0]), "{}", false).is_err());
    }
}
