//! Tests against a local server that answers as Anthropic does.

use super::Anthropic;
use crate::answer_stream::chunks;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::chat::{Fold, ModelCall, message, response};
use valvehouse_core::error::Error;
use valvehouse_core::provider::{Answer, Provider, Request, StreamChunk};
use valvehouse_json::Json;
use valvehouse_net::Client;
use valvehouse_testkit::recordings::recorded;
use valvehouse_wire::messages::stream::MessagesReader;

#[derive(Clone)]
struct ReceivedRequest {
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

struct Server {
    provider: Anthropic,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

/// Starts a service that always returns the same answer, and creates a provider for it with the key
/// `sk-test`.
async fn service(answer: impl Fn() -> Response + Clone + Send + Sync + 'static) -> Server {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = requests.clone();
    let handler = move |uri: Uri, headers: HeaderMap, body: Bytes| {
        seen.lock().push(ReceivedRequest { uri, headers, body });
        std::future::ready(answer())
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(handler)).await.unwrap() });
    let provider = Anthropic::new("claude", &format!("http://{address}"), Client::new().unwrap())
        .unwrap()
        .with_key("sk-test");
    Server { provider, requests }
}

fn answer(kind: &'static str, body: impl Into<Body>) -> Response {
    ([("content-type", kind)], body.into()).into_response()
}

