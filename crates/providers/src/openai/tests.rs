//! Tests against a local server that answers as services do.

use super::OpenAi;
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::chat::{Fold, Outline, message, response};
use valvehouse_core::context::Exchange;
use valvehouse_core::error::Error;
use valvehouse_core::provider::{Answer, ForwardRequest, PassthroughAnswer, Provider, Request, StreamChunk};
use valvehouse_grants::Timeouts;
use valvehouse_json::Json;
use valvehouse_net::Client;

/// A request that the server received.
#[derive(Clone)]
struct ReceivedRequest {
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    peer: SocketAddr,
}

struct Server {
    provider: OpenAi,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    address: SocketAddr,
}

/// Starts a service that always returns the same answer, and creates a provider for it with the key
/// `sk-test`.
async fn service(answer: impl Fn() -> Response + Clone + Send + Sync + 'static) -> Server {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = requests.clone();
    let handler = move |peer: ConnectInfo<SocketAddr>, uri: Uri, headers: HeaderMap, body: Bytes| {
        seen.lock().push(ReceivedRequest { uri, headers, body, peer: peer.0 });
        std::future::ready(answer())
    };
    let router = Router::new().fallback(handler).into_make_service_with_connect_info::<SocketAddr>();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let timeouts = Timeouts {
        connect: Duration::from_secs(5),
        answer: Duration::from_secs(5),
        idle: Duration::from_secs(5),
        total: None,
    };
    let client = Client::with_timeouts(timeouts).unwrap();
    let provider = OpenAi::new("lab", &format!("http://{address}/v1"), client).unwrap().with_key("sk-test");
    Server { provider, requests, address }
}

fn answer(kind: &'static str, body: impl Into<Body>) -> Response {
    ([("content-type", kind)], body.into()).into_response()
}

fn events(body: impl Into<Body>) -> Response {
    answer("text/event-stream; charset=utf-8", body)
}

