//! Tests against a local server that answers over the Responses API.

use super::OpenAiResponses;
use axum::Router;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::StreamExt as _;
use parking_lot::Mutex;
use std::sync::Arc;
use valvehouse_core::chat::Fold;
use valvehouse_core::error::Error;
use valvehouse_core::provider::{Answer, Provider as _, RESPONSES, Request};
use valvehouse_json::Json;
use valvehouse_net::Client;
use valvehouse_wire::service::KnownService;

struct Server {
    provider: OpenAiResponses,
    requests: Arc<Mutex<Vec<(String, Bytes)>>>,
}

async fn service(kind: &'static str, body: impl Into<String>) -> Server {
    answering(200, kind, body).await
}

async fn answering(status: u16, kind: &'static str, body: impl Into<String>) -> Server {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (seen, body) = (requests.clone(), body.into());
    let handler = move |uri: axum::http::Uri, given: Bytes| {
        seen.lock().push((uri.to_string(), given));
        let status = axum::http::StatusCode::from_u16(status).unwrap();
        std::future::ready((status, [("content-type", kind)], body.clone()).into_response())
            as std::future::Ready<Response>
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(handler)).await.unwrap() });
    let provider =
        OpenAiResponses::new("lab", &format!("http://{address}/v1"), Client::new().unwrap()).unwrap();
    Server { provider: provider.with_key("sk-test"), requests }
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

impl Server {
    fn sent(&self) -> Json {
        Json::parse(&self.requests.lock().last().unwrap().1).unwrap()
    }

    async fn ask(&self, body: &str, stream: bool) -> Result<Json, Error> {
        self.answer(Request::new(json(body), stream)).await
    }

    /// Returns the complete answer, also if it is streamed.
    async fn answer(&self, request: Request) -> Result<Json, Error> {
        match self.provider.chat(request).await? {
            Answer::Whole(whole) => Ok(whole),
            Answer::Stream(mut chunks) => {
                let mut fold = Fold::default();
                while let Some(chunk) = chunks.next().await {
                    fold.push(&chunk?.event);
                }
                Ok(fold.finish())
            }
        }
    }
}