fn events(body: impl Into<Body>) -> Response {
    answer("text/event-stream; charset=utf-8", body)
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

impl Server {
    async fn chat(&self, stream: bool) -> Result<Answer, Error> {
        let body = json(
            r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream_options":{"include_usage":true},"betas":["b1"]}"#,
        );
        self.provider.chat(Request::new(body, stream)).await
    }

    async fn whole(&self, stream: bool) -> Json {
        match self.chat(stream).await {
            Ok(Answer::Whole(whole)) => whole,
            Ok(Answer::Stream(_)) => panic!("it streams"),
            Err(error) => panic!("{error}"),
        }
    }

    async fn error(&self) -> Error {
        match self.chat(false).await {
            Err(error) => error,
            Ok(_) => panic!("it answered"),
        }
    }

    async fn chunks(&self) -> Vec<Result<StreamChunk, Error>> {
        match self.chat(true).await {
            Ok(Answer::Stream(chunks)) => chunks.collect().await,
            Ok(Answer::Whole(whole)) => panic!("{whole}"),
            Err(error) => panic!("{error}"),
        }
    }

    async fn folded(&self) -> Json {
        let mut fold = Fold::default();
        self.chunks().await.into_iter().for_each(|chunk| fold.push(&chunk.unwrap().event));
        fold.finish()
    }

    /// Returns the number of chunks and the error that ends the stream.
    async fn last_error(&self) -> (usize, Error) {
        let mut chunks = self.chunks().await;
        match chunks.pop() {
            Some(Err(error)) => (chunks.into_iter().map(Result::unwrap).count(), error),
            other => panic!("{other:?}"),
        }
    }
}

fn text_of(completion: &Json) -> String {
    message::text_of(&response::message_of(completion)).into()
}

const WHOLE: &str = r#"{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hello"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}"#;
const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"m\",\"usage\":{\"input_tokens\":1}}   }\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\n";
const HELLO: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n";
const END: &str = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n";
const STOP: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

#[tokio::test]
async fn a_request_is_sent_in_the_format_of_anthropic_with_its_headers() {
    let server = service(|| answer("application/json", WHOLE)).await;
    let whole = server.whole(false).await;
    assert_eq!(text_of(&whole), "hello");
    assert_eq!(whole.at_path("usage.total_tokens").as_i64(), Some(3));
    let request = server.requests.lock()[0].clone();
    assert_eq!(request.uri.path(), "/v1/messages");
    for (name, value) in
        [("x-api-key", "sk-test"), ("anthropic-version", "2023-06-01"), ("anthropic-beta", "b1")]
    {
        assert_eq!(request.headers[name], value);
    }
    assert!(request.headers.get("authorization").is_none());
    assert_eq!(
        request.body,
        r#"{"model":"m","max_tokens":8192,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"stream":false}"#
    );
}

#[tokio::test]
async fn a_stream_arrives_in_chunks_with_the_usage_at_the_end() {
    let server = service(|| events([START, HELLO, END, STOP].concat())).await;
    let folded_answer = server.folded().await;
    assert_eq!(
        (text_of(&folded_answer), folded_answer.at_path("usage.prompt_tokens").as_i64()),
        ("hello".into(), Some(1))
    );
    assert_eq!(
        json(std::str::from_utf8(&server.requests.lock()[0].body).unwrap()).get("stream"),
        Some(true.into())
    );
    // Other line ends, no last event, or no last line end.
    let crlf = [START, HELLO, END.trim_end()].concat().replace('\n', "\r\n");
    assert_eq!(text_of(&service(move || events(crlf.clone())).await.folded().await), "hello");
    // An answer to a request for the other form.
    let whole = service(|| events([START, HELLO, END].concat())).await.whole(false).await;
    assert_eq!(text_of(&whole), "hello");
    let whole = service(|| answer("application/json", WHOLE)).await.whole(true).await;
    assert_eq!(text_of(&whole), "hello");
}

#[tokio::test]
async fn errors_keep_their_status_before_and_within_a_stream() {
    let overloaded =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded, sk-test"}}"#;
    let busy = move || {
        let status = StatusCode::from_u16(529).unwrap();
        (status, [("content-type", "application/json"), ("retry-after", "3")], overloaded).into_response()
    };
    let first = format!("event: error\ndata: {overloaded}\n\n");
    let later = [START, HELLO, &first].concat();
    let (count, inside) = service(move || events(later.clone())).await.last_error().await;
    assert_eq!(count, 2);
    let (count, at_once) = service(move || events(first.clone())).await.last_error().await;
    assert_eq!(count, 0);
    for (error, after) in [(service(busy).await.error().await, Some("3")), (inside, None), (at_once, None)] {
        let Error::Answered { provider, status, body, retry_after } = error else { panic!("{error}") };
        assert_eq!((provider.as_str(), status, retry_after.as_deref()), ("claude", 529, after));
        assert_eq!(body.at_path("error.message"), Json::from("Overloaded, ***"));
    }
    let whole = service(move || answer("application/json", overloaded)).await.error().await;
    assert!(matches!(whole, Error::Answered { status: 529, .. }), "{whole}");
}

#[tokio::test]
async fn a_stream_without_an_end_is_an_error() {
    for body in [START.to_owned(), [START, HELLO, "data: {\"ty"].concat(), String::new()] {
        let (_, error) = service(move || events(body.clone())).await.last_error().await;
        assert!(error.to_string().starts_with("the response of provider claude ended early: "), "{error}");
    }
    let lost = || {
        let chunks =
            stream::iter([Ok(Bytes::from([START, HELLO].concat())), Err(std::io::Error::other("lost"))]);
        let chunks = chunks.then(|chunk| async {
            // Without the pause, the server would not send the beginning.
            tokio::time::sleep(Duration::from_millis(if chunk.is_err() { 50 } else { 0 })).await;
            chunk
        });
        events(Body::from_stream(chunks))
    };
    let (count, error) = service(lost).await.last_error().await;
    assert!(count == 2 && error.to_string().contains("ended early"), "{error}");
}

#[tokio::test]
async fn an_invalid_response_is_named_and_not_quoted_in_the_error() {
    for (response, expected) in [
        ((|| answer("text/html", "<html>Welcome")) as fn() -> Response, "check base_url"),
        (|| answer("application/json", "{]"), "not valid json: "),
        (|| answer("application/json", r#"{"hello":1}"#), "without `content`"),
        (
            || (StatusCode::FOUND, [("location", "https://x.example/")]).into_response(),
            "redirects to https://x.example/",
        ),
        (|| events("data: {\"a\n\n"), "sent an event that is not valid json: "),
    ] {
        let error = service(response).await.error().await.to_string().to_lowercase();
        assert!(
            error.starts_with("provider claude at http://127.0.0.1:") && error.contains(expected),
            "{error}"
        );
        // No filter has read it.
        assert!(!error.contains("welcome") && !error.contains("hello"), "{error}");
    }
}

#[tokio::test]
async fn models_are_listed_in_the_format_of_openai() {
    let list = r#"{"data":[{"type":"model","id":"a","display_name":"A","created_at":"2025-02-19T00:00:00Z"}],"has_more":false}"#;
    let server = service(move || answer("application/json", list)).await;
    let expected = r#"[{"id":"a","object":"model","created":1739923200,"owned_by":"anthropic","display_name":"A","created_at":"2025-02-19T00:00:00Z"}]"#;
    assert_eq!(Json::from(server.provider.models().await.unwrap()).to_string(), expected);
    assert_eq!(server.requests.lock()[0].uri, "/v1/models?limit=1000");
}

#[tokio::test]
async fn an_address_must_be_a_url_and_may_contain_the_version() {
    for url in ["", "api.anthropic.com", "ftp://x/"] {
        let error = Anthropic::new("claude", url, Client::new().unwrap()).unwrap_err().to_string();
        assert!(error.starts_with("invalid base_url of provider claude: "), "{error}");
    }
    for (url, path) in
        [("http://h", "/v1/messages"), ("http://h/v1/", "/v1/messages"), ("http://h/a", "/a/v1/messages")]
    {
        let provider = Anthropic::new("claude", url, Client::new().unwrap()).unwrap();
        assert_eq!(provider.endpoint("messages").path(), path);
    }
}

/// Returns a body in chunks of `size` bytes.
fn cut(body: &str, size: usize) -> Body {
    let chunks: Vec<Bytes> = body.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect();
    Body::from_stream(stream::iter(chunks.into_iter().map(Ok::<_, std::io::Error>)))
}

#[tokio::test]
async fn cutting_a_stream_anywhere_gives_the_same_chunks() {
    let tool = r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c","name":"t","input":{}}}"#;
    let input = r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"é\":\"ü\"}"}}"#;
    let body = [START, HELLO, &format!("data: {tool}\r\n\r\n: still here\n\ndata:{input}   \n\n"), END, STOP]
        .concat();
    let mut answers = Vec::new();
    for at in 0..=body.len() {
        let (one, two) = body.as_bytes().split_at(at);
        let halves = [one, two].map(|half| Ok(Bytes::copy_from_slice(half)));
        let origin = service_origin();
        let chunks = chunks(origin, stream::iter(halves).boxed(), MessagesReader::default().with_usage(true));
        let mut fold = Fold::default();
        chunks.collect::<Vec<_>>().await.into_iter().for_each(|chunk| fold.push(&chunk.unwrap().event));
        let answer = fold.finish();
        let _ = answer.set("created", 0_i64);
        answers.push(answer);
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(ModelCall::all(&response::message_of(&answers[0]))[0].arguments, r#"{"é":"ü"}"#);
}

fn service_origin() -> crate::origin::Origin {
    crate::origin::Origin { provider: "claude".into(), address: "http://claude".into(), key: None }
}

#[tokio::test]
async fn cutting_recorded_streams_anywhere_gives_the_same_chunks() {
    for name in ["text", "text-tools", "thinking", "web-search"] {
        let Some(body) = recorded(&format!("messages.{name}.anthropic.sse")) else { return };
        let mut answers = Vec::new();
        for size in [body.len(), 1, 7, 1460] {
            let body = body.clone();
            let answer = service(move || events(cut(&body, size))).await.folded().await;
            // Only the time may differ.
            let _ = answer.set("created", 0_i64);
            answers.push(answer);
        }
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{name}");
        assert!(!text_of(&answers[0]).is_empty() && response::finish_reason_of(&answers[0]).is_some());
    }
}

#[tokio::test]
async fn recorded_answers_and_errors_are_recognized() {
    for (name, calls) in [("text", 0), ("text-tools", 2), ("thinking", 0)] {
        let Some(body) = recorded(&format!("messages.{name}.anthropic.json")) else { return };
        let whole = service(move || answer("application/json", body.clone())).await.whole(false).await;
        assert!(!text_of(&whole).is_empty());
        assert_eq!(ModelCall::all(&response::message_of(&whole)).len(), calls, "{name}");
    }
    for status in [401, 529] {
        let body = recorded(&format!("error.{status}.anthropic.json")).unwrap();
        let refuse = move || (StatusCode::from_u16(status).unwrap(), body.clone()).into_response();
        let error = service(refuse).await.error().await;
        assert!(matches!(error, Error::Answered { status: actual, .. } if actual == status), "{error}");
    }
    let first = recorded("messages.error-first.anthropic.sse").unwrap();
    let (count, error) = service(move || events(first.clone())).await.last_error().await;
    assert!(count == 0 && matches!(error, Error::Answered { status: 529, .. }), "{error}");
    let twice = recorded("messages.duplicate-start.anthropic.jsonl").unwrap();
    let body: String = twice.lines().map(|line| format!("data: {line}\n\n")).collect();
    let folded_answer = service(move || events(body.clone())).await.folded().await;
    assert_eq!(text_of(&folded_answer), "Hello, World!");
}
