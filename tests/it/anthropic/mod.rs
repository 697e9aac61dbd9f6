//! Anthropic's protocol on both sides: its models behind any endpoint, and its clients with any model.

mod choices;
mod claude;
mod client;

use crate::generator::received::ReceivedMessage;
use crate::host::{Answer, TestHost, chat_body, streaming};
use crate::upstream::{MODEL, Reply};
use claude::SIGNATURE;
use serde_json::{Value, json};

/// A tool of the host.
const WEATHER: &str = r#"/*
description: The weather in a city.
*/
const parameters = #{ city: #{ type: "string", required: true } };
fn handler(args) { `20 degrees in ${args.city}` }
"#;

/// Filters that change the text at every place where they can.
const LOUD: &str = r#"
fn stream(event) { event.text = regex::replace(event.text, "hello", "HELLO"); event }
fn outlet(body) { body.messages[-1].text += " (seen)"; body }
"#;

/// A provider that passes on any model and is unreachable.
const AWAY: &str =
    "[[providers]]\nname = \"away\"\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\nmodels = \"*\"";

/// Returns a question in Anthropic's format.
fn question(model: &str, text: &str) -> Value {
    json!({"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": text}]})
}

fn streamed(mut body: Value) -> Value {
    body["stream"] = json!(true);
    body
}

/// Returns the content of a stream's events. Each block must end before the next one begins.
fn content(answer: &Answer) -> Value {
    ReceivedMessage::of(&answer.typed_events()).blocks.into()
}

fn names(answer: &Answer) -> Vec<String> {
    answer.typed_events().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_openai_client_uses_anthropic_models_through_filters_and_tools() {
    let (claude, config) = claude::start().await;
    let host =
        TestHost::new().config(&config).tool("get_weather", WEATHER).filter("loud", LOUD).start().await;
    for body in [chat_body("claude-1", "hi"), streaming("claude-1", "hi")] {
        assert_eq!(host.chat(&body).await.text(), "HELLO from claude (seen)");
    }
    let request = claude.last();
    assert_eq!(
        (request.path.as_str(), request.headers["x-api-key"].to_str().unwrap()),
        ("/v1/messages", "sk-claude")
    );
    // The host runs the tool; the thinking before the call is sent back with its signature, or the service
    // would refuse the result.
    for body in [chat_body("clerk", "call get_weather"), streaming("clerk", "call get_weather")] {
        let text = host.chat(&body).await.text();
        assert!(text.ends_with("The tool said: 20 degrees in Bonn (seen)"), "{text}");
        assert!(claude.last().text().contains(SIGNATURE));
    }
    // The client runs the tool.
    let mut body = chat_body("claude-1", "call open_door");
    body["tools"] =
        json!([{"type": "function", "function": {"name": "open_door", "parameters": {"type": "object"}}}]);
    let answer = host.chat(&body).await.json();
    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(answer["choices"][0]["message"]["reasoning_content"], "I need a tool.");
    assert_eq!(answer["usage"]["prompt_tokens"], 7);
    let message = answer["choices"][0]["message"].clone();
    let result = json!({"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "open"});
    body["messages"].as_array_mut().unwrap().extend([message, result]);
    assert_eq!(host.chat(&body).await.text(), "The tool said: open (seen)");
}

#[tokio::test]
async fn anthropic_errors_reach_an_openai_client() {
    let (_claude, config) = claude::start().await;
    let host = TestHost::new().config(&config).start().await;
    for body in [chat_body("claude-1", "busy"), streaming("claude-1", "busy")] {
        let answer = host.chat(&body).await;
        assert_eq!((answer.status, answer.header("retry-after")), (529, Some("3")));
        assert_eq!(answer.message(), "Overloaded");
    }
    assert_eq!(host.chat(&streaming("claude-1", "late")).await.message(), "Overloaded");
    assert!(host.chat(&streaming("claude-1", "cut")).await.message().contains("ended early"));
    let mut body = chat_body("claude-1", "hi");
    body["n"] = json!(2);
    host.chat(&body).await.refused(400, "cannot send n to Anthropic's models");
}

#[tokio::test]
async fn an_anthropic_client_uses_any_model_through_filters_and_tools() {
    let host = TestHost::new()
        .config(crate::tools::HELPER)
        .tool("counters", crate::tools::COUNTERS)
        .filter("loud", LOUD)
        .start()
        .await;
    host.upstream.script(|request| Reply::fitting(request, "hello from upstream"));
    let answer = host.message(&question(MODEL, "hi")).await.json();
    assert_eq!(answer["content"], json!([{"type": "text", "text": "HELLO from upstream (seen)"}]));
    assert_eq!(
        (&answer["stop_reason"], &answer["role"], &answer["type"]),
        (&json!("end_turn"), &json!("assistant"), &json!("message"))
    );
    assert_eq!(answer["usage"]["input_tokens"], 1);
    let stream = host.message(&streamed(question(MODEL, "hi"))).await;
    assert_eq!(content(&stream), json!([{"type": "text", "text": "HELLO from upstream (seen)"}]));
    let names = names(&stream);
    assert_eq!((names[0].as_str(), names[names.len() - 1].as_str()), ("message_start", "message_stop"));
    assert_eq!(names.iter().filter(|name| *name == "message_delta").count(), 1);
    assert!(host.upstream.last().text().contains(r#""max_completion_tokens":100"#));
    for body in [question("helper", "/count_apples"), streamed(question("helper", "/count_apples"))] {
        let answer = host.message(&body).await;
        assert!(answer.body().contains("apples"), "{}", answer.body());
    }
}

#[tokio::test]
async fn other_services_receive_no_anthropic_fields() {
    let host = TestHost::new().start().await;
    let cached = json!({"type": "ephemeral"});
    let body = json!({"model": MODEL, "max_tokens": 9, "thinking": {"type": "enabled", "budget_tokens": 1024}, "top_k": 4,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": cached}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": cached}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "b"}]},
            {"role": "user", "content": "c"}]});
    for body in [body.clone(), streamed(body)] {
        assert_eq!(host.message(&body).await.status, 200);
        let mut sent = host.upstream.last().json();
        for key in ["stream", "stream_options"] {
            sent.as_object_mut().unwrap().remove(key);
        }
        let messages = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"},
                              {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]);
        assert_eq!(
            sent,
            json!({"model": MODEL, "messages": messages, "max_completion_tokens": 9, "reasoning_effort": "low"})
        );
    }
}