const OUTPUT: &str = r#"[
    {"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"First."},{"type":"summary_text","text":"Second."}],"encrypted_content":"gAAA\u003d"},
    {"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"weather"}},
    {"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"It is cold.","annotations":[{"type":"url_citation","url":"https://x.example","title":"X","start_index":0,"end_index":2}]}]},
    {"id":"fc_1","type":"function_call","call_id":"call_1","name":"weather","arguments":"{\"city\":\"Oslo\"}","status":"completed"},
    {"id":"ct_1","type":"custom_tool_call","call_id":"call_2","name":"patch","input":"+ \"1\"","status":"completed"}]"#;
const USAGE: &str = r#"{"input_tokens":7,"input_tokens_details":{"cached_tokens":2},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":12}"#;

fn response(status: &str) -> String {
    format!(
        r#"{{"id":"resp_1","object":"response","created_at":9,"status":"{status}","model":"m-1","error":null,"incomplete_details":null,"output":{OUTPUT},"usage":{USAGE}}}"#
    )
}

fn events(all: &[&str]) -> String {
    all.iter()
        .map(|event| {
            let kind = json(event).text_or_empty("type");
            format!("event: {kind}\ndata: {}\n\n", event.replace('\n', ""))
        })
        .collect()
}

fn stream() -> String {
    let items = json(OUTPUT).items();
    let done = |at: usize| {
        format!(r#"{{"type":"response.output_item.done","output_index":{at},"item":{}}}"#, items[at])
    };
    let added = |at: usize, empty: &str| {
        let item = items[at].deep_clone();
        if !empty.is_empty() {
            item.put(empty, "");
        }
        format!(r#"{{"type":"response.output_item.added","output_index":{at},"item":{item}}}"#)
    };
    let completed = format!(r#"{{"type":"response.completed","response":{}}}"#, response("completed"));
    events(&[
        r#"{"type":"response.created","response":{"id":"resp_1","created_at":9,"status":"in_progress","model":"m-1","output":[]}}"#,
        &added(0, ""),
        r#"{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":0}"#,
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"Fir"}"#,
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"st."}"#,
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":1,"delta":"Second."}"#,
        &done(0),
        &added(1, ""),
        r#"{"type":"response.web_search_call.searching","output_index":1}"#,
        &done(1),
        r#"{"type":"response.output_text.delta","output_index":2,"content_index":0,"delta":"It is "}"#,
        r#"{"type":"response.output_text.delta","output_index":2,"content_index":0,"delta":"cold."}"#,
        r#"{"type":"response.output_text.annotation.added","output_index":2,"annotation":{"type":"url_citation","url":"https://x.example","title":"X","start_index":0,"end_index":2}}"#,
        &done(2),
        &added(3, "arguments"),
        r#"{"type":"response.function_call_arguments.delta","output_index":3,"delta":"{\"city\":"}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":3,"delta":"\"Oslo\"}"}"#,
        &done(3),
        // An item that arrives complete.
        &done(4),
        &completed,
    ])
}

#[tokio::test]
async fn a_response_and_its_stream_give_the_same_answer() {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream_options":{"include_usage":true}}"#;
    let whole = service("application/json", response("completed")).await.ask(body, false).await.unwrap();
    let server = service("text/event-stream", stream()).await;
    let streamed = server.ask(body, true).await.unwrap();
    // Some services send the answer only in the last event.
    let completed = format!(r#"{{"type":"response.completed","response":{}}}"#, response("completed"));
    let late = service("text/event-stream", events(&[&completed])).await.ask(body, true).await.unwrap();
    for answer in [&whole, &streamed, &late] {
        let message = answer.at_path("choices.0.message");
        assert_eq!(message.string("content"), "It is cold.", "{answer}");
        assert_eq!(message.string("reasoning_content"), "First.\n\nSecond.", "{answer}");
        assert_eq!(
            message.at_path("tool_calls.0.function.arguments").as_str(),
            Some(r#"{"city":"Oslo"}"#),
            "{answer}"
        );
        assert_eq!(message.at_path("tool_calls.0.id").as_str(), Some("call_1"), "{answer}");
        assert_eq!(message.at_path("tool_calls.1.custom.input").as_str(), Some("+ \"1\""), "{answer}");
        assert_eq!(message.at_path("annotations.0.url_citation.title").as_str(), Some("X"), "{answer}");
        assert_eq!(answer.at_path("choices.0.finish_reason").as_str(), Some("tool_calls"), "{answer}");
        assert_eq!((answer.string("id"), answer.string("model")), ("resp_1".into(), "m-1".into()));
        assert_eq!(
            answer.field("usage").to_string(),
            r#"{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":3}}"#
        );
    }
    let blocks = |answer: &Json| answer.at_path("choices.0.message.content_blocks").to_string();
    assert_eq!([blocks(&streamed), blocks(&late)], [blocks(&whole), blocks(&whole)]);
    // The next request contains the same items at the same positions, without texts that filters could not
    // read.
    let streamed_message = streamed.at_path("choices.0.message");
    let results = ["call_1", "call_2"].map(|id| {
        Json::from([("role", "tool".into()), ("tool_call_id", id.into()), ("content", "ok".into())])
    });
    let messages =
        [vec![json(r#"{"role":"user","content":"hi"}"#), streamed_message], results.to_vec()].concat();
    server
        .answer(Request::new(Json::from([("model", "m".into()), ("messages", messages.into())]), true))
        .await
        .unwrap();
    let kinds: Vec<String> = server.sent().list("input").iter().map(|item| item.string("type")).collect();
    let expected = [
        "message",
        "reasoning",
        "web_search_call",
        "message",
        "function_call",
        "custom_tool_call",
        "function_call_output",
        "custom_tool_call_output",
    ];
    assert_eq!(kinds, expected);
    let reasoning = server.sent().at_path("input.1");
    assert_eq!(
        reasoning.to_string(),
        r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA="}"#
    );
    assert_eq!(server.sent().at_path("input.2.action.query").as_str(), Some("weather"));
}

#[tokio::test]
async fn a_content_of_null_is_an_empty_text_and_an_image_may_be_a_file() {
    let server = service("application/json", response("completed")).await;
    let body = r#"{"model":"m","messages":[{"role":"user","content":null},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"c","content":null},{"role":"user","content":[{"type":"image_url","image_url":{"file_id":"file-1","detail":"low"}}]}]}"#;
    server.ask(body, false).await.unwrap();
    let input = server.sent().list("input");
    assert_eq!([input[0].field("content"), input[2].field("output")], ["", ""].map(Json::from));
    let image = r#"{"type":"input_image","file_id":"file-1","detail":"low"}"#;
    assert_eq!(input[3].at_path("content.0").to_string(), image);
}

#[tokio::test]
async fn allowed_tools_lose_their_nesting() {
    let server = service("application/json", response("completed")).await;
    let tool = r#"{"type":"function","function":{"name":"f"}}"#;
    let choice =
        format!(r#"{{"type":"allowed_tools","allowed_tools":{{"mode":"required","tools":[{tool}]}}}}"#);
    let body = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],"tools":[{tool}],"tool_choice":{choice}}}"#
    );
    server.ask(&body, false).await.unwrap();
    let expected = r#"{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"}]}"#;
    assert_eq!(server.sent().field("tool_choice").to_string(), expected);
}

#[tokio::test]
async fn a_chat_request_is_translated_for_the_responses_api() {
    let server = service("application/json", response("completed")).await;
    let body = r#"{"model":"m","max_tokens":5,"temperature":0.50,"reasoning_effort":"low","verbosity":"low","logprobs":true,"top_logprobs":2,"own":{"b":1},
        "response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},
        "tools":[{"type":"function","function":{"name":"f","parameters":{}}},{"type":"custom","custom":{"name":"c","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"d"}}}}],
        "tool_choice":{"type":"function","function":{"name":"f"}},
        "messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"t"},{"type":"image_url","image_url":{"url":"data:x","detail":"low"}}]},
            {"role":"assistant","content":"said","reasoning_content":"thought"},{"role":"user","content":"go"}]}"#;
    server.ask(body, false).await.unwrap();
    assert_eq!(server.requests.lock()[0].0, "/v1/responses");
    let expected = r#"{"model":"m","input":[{"type":"message","role":"system","content":"S"},
        {"type":"message","role":"user","content":[{"type":"input_text","text":"t"},{"type":"input_image","image_url":"data:x","detail":"low"}]},
        {"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"thought"}]},
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"said","annotations":[]}]},
        {"type":"message","role":"user","content":"go"}],
        "tools":[{"type":"function","name":"f","parameters":{},"strict":false},{"type":"custom","name":"c","format":{"type":"grammar","syntax":"lark","definition":"d"}}],
        "tool_choice":{"type":"function","name":"f"},"max_output_tokens":5,
        "text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}},"verbosity":"low"},
        "reasoning":{"effort":"low"},"top_logprobs":2,"include":["reasoning.encrypted_content","message.output_text.logprobs"],
        "store":false,"stream":false,"temperature":0.50,"own":{"b":1}}"#;
    assert_eq!(server.sent(), json(expected), "{}", server.sent());
    for (field, wrong) in [
        ("n", "2"),
        ("logit_bias", r#"{"1":2}"#),
        ("instructions", r#""do it""#),
        ("previous_response_id", r#""resp_1""#),
    ] {
        let body = format!(r#"{{"model":"m","messages":[],"{field}":{wrong}}}"#);
        let error = server.ask(&body, false).await.unwrap_err().to_string();
        assert!(error.contains(&format!("cannot send {field}")), "{error}");
    }
    server.ask(r#"{"model":"m","messages":[],"stop":["x"]}"#, false).await.unwrap();
    assert_eq!(server.sent().get("stop"), None);
}

#[tokio::test]
async fn fields_beyond_the_chat_api_are_sent_to_the_responses_api() {
    let server = service("application/json", response("completed")).await;
    let body = json(
        r#"{"model":"m","reasoning_effort":"low","messages":[{"role":"user","content":"hi"}],
        "tools":[{"type":"web_search"},{"type":"function","function":{"name":"f","strict":true}}],"tool_choice":{"type":"web_search"},
        "responses":{"include":["web_search_call.action.sources"],"reasoning":{"effort":"high","summary":"auto"},"max_tool_calls":3}}"#,
    );
    server.answer(Request::new(body, false)).await.unwrap();
    let sent = server.sent();
    assert_eq!(
        sent.field("tools").to_string(),
        r#"[{"type":"web_search"},{"type":"function","name":"f","strict":true}]"#
    );
    assert_eq!(sent.field("tool_choice").to_string(), r#"{"type":"web_search"}"#);
    assert_eq!(
        sent.field("include").to_string(),
        r#"["web_search_call.action.sources","reasoning.encrypted_content"]"#
    );
    assert_eq!(sent.field("reasoning").to_string(), r#"{"effort":"low","summary":"auto"}"#);
    assert_eq!(sent.field("max_tool_calls").as_i64(), Some(3));
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"responses":{"tools":[{"type":"web_search"}],"tool_choice":"required"}}"#;
    server.answer(Request::new(json(body), false)).await.unwrap();
    let sent = server.sent();
    assert!(sent.get("tools").is_none() && sent.get("tool_choice").is_none(), "{sent}");
    assert!(server.provider.has_route(RESPONSES) && server.provider.has_route("embeddings"));
}

#[tokio::test]
async fn errors_keep_their_status_and_code() {
    let failed = r#"{"id":"r","status":"failed","output":[],"error":{"code":"rate_limit_exceeded","message":"try again in 2s"}}"#;
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
    let in_stream = events(&[&format!(r#"{{"type":"response.failed","response":{failed}}}"#)]);
    let error = events(&[
        r#"{"type":"error","code":"rate_limit_exceeded","message":"try again in 2s","sequence_number":1}"#,
    ]);
    for (server, stream) in [
        (service("application/json", failed).await, false),
        (service("text/event-stream", in_stream).await, true),
        (service("text/event-stream", error).await, true),
        (
            answering(
                429,
                "application/json",
                r#"{"error":{"code":"rate_limit_exceeded","message":"try again in 2s"}}"#,
            )
            .await,
            false,
        ),
    ] {
        match server.ask(body, stream).await {
            Err(Error::Answered { status: 429, body, .. }) => {
                assert_eq!(body.at_path("error.code").as_str(), Some("rate_limit_exceeded"), "{body}");
            }
            other => panic!("{other:?}"),
        }
    }
    let cut =
        service("text/event-stream", events(&[r#"{"type":"response.output_text.delta","delta":"half"}"#]))
            .await;
    assert!(cut.ask(body, true).await.unwrap_err().to_string().contains("ended early"));
    let other = service("application/json", r#"{"choices":[]}"#).await;
    assert!(other.ask(body, false).await.unwrap_err().to_string().contains("without `output`"));
    let long = response("incomplete")
        .replace("\"incomplete_details\":null", r#""incomplete_details":{"reason":"max_output_tokens"}"#);
    let answer = service("application/json", long).await.ask(body, false).await.unwrap();
    assert_eq!(answer.at_path("choices.0.finish_reason").as_str(), Some("length"));
}

#[test]
fn a_result_has_images_and_files_and_names_the_rest() {
    let parts = r#"{"type":"text","text":"one"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"original"}},
        {"type":"file","file":{"file_url":"https://x.example/a.pdf"}},
        {"type":"input_audio","input_audio":{"data":"BBBB","format":"wav"}}"#;
    let call = r#"{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    let messages = format!(r#"{call},{{"role":"tool","tool_call_id":"c","content":[{parts}]}}"#);
    let sent = valvehouse_wire::responses::request::write(
        &json(&format!(r#"{{"model":"m","messages":[{messages}]}}"#)),
        false,
        KnownService::of("", ""),
    )
    .unwrap();
    let output = sent.at_path("input.1.output");
    let kinds: Vec<_> = output.items().iter().map(|part| part.text("type").unwrap()).collect();
    assert_eq!(kinds, ["input_text", "input_image", "input_file", "input_text"], "{output}");
    assert_eq!(output.at_path("1.detail"), Json::from("original"));
    assert!(!output.to_string().contains("BBBB"), "{output}");
}
