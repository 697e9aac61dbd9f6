//! Tests of answers that arrive in any pieces.

use super::Ollama;
use crate::answer_stream::chunks_of_lines;
use crate::origin::Origin;
use axum::Router;
use axum::http::Uri;
use axum::response::IntoResponse;
use bytes::Bytes;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::sync::Arc;
use valvehouse_core::chat::{Fold, Outline, message, response};
use valvehouse_core::error::Error;
use valvehouse_core::provider::{Answer, ForwardRequest, Provider, Request, StreamChunk};
use valvehouse_json::Json;
use valvehouse_net::Client;
use valvehouse_testkit::recordings::recorded;
use valvehouse_wire::ollama::answer::OllamaReader;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

const THOUGHT: &str = r#"{"model":"qwen3","created_at":"2025-06-01T10:00:00Z","message":{"role":"assistant","content":"","thinking":"Grüße, "},"done":false}
{"model":"qwen3","message":{"role":"assistant","content":"","thinking":"wohl."},"done":false}
{"model":"qwen3","message":{"role":"assistant","content":"Ich "},"done":false}

{"model":"qwen3","message":{"role":"assistant","content":"rufe.","tool_calls":[{"function":{"index":0,"name":"weather","arguments":{"city":"Köln","days":2}}}]},"done":false}
{"model":"qwen3","message":{"role":"assistant","content":"","tool_calls":[{"id":"call_9","function":{"index":1,"name":"clock","arguments":{}}}]},"done":false}
{"model":"qwen3","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":11,"eval_count":7}
"#;

fn recording() -> Option<String> {
    recorded("native.text.ollama.ndjson")
}

fn origin() -> Origin {
    Origin { provider: "lab".into(), address: "http://lab/".into(), key: None }
}

async fn read(chunks: Vec<Bytes>) -> Vec<Result<StreamChunk, Error>> {
    let body = stream::iter(chunks.into_iter().map(Ok)).boxed();
    chunks_of_lines(
        origin(),
        body,
        OllamaReader::new(&json(r#"{"model":"model","stream_options":{"include_usage":true}}"#)),
    )
    .collect()
    .await
}

async fn folded(chunks: Vec<Bytes>) -> Json {
    let mut fold = Fold::default();
    let chunks = read(chunks).await;
    let ids: Vec<_> = chunks.iter().map(|chunk| chunk.as_ref().unwrap().event.text("id").unwrap()).collect();
    assert!(ids.iter().all(|id| *id == ids[0]));
    chunks.into_iter().for_each(|chunk| fold.push(&chunk.unwrap().event));
    assert!(fold.is_finished());
    let answer = fold.finish();
    // These fields differ in every answer.
    for key in ["id", "created"] {
        answer.remove(key);
    }
    for call in answer.at_path("choices.0.message.tool_calls").items() {
        if call.text("id").is_some_and(|id| id != "call_9") {
            call.set("id", "call_new").unwrap();
        }
    }
    answer
}

fn bytes(text: &str) -> Bytes {
    Bytes::from(text.to_owned())
}

#[tokio::test]
async fn an_ollama_stream_is_read_the_same_however_it_is_cut() {
    let expected = json(
        r#"{"object":"chat.completion","model":"qwen3","choices":[{"index":0,"message":{"role":"assistant",
            "reasoning_content":"Grüße, wohl.","content":"Ich rufe.","tool_calls":[
            {"id":"call_new","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Köln\",\"days\":2}"}},
            {"id":"call_9","type":"function","function":{"name":"clock","arguments":"{}"}}]},
            "finish_reason":"tool_calls"}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}"#,
    );
    assert_eq!(folded(vec![bytes(THOUGHT)]).await, expected);
    assert_eq!(folded(vec![bytes(THOUGHT.trim_end())]).await, expected, "the last line needs no end");
    assert_eq!(folded(vec![bytes(&THOUGHT.replace('\n', "\r\n"))]).await, expected);
    let single = THOUGHT.as_bytes().chunks(1).map(Bytes::copy_from_slice).collect();
    assert_eq!(folded(single).await, expected);
    for at in 0..THOUGHT.len() {
        let (start, end) = THOUGHT.as_bytes().split_at(at);
        let cut = vec![Bytes::copy_from_slice(start), Bytes::copy_from_slice(end)];
        assert_eq!(folded(cut).await, expected, "cut at {at}");
    }
}

#[tokio::test]
async fn a_recorded_ollama_stream_is_read_the_same_however_it_is_cut() {
    let Some(text) = recording() else { return };
    let whole = folded(vec![bytes(&text)]).await;
    let answer_text = message::text_of(&response::message_of(&whole));
    assert!(
        answer_text.starts_with("Why did the OpenTelemetry agent go to therapy?\n\nBecause"),
        "{answer_text}"
    );
    assert_eq!(whole.at_path("usage.total_tokens").as_i64(), Some(67));
    assert_eq!(response::finish_reason_of(&whole).unwrap(), "stop");
    let single = text.as_bytes().chunks(1).map(Bytes::copy_from_slice).collect();
    assert_eq!(folded(single).await, whole);
    for at in (0..text.len()).step_by(7) {
        let (start, end) = text.as_bytes().split_at(at);
        let cut = vec![Bytes::copy_from_slice(start), Bytes::copy_from_slice(end)];
        assert_eq!(folded(cut).await, whole, "cut at {at}");
    }
}