/// Returns a body whose connection is lost after `start`.
fn lost(start: &'static str) -> Body {
    let chunks = stream::iter([Ok(Bytes::from(start)), Err(std::io::Error::other("lost"))]);
    // Without the pause, the server would not send the beginning.
    Body::from_stream(chunks.then(|chunk| async {
        if chunk.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        chunk
    }))
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

fn request(stream: bool) -> Request {
    let body = json(r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"seed":1.50,"x":{"y":[]}}"#);
    Request::new(body, stream)
}

impl Server {
    async fn chat(&self, stream: bool) -> Result<Answer, Error> {
        self.provider.chat(request(stream)).await
    }

    async fn error(&self) -> Error {
        match self.chat(false).await {
            Err(error) => error,
            Ok(_) => panic!("it answered"),
        }
    }

    async fn whole(&self, stream: bool) -> Json {
        match self.chat(stream).await {
            Ok(Answer::Whole(whole)) => whole,
            Ok(Answer::Stream(_)) => panic!("it streams"),
            Err(error) => panic!("{error}"),
        }
    }

    async fn chunks(&self) -> Vec<Result<StreamChunk, Error>> {
        match self.chat(true).await {
            Ok(Answer::Stream(chunks)) => chunks.collect().await,
            Ok(Answer::Whole(whole)) => panic!("{whole}"),
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the number of chunks and the error that ends the stream.
    async fn last_error(&self) -> (usize, Error) {
        let mut chunks = self.chunks().await;
        match chunks.pop() {
            Some(Err(error)) => (chunks.into_iter().map(Result::unwrap).count(), error),
            other => panic!("{other:?}"),
        }
    }

    async fn forward(&self, body: &'static str) -> PassthroughAnswer {
        let exchange = Exchange::default();
        let outline = Outline::read(body.as_bytes()).unwrap_or_default();
        let request = ForwardRequest {
            body: body.into(),
            outline: &outline,
            stream: true,
            model: "m",
            exchange: &exchange,
        };
        self.provider.forward(request).unwrap().await.unwrap()
    }
}

fn text_of(completion: &Json) -> String {
    message::text_of(&response::message_of(completion)).into()
}

fn folded(chunks: Vec<Result<StreamChunk, Error>>) -> Json {
    let mut fold = Fold::default();
    chunks.into_iter().for_each(|chunk| fold.push(&chunk.unwrap().event));
    fold.finish()
}

const WHOLE: &str = r#"{"id":"1","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}"#;
const HEL: &str = "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hel\"}}]}\n\n";
const LO: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

#[tokio::test]
async fn requests_and_answers_of_openai_pass_unchanged() {
    let server = service(|| answer("application/json", WHOLE)).await;
    assert_eq!(server.whole(false).await, json(WHOLE));
    let http_request = server.requests.lock()[0].clone();
    assert_eq!(http_request.uri.path(), "/v1/chat/completions");
    assert_eq!(http_request.headers["authorization"], "Bearer sk-test");
    assert_eq!(http_request.headers["content-type"], "application/json");
    assert_eq!(http_request.body, request(false).body.to_string());
}

#[tokio::test]
async fn a_stream_arrives_in_chunks_and_its_connection_is_reused() {
    let server = service(|| events([": PROCESSING\n\n", HEL, LO, DONE].concat())).await;
    for _ in 0..2 {
        let chunks = server.chunks().await;
        assert_eq!(chunks[0].as_ref().unwrap().raw, HEL.trim_end().trim_start_matches("data: "));
        assert_eq!(text_of(&folded(chunks)), "hello");
    }
    let requests = server.requests.lock().clone();
    assert_eq!(json(std::str::from_utf8(&requests[0].body).unwrap()).get("stream"), Some(true.into()));
    assert_eq!(requests[0].headers["accept"], "text/event-stream");
    assert_eq!(requests[0].peer, requests[1].peer);
}

#[tokio::test]
async fn other_line_endings_and_a_missing_done_mark_are_tolerated() {
    let crlf = [HEL, LO.trim_end()].concat().replace('\n', "\r\n");
    let server = service(move || events(crlf.clone())).await;
    assert_eq!(text_of(&folded(server.chunks().await)), "hello");
    // A connection that is lost after the end of the answer is ignored.
    let server = service(|| events(lost(LO))).await;
    assert_eq!(text_of(&folded(server.chunks().await)), "lo");
}

#[tokio::test]
async fn an_answer_in_the_other_form_than_requested_is_accepted() {
    let server = service(|| answer("application/json; charset=utf-8", WHOLE)).await;
    assert_eq!(text_of(&server.whole(true).await), "hello");
    let server = service(|| events([HEL, LO, DONE].concat())).await;
    let whole = server.whole(false).await;
    assert_eq!(
        (text_of(&whole).as_str(), whole.text("object").as_deref()),
        ("hello", Some("chat.completion"))
    );
    // Without a useful media type, the beginning determines the kind.
    let server = service(|| answer("text/plain", [HEL, LO].concat())).await;
    assert_eq!(text_of(&folded(server.chunks().await)), "hello");
    let server = service(|| Body::from(WHOLE).into_response()).await;
    assert_eq!(text_of(&server.whole(true).await), "hello");
}

#[tokio::test]
async fn compressed_answers_are_decompressed() {
    let server = service(|| {
        let headers = [("content-type", "application/json"), ("content-encoding", "gzip")];
        (headers, gzip(WHOLE.as_bytes())).into_response()
    })
    .await;
    assert_eq!(server.whole(false).await, json(WHOLE));
    assert!(!server.requests.lock()[0].headers.contains_key("accept-encoding"), "nearby nobody has to pack");
}

#[tokio::test]
async fn an_error_status_keeps_its_body_and_retry_after() {
    let server = service(|| {
        let headers = [("retry-after", "7"), ("content-type", "application/json")];
        (axum::http::StatusCode::TOO_MANY_REQUESTS, headers, r#"{"error":{"message":"slow, sk-test"}}"#)
            .into_response()
    })
    .await;
    match server.error().await {
        Error::Answered { provider, status, body, retry_after } => {
            assert_eq!((provider.as_str(), status, retry_after.as_deref()), ("lab", 429, Some("7")));
            assert_eq!(body, json(r#"{"error":{"message":"slow, ***"}}"#));
        }
        other => panic!("{other}"),
    }
    let server = service(|| (axum::http::StatusCode::BAD_GATEWAY, "x".repeat(9000)).into_response()).await;
    match server.error().await {
        Error::Answered { status: 502, body, .. } => assert_eq!(body.as_str().unwrap().len(), 2000),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn an_error_body_with_status_200_is_an_error() {
    let inside = |event: &'static str| move || events([HEL, event].concat());
    let groq = "event: error\ndata: {\"error\":{\"message\":\"m\",\"status_code\":400}}\n\n";
    let openrouter =
        "data: {\"choices\":[{\"delta\":{}}],\"error\":{\"code\":\"server_error\"}}\n\ndata: [DONE]\n\n";
    for (event, expected) in [(groq, 400), (openrouter, 502)] {
        match service(inside(event)).await.last_error().await {
            (1, Error::Answered { status, .. }) => assert_eq!(status, expected),
            other => panic!("{other:?}"),
        }
    }
    let server = service(|| answer("application/json", r#"{"error":"busy","code":503}"#)).await;
    assert!(matches!(server.error().await, Error::Answered { status: 503, .. }));
}

#[tokio::test]
async fn a_stream_without_an_end_is_an_error() {
    let other_choice = "data: {\"choices\":[{\"index\":1,\"delta\":{}}]}\n\n";
    for body in [HEL.to_owned(), [HEL, "data: {\"choi"].concat(), [LO, other_choice].concat()] {
        let server = service(move || events(body.clone())).await;
        let (_, error) = server.last_error().await;
        assert!(error.to_string().starts_with("the response of provider lab ended early: "), "{error}");
    }
    let (count, error) = service(|| events(lost(HEL))).await.last_error().await;
    assert!(count == 1 && error.to_string().contains("ended early"), "{error}");
    assert!(service(|| events("")).await.error().await.to_string().contains("ended early: it is empty"));
    // A complete answer cannot be returned from an interrupted stream.
    assert!(service(|| events(HEL)).await.error().await.to_string().contains("ended early"));
}

#[tokio::test]
async fn a_response_that_is_not_a_chat_answer_is_named_and_not_quoted_in_the_error() {
    for (response, expected) in [
        ((|| answer("text/html", "<html>\n <b>Welcome</b>")) as fn() -> Response, "check base_url"),
        (|| answer("application/json", "{]"), "not valid JSON: "),
        (|| answer("application/json", r#"{"hello":1}"#), "without `choices`"),
        (
            || (axum::http::StatusCode::FOUND, [("location", "https://x.example/")]).into_response(),
            "redirects to https://x.example/",
        ),
        (|| events("data: {\"a\n\n"), "sent an event that is not valid JSON: "),
    ] {
        let error = service(response).await.error().await;
        let text = error.to_string();
        assert!(text.starts_with("provider lab at http://127.0.0.1:"), "{text}");
        assert!(text.to_lowercase().contains(&expected.to_lowercase()), "{text}");
        assert!(matches!(error, Error::Provider { timeout: false, .. }));
        // No filter has read it.
        assert!(!text.contains("Welcome") && !text.contains("hello"), "{text}");
    }
}

#[tokio::test]
async fn bytes_are_forwarded_unchanged_in_both_directions() {
    let odd = "{ \"model\" : \"m\",\"n\":1.0e0 }";
    let server = service(|| events([": hi\r\n\r\n", HEL].concat())).await;
    let forwarded = server.forward(odd).await;
    assert_eq!(
        (forwarded.status, forwarded.content_type.as_deref()),
        (200, Some("text/event-stream; charset=utf-8"))
    );
    let body: Vec<Bytes> = forwarded.body.into_stream().map(Result::unwrap).collect().await;
    assert_eq!(body.concat(), [": hi\r\n\r\n", HEL].concat().as_bytes());
    assert_eq!(server.requests.lock()[0].body, odd);

    let busy =
        || (axum::http::StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "3")], "busy").into_response();
    let (exchange, busy) = (Exchange::default(), service(busy).await);
    let outline = Outline::read(odd.as_bytes()).unwrap_or_default();
    let request =
        ForwardRequest { body: odd.into(), outline: &outline, stream: true, model: "m", exchange: &exchange };
    let refused = busy.provider.forward(request).unwrap().await;
    let Err(Error::Answered { status: 503, retry_after, .. }) = refused else { panic!("not refused") };
    assert_eq!(retry_after.as_deref(), Some("3"));

    let body: Vec<_> =
        service(|| events(lost(HEL))).await.forward(odd).await.body.into_stream().collect().await;
    assert!(body[0].is_ok() && body[body.len() - 1].is_err());
}

#[tokio::test]
async fn models_are_listed() {
    let server = service(|| answer("application/json", r#"{"data":[{"id":"a","x":1},{"no":"id"}]}"#)).await;
    assert_eq!(server.provider.models().await.unwrap(), [json(r#"{"id":"a","x":1}"#)]);
    assert_eq!(server.requests.lock()[0].uri.path(), "/v1/models");
    let server = service(|| axum::http::StatusCode::UNAUTHORIZED.into_response()).await;
    assert!(matches!(server.provider.models().await, Err(Error::Answered { status: 401, .. })));
}

#[tokio::test]
async fn an_address_must_be_a_url_and_may_have_a_slash_and_a_query() {
    let server = service(|| answer("application/json", WHOLE)).await;
    let url = format!("http://{}/a/?api-version=1", server.address);
    let provider = OpenAi::new("lab", &url, Client::new().unwrap()).unwrap().with_header("x-team", "red");
    assert!(provider.chat(request(false)).await.is_ok());
    let http_request = server.requests.lock()[0].clone();
    assert_eq!(http_request.uri, "/a/chat/completions?api-version=1");
    assert_eq!(http_request.headers["x-team"], "red");
    assert!(http_request.headers.get("authorization").is_none());
    for url in ["", "api.openai.com/v1", "localhost:11434", "ftp://x/"] {
        let error = OpenAi::new("lab", url, Client::new().unwrap()).unwrap_err().to_string();
        assert!(error.starts_with("invalid base_url of provider lab: "), "{error}");
    }
    assert_eq!(format!("{:?}", server.provider), format!("OpenAi(lab at http://{}/v1)", server.address));
}

/// Returns a gzip file with one stored block, which is not smaller but counts as compressed.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
        }
    }
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    file.extend(length.to_le_bytes());
    file.extend((!length).to_le_bytes());
    file.extend(bytes);
    file.extend((!sum).to_le_bytes());
    file.extend(u32::from(length).to_le_bytes());
    file
}