#[tokio::test]
async fn anthropic_requests_reach_anthropic_without_loss() {
    let (claude, config) = claude::start().await;
    let host = TestHost::new().config(&config).start().await;
    let expected = json!(claude::search());
    let answer = host.message(&question("claude-1", "search")).await.json();
    assert_eq!(answer["content"], expected);
    assert_eq!(content(&host.message(&streamed(question("claude-1", "search"))).await), expected);
    let counts = json!({"input_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 2, "output_tokens": 9});
    assert_eq!(answer["usage"], counts);

    // The service receives a message unchanged.
    let mut body = question("claude-1", "and?");
    let cached = json!([{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}]);
    body["system"] = cached.clone();
    body["thinking"] = json!({"type": "adaptive"});
    body["messages"] = json!([
        {"role": "user", "content": cached},
        {"role": "assistant", "content": expected},
        {"role": "user", "content": [{"type": "text", "text": "and?"}]},
    ]);
    let request = host
        .request("POST", "/v1/messages")
        .header("anthropic-beta", "one,two")
        .header("anthropic-beta", "three");
    let answer = Answer::of(request.body(body.to_string())).await;
    assert_eq!(answer.status, 200, "{}", answer.body());
    let service_request = claude.last();
    body["stream"] = json!(false);
    assert_eq!(service_request.json(), body);
    assert_eq!(service_request.headers["anthropic-beta"], "one,two,three");
    let error = host.message(&question("claude-1", "busy")).await;
    let expected = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_1"});
    assert_eq!((error.status, error.json()), (529, expected));
}

#[tokio::test]
async fn errors_have_the_shape_of_anthropic_and_the_right_status() {
    let refuse = r#"fn inlet(body) { throw #{ status: 429, message: "slowly", retry_after: 2 } }"#;
    let host = TestHost::new().config("[server]\nkeys = [\"sk-ann\"]").filter("refuse", refuse).start().await;
    let ask = |key: &'static str, body: String| {
        let request = host.request("POST", "/v1/messages").header("x-api-key", key).body(body);
        Answer::of(request)
    };
    let body = question(MODEL, "hi").to_string();
    for (answer, status, kind, words) in [
        (ask("sk-bob", body.clone()).await, 401, "authentication_error", "expected one of"),
        (ask("sk-ann", "{".into()).await, 400, "invalid_request_error", "not valid JSON"),
        (
            ask("sk-ann", r#"{"model":"m","messages":[]}"#.into()).await,
            400,
            "invalid_request_error",
            "max_tokens",
        ),
        (ask("sk-ann", body).await, 429, "rate_limit_error", "slowly"),
        (ask("sk-ann", streamed(question(MODEL, "hi")).to_string()).await, 429, "rate_limit_error", "slowly"),
    ] {
        let error = answer.json();
        assert_eq!(
            (answer.status, &error["type"], &error["error"]["type"]),
            (status, &json!("error"), &json!(kind))
        );
        assert!(error["error"]["message"].as_str().unwrap().contains(words), "{error}");
        assert_eq!(answer.header("retry-after").is_some(), status == 429);
        assert!(answer.generation() > 0);
    }
}

#[tokio::test]
async fn an_interrupted_stream_ends_with_one_error() {
    let host = TestHost::new().start().await;
    host.upstream.reply(Reply::begun(["half an "]).then_cut());
    let answer = host.message(&streamed(question(MODEL, "hi"))).await;
    let last = answer.typed_events().pop().unwrap();
    assert_eq!((&last["type"], &last["error"]["type"]), (&json!("error"), &json!("api_error")), "{last}");
    assert!(!names(&answer).contains(&"message_stop".to_owned()));
}

#[tokio::test]
async fn a_disconnected_client_ends_the_model_call() {
    let (claude, config) = claude::start().await;
    let host = TestHost::new().config(&config).start().await;
    let start = r#"data: {"type":"message_start","message":{"id":"m","model":"m","usage":{}}}"#;
    claude.reply(Reply::raw("text/event-stream", format!("{start}\n\n")).then_pause(crate::host::TIMEOUT));
    let request = host.request("POST", "/v1/messages").body(streamed(question("claude-1", "hi")).to_string());
    let mut response = request.send().await.unwrap();
    let first = response.chunk().await.unwrap().unwrap();
    assert!(first.starts_with(b"event: message_start"));
    drop(response);
    claude.was_deserted(1).await;
}

#[tokio::test]
async fn emitted_events_reach_clients_that_request_them() {
    let emit = r#"fn inlet(body) { emit(#{ type: "status", data: "working" }); body }"#;
    let host = TestHost::new().filter("emit", emit).start().await;
    let request = host.request("POST", "/v1/messages").header("x-valvehouse-events", "1");
    let answer = Answer::of(request.body(streamed(question(MODEL, "hi")).to_string())).await;
    let emitted = answer.typed_events().into_iter().find(|event| event["type"] == "valvehouse").unwrap();
    assert_eq!(emitted["event"]["data"], "working");
    let answer = host.message(&question(MODEL, "hi")).await;
    assert!(answer.header("x-valvehouse-events").unwrap().contains("working"));
}

#[tokio::test]
async fn models_are_listed_in_the_format_of_the_client() {
    // A second provider, so that an unknown model has no default.
    let host = TestHost::new().config(AWAY).start().await;
    let list = |version: bool, path: &'static str| {
        let request = host.request("GET", path);
        Answer::of(if version { request.header("anthropic-version", "2023-06-01") } else { request })
    };
    let theirs = list(true, "/v1/models").await.json();
    assert_eq!((&theirs["has_more"], &theirs["data"][0]["type"]), (&json!(false), &json!("model")));
    assert_eq!(theirs["first_id"], theirs["data"][0]["id"]);
    assert_eq!(list(false, "/v1/models").await.json()["object"], "list");
    let one = list(true, "/v1/models/mock-1").await.json();
    assert_eq!((&one["id"], &one["created_at"]), (&json!("mock-1"), &json!("1970-01-01T00:00:07Z")));
    let none = list(true, "/v1/models/demmo").await;
    assert_eq!(
        (none.status, &none.json()["error"]["type"]),
        (404, &json!("not_found_error")),
        "{}",
        none.body()
    );
}
