//! Tests of requests to Ollama's API, and of answers that arrive in any pieces.

use super::answer::AnswerReader;
use super::{Ollama, answer, request};
use crate::origin::Origin;
use axum::Router;
use axum::http::Uri;
use axum::response::IntoResponse;
use bytes::Bytes;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::sync::Arc;
use valvehouse_core::chat::{Fold, message, response};
use valvehouse_core::error::Error;
use valvehouse_core::provider::{Answer, ForwardRequest, Provider, Request, StreamChunk};
use valvehouse_json::Json;
use valvehouse_net::Client;
use valvehouse_testkit::recordings::recorded;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

fn chat_body(body: &str) -> String {
    request::chat(&json(body), true).unwrap_or_else(|error| panic!("{error}")).to_string()
}

#[test]
fn a_request_keeps_its_messages_and_moves_its_options_for_ollama() {
    assert_eq!(
        chat_body(
            r#"{"model":"llama3","messages":[{"role":"developer","content":"Be brief."},{"role":"user","content":"hi"}],
               "temperature":0.70,"top_p":1e0,"max_tokens":5,"max_completion_tokens":6,"seed":7,"stop":"END","n":1,
               "user":"ann","stream_options":{"include_usage":true}}"#
        ),
        concat!(
            r#"{"model":"llama3","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}],"#,
            r#""stream":true,"options":{"temperature":0.70,"top_p":1e0,"seed":7,"num_predict":6,"stop":["END"]}}"#
        )
    );
    assert_eq!(
        chat_body(
            r#"{"model":"m","messages":[],"stop":["a","b"],"temperature":1,"options":{"temperature":0,"mirostat":1},
               "keep_alive":"5m","think":true,"reasoning_effort":"low","format":"json","max_tokens":null}"#
        ),
        concat!(
            r#"{"model":"m","messages":[],"stream":true,"#,
            r#""options":{"temperature":0,"stop":["a","b"],"mirostat":1},"think":true,"format":"json","keep_alive":"5m"}"#
        )
    );
}

#[test]
fn response_formats_and_thinking_are_translated_for_ollama() {
    let schema = r#"{"model":"m","messages":[],"reasoning_effort":"none",
        "response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}}"#;
    assert!(
        chat_body(schema).ends_with(r#""format":{"type":"object"},"think":false}"#),
        "{}",
        chat_body(schema)
    );
    let object = r#"{"model":"m","messages":[],"reasoning_effort":"minimal","response_format":{"type":"json_object"}}"#;
    assert!(chat_body(object).ends_with(r#""format":"json","think":true}"#), "{}", chat_body(object));
}

#[test]
fn inline_images_are_sent_and_image_urls_are_rejected() {
    let with = |url: &str| {
        format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":[{{"type":"text","text":"what is "}},
               {{"type":"image_url","image_url":{{"url":"{url}"}}}},{{"type":"text","text":"this?"}}]}}]}}"#
        )
    };
    let body = chat_body(&with("data:image/png;base64,iVBOR/+8="));
    assert!(body.contains(r#"{"role":"user","content":"what is this?","images":["iVBOR/+8="]}"#), "{body}");
    let error = request::chat(&json(&with("https://example.com/a.png")), true).unwrap_err().to_string();
    assert_eq!(
        error,
        "messages[0].content[1] is the URL of an image; Ollama needs the image itself: data:image/png;base64,…"
    );
    let audio = r#"{"model":"m","messages":[{"role":"user","content":[{"type":"input_audio"}]}]}"#;
    let error = request::chat(&json(audio), true).unwrap_err().to_string();
    assert_eq!(error, "messages[0].content[0] has the type input_audio; Ollama supports text and images");
}

#[test]
fn a_result_has_texts_and_images_and_names_the_rest() {
    let parts = r#"{"type":"text","text":"one"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},
        {"type":"text","text":"two"},{"type":"image_url","image_url":{"url":"https://x.example/a.png"}},
        {"type":"input_audio","input_audio":{"data":"BBBB","format":"wav"}},
        {"type":"file","file":{"filename":"a.txt","file_data":"data:text/plain;base64,aGk="}}"#;
    let message = format!(r#"{{"role":"tool","tool_call_id":"c","content":[{parts}]}}"#);
    let sent = json(&chat_body(&format!(r#"{{"model":"m","messages":[{message}]}}"#)));
    assert_eq!(sent.at_path("messages.0.images").to_string(), r#"["AAAA"]"#);
    let text = sent.at_path("messages.0.content");
    let lines: Vec<&str> = text.str_or_empty().lines().collect();
    assert_eq!((lines[0], lines[1], &lines[4..]), ("one", "two", &["a.txt:", "hi"][..]), "{text}");
    assert!(lines[2].contains("An image") && lines[3].contains("Audio"), "{text}");
    // The failure of a client of Anthropic's API.
    let failed = r#"{"model":"m","anthropic":{},"messages":[{"role":"tool","tool_call_id":"c","content":"no","is_error":true}]}"#;
    assert_eq!(json(&chat_body(failed)).at_path("messages.0.content"), Json::from("Error: no"));
}

#[test]
fn calls_have_objects_as_arguments_and_results_the_names_of_their_tools() {
    let body = chat_body(
        r#"{"model":"m","tools":[{"type":"function","function":{"name":"weather"}}],"messages":[
            {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[
                {"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Bonn\",\"days\":2}"}},
                {"id":"c2","type":"function","function":{"name":"clock","arguments":""}},
                {"id":"c3","type":"function","function":{"name":"odd","arguments":"{\"cut"}}]},
            {"role":"tool","tool_call_id":"c2","content":"noon"},
            {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"rain"}]}]}"#,
    );
    for expected in [
        r#""content":"","thinking":"hm","tool_calls":[{"id":"c1","function":{"name":"weather","arguments":{"city":"Bonn","days":2}}}"#,
        r#"{"id":"c2","function":{"name":"clock","arguments":{}}}"#,
        r#"{"id":"c3","function":{"name":"odd","arguments":{"arguments":"{\"cut"}}}"#,
        r#"{"role":"tool","content":"noon","tool_name":"clock","tool_call_id":"c2"}"#,
        r#"{"role":"tool","content":"rain","tool_name":"weather","tool_call_id":"c1"}"#,
        r#""tools":[{"type":"function","function":{"name":"weather"}}]"#,
    ] {
        assert!(body.contains(expected), "{expected} is not in {body}");
    }
    let none = chat_body(r#"{"model":"m","messages":[],"tools":[{}],"tool_choice":"none"}"#);
    assert!(!none.contains("tools"), "{none}");
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
    answer::chunks(origin(), AnswerReader::new("model".into(), true), body).collect().await
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
    let request = ForwardRequest { body, stream: false, model: "m", exchange: &exchange };
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
    assert!(error.to_string().contains("check base_url; it begins: <h1>hello"), "{error}");
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