#[tokio::test]
async fn an_ollama_stream_without_an_end_is_an_error() {
    let half = THOUGHT.lines().take(3).collect::<Vec<_>>().join("\n");
    for (text, before, expected) in [
        (
            half.clone(),
            3,
            "the response of provider lab ended early: it ended without a line with `done: true`",
        ),
        (format!("{half}\n{{\"mod"), 3, "the response of provider lab ended early: it ends inside a line"),
        (format!("{half}\n{{]\n"), 3, "provider lab at http://lab/ sent a line that is not valid JSON"),
        (format!("{half}\n{{\"error\":\"out of memory\"}}\n"), 3, "provider lab answered 502"),
        (String::new(), 0, "the response of provider lab ended early"),
    ] {
        let mut chunks = read(vec![bytes(&text)]).await;
        let error = chunks.pop().unwrap().unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
        assert_eq!(chunks.into_iter().map(Result::unwrap).count(), before);
    }
}

/// Starts a service that returns one answer and records its requests.
async fn service(
    status: u16,
    kind: &'static str,
    body: &'static str,
) -> (Ollama, Arc<Mutex<Vec<(String, String)>>>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = requests.clone();
    let answer = move |uri: Uri, body_in: String| {
        seen.lock().push((uri.path().to_owned(), body_in));
        let status = axum::http::StatusCode::from_u16(status).unwrap();
        std::future::ready((status, [("content-type", kind)], body).into_response())
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await.unwrap() });
    (Ollama::new("lab", &url, Client::new().unwrap()).unwrap(), requests)
}

fn request(stream: bool) -> Request {
    Request::new(json(r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#), stream)
}

#[tokio::test]
async fn an_ollama_answer_is_translated_to_the_format_of_openai() {
    let (lab, requests) = service(
        200,
        "application/json; charset=utf-8",
        r#"{"model":"m:8b","message":{"role":"assistant","content":"hel","thinking":"hm"},"done":true,"done_reason":"length",
            "prompt_eval_count":3,"eval_count":1,"logprobs":[{"token":"hel","logprob":-0.5}]}"#,
    )
    .await;
    let Ok(Answer::Whole(whole)) = lab.chat(request(false)).await else { panic!() };
    assert_eq!(
        whole.get("choices").unwrap(),
        json(
            r#"[{"index":0,"message":{"role":"assistant","content":"hel","reasoning_content":"hm"},"finish_reason":"length",
                "logprobs":{"content":[{"token":"hel","logprob":-0.5}]}}]"#
        )
    );
    assert_eq!(
        (whole.text("model").unwrap().as_str(), whole.at_path("usage.total_tokens").as_i64()),
        ("m:8b", Some(4))
    );
    let (path, body) = requests.lock()[0].clone();
    assert_eq!(path, "/api/chat");
    assert_eq!(body, r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":false}"#);
    let exchange = valvehouse_core::context::Exchange::default();
    let body = Bytes::new();
    let outline = &Outline::default();
    let request = ForwardRequest { body, outline, stream: false, model: "m", exchange: &exchange };
    assert!(lab.forward(request).is_none());
}

#[tokio::test]
async fn an_ollama_stream_has_usage_only_on_request() {
    let (lab, _) = service(200, "application/x-ndjson", THOUGHT).await;
    let Ok(Answer::Stream(chunks)) = lab.chat(request(true)).await else { panic!() };
    let events: Vec<Json> = chunks.map(|chunk| chunk.unwrap().event).collect().await;
    assert_eq!(
        events[0].at_path("choices.0.delta").to_string(),
        r#"{"role":"assistant","reasoning_content":"Grüße, "}"#
    );
    assert_eq!(events.last().unwrap().at_path("choices.0.finish_reason").as_str(), Some("tool_calls"));
    assert!(events.iter().all(|event| event.get("usage").is_none()));
}

#[tokio::test]
async fn errors_keep_their_status_and_message() {
    let (lab, _) = service(404, "application/json", r#"{"error":"model 'm' not found"}"#).await;
    for stream in [true, false] {
        let Err(Error::Answered { status: 404, body, .. }) = lab.chat(request(stream)).await else {
            panic!()
        };
        assert_eq!(body.text("error").unwrap(), "model 'm' not found");
    }
    let (lab, _) = service(200, "text/html", "<h1>hello</h1>").await;
    let Err(error) = lab.chat(request(false)).await else { panic!() };
    assert!(error.to_string().ends_with("check base_url"), "{error}");
    let (lab, _) = service(200, "application/json", r#"{"ok":true}"#).await;
    let Err(error) = lab.chat(request(false)).await else { panic!() };
    assert!(error.to_string().contains("returned a response without `message`"), "{error}");
    assert!(Ollama::new("lab", "localhost:11434", Client::new().unwrap()).is_err());
}

#[tokio::test]
async fn models_are_listed_as_openai_lists_them() {
    let (lab, requests) = service(
        200,
        "application/json",
        r#"{"models":[{"name":"llama3:8b","model":"llama3:8b","modified_at":"2025-01-02T03:04:05.6+01:00","size":7,
            "details":{"family":"llama"}},{"size":1}]}"#,
    )
    .await;
    let models = lab.models().await.unwrap();
    assert_eq!(
        models,
        [json(
            r#"{"id":"llama3:8b","object":"model","created":1735783445,"owned_by":"library","size":7,"details":{"family":"llama"}}"#
        )]
    );
    assert_eq!(requests.lock()[0].0, "/api/tags");
}
