//! Requests are adapted to what their service accepts, after all filters.

use crate::host::{Answer, TestHost};
use crate::traces::trace_of;
use crate::upstream::{MODEL, Reply, chunk};
use serde_json::{Value, json};

const LONG: [&str; 2] = [
    "mcp__enterprise_privileged__get_failed_pipeline_jobs_from_merge_requests_a",
    "mcp__enterprise_privileged__get_failed_pipeline_jobs_from_merge_requests_b",
];

/// Refuses tools without the client's name, and calls with another one.
const WATCH: &str = r#"
fn inlet(body) { if !json::stringify(body).contains("merge_requests_b") { throw "no name in the request" } body }
fn stream(event) {
    let text = json::stringify(event);
    if text.contains("call_1") && !text.contains("merge_requests_b") { throw "no name in the stream" }
    event
}
fn outlet(body) { if !json::stringify(body).contains("merge_requests_b") { throw "no name in the answer" } body }
"#;

fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}})
}

/// Answers with a call of the second tool, by the name that the service received.
fn calls_the_second(host: &TestHost) {
    host.upstream.script(|request| {
        let body = request.json();
        let name = body["tools"][1]["function"]["name"].clone();
        let call = json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": "{}"}});
        match body["stream"] == true {
            true => Reply::raw(
                "text/event-stream",
                [
                    chunk(&json!({"tool_calls": [call]}), None),
                    chunk(&json!({}), Some("tool_calls")),
                    "data: [DONE]\n\n".to_owned(),
                ]
                .concat(),
            ),
            false => Reply::json(&json!({"id": "c", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [
                {"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": [call]}, "finish_reason": "tool_calls"}]})),
        }
    });
}

#[tokio::test]
async fn a_client_and_filters_see_long_names_of_tools_whole() {
    for filter in [None, Some(WATCH)] {
        let setup = TestHost::new();
        let host = match filter {
            Some(filter) => setup.filter("watch", filter).start().await,
            None => setup.start().await,
        };
        calls_the_second(&host);
        for stream in [false, true] {
            let choice = json!({"type": "function", "function": {"name": LONG[1]}});
            let body = json!({"model": MODEL, "stream": stream, "messages": [{"role": "user", "content": "jobs?"}],
                "tools": LONG.map(tool), "tool_choice": choice});
            let answer = Answer::of(host.posting(body.to_string())).await;
            assert_eq!(answer.status, 200, "{}", answer.body());
            assert!(answer.body().contains(LONG[1]), "{}", answer.body());
            assert_eq!(answer.header("x-valvehouse-adapted"), Some("tools.name"));
            let sent = host.upstream.last().json();
            let name = sent["tools"][1]["function"]["name"].as_str().unwrap();
            assert!(name.len() <= 64 && name != sent["tools"][0]["function"]["name"], "{sent}");
            assert_eq!(sent["tool_choice"]["function"]["name"], name);
            let lines = trace_of(&host, &answer).await["lines"].to_string();
            assert!(lines.contains("adapted in the request: tools.name"), "{lines}");
        }
    }
}

#[tokio::test]
async fn a_request_within_the_limits_is_sent_byte_for_byte() {
    let host = TestHost::new().start().await;
    host.upstream.script(|request| Reply::fitting(request, "hello"));
    let user = "u".repeat(64);
    let body = format!(
        r#"{{"model":"{MODEL}", "user":"{user}","max_tokens" :1,"tools":[ {{"type":"function","function":{{"name":"{}","parameters":{{"type":"object","properties":{{"a":{{"type":"array","items":{{}}}}}}}}}}}}],"tool_choice":"auto","messages":[{{"role":"user","content":"h\u00e9"}},{{"role":"assistant","content":null,"tool_calls":[{{"id":"{}","type":"function","function":{{"name":"f","arguments":""}}}}]}},{{"role":"tool","tool_call_id":"{}","content":""}}]}}"#,
        "n".repeat(64),
        "i".repeat(40),
        "i".repeat(40),
    );
    let answer = Answer::of(host.posting(body.clone())).await;
    assert_eq!((answer.status, answer.header("x-valvehouse-adapted")), (200, None));
    assert_eq!(host.upstream.last().text(), body);
}

#[tokio::test]
async fn a_client_without_filters_gets_its_request_adapted_too() {
    let host = TestHost::new().start().await;
    host.upstream.script(|request| Reply::fitting(request, "hello"));
    for (more, names) in [
        (
            json!({"tools": [], "tool_choice": "auto", "parallel_tool_calls": true}),
            "tools, tool_choice, parallel_tool_calls",
        ),
        (json!({"user": "u".repeat(65)}), "user"),
        (json!({"max_tokens": 0}), "max_tokens"),
        (json!({"max_completion_tokens": -1}), "max_completion_tokens"),
    ] {
        for stream in [false, true] {
            let mut body =
                json!({"model": MODEL, "stream": stream, "messages": [{"role": "user", "content": "hi"}]});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let answer = Answer::of(host.posting(body.to_string())).await;
            assert_eq!((answer.status, answer.header("x-valvehouse-adapted")), (200, Some(names)));
            let sent = host.upstream.last().json();
            assert!(sent["user"].as_str().is_none_or(|user| user.len() <= 64), "{sent}");
            assert!(sent.get("tools").is_none() && sent.get("tool_choice").is_none(), "{sent}");
            assert!(sent.get("max_completion_tokens").is_none() && sent["max_tokens"] != 0, "{sent}");
        }
    }
}

/// Refuses what a test names in the text of a request, in the words of a service.
fn refuses(host: &TestHost, word: &'static str, error: Value) {
    host.upstream.script(move |request| match request.text().contains(word) {
        true => Reply::json(&json!({"error": error})).status(400),
        false => Reply::fitting(request, "hello"),
    });
}

fn refusal(message: &str) -> Value {
    json!({"message": message, "type": "invalid_request_error", "param": null, "code": null})
}

#[tokio::test]
async fn a_refusal_that_tells_what_to_change_is_answered_by_a_changed_request_and_remembered() {
    const PICTURE: &str = "data:image/png;base64,iVBORw0KGgo=";
    let picture = json!({"type": "image_url", "image_url": {"url": PICTURE}});
    let tool = tool("f");
    for (word, message, more, content) in [
        ("seed", "Unrecognized request argument supplied: seed", json!({"seed": 7}), json!("hi")),
        ("top_p", "top_p: Extra inputs are not permitted", json!({"top_p": 0.5}), json!("hi")),
        (
            "9000",
            "max_tokens is too large: 9000. This model supports at most 4096 completion tokens",
            json!({"max_tokens": 9000}),
            json!("hi"),
        ),
        (
            "xhigh",
            "Unsupported value: 'reasoning_effort' does not support 'xhigh'. Supported values are: 'low' and 'high'.",
            json!({"reasoning_effort": "xhigh"}),
            json!("hi"),
        ),
        (
            "required",
            "Thinking mode does not support this tool_choice",
            json!({"tools": [tool.clone()], "tool_choice": "required", "reasoning_effort": "none"}),
            json!("hi"),
        ),
        (
            "defer_loading",
            "tools.0.custom.defer_loading: Extra inputs are not permitted",
            json!({"tools": [{"type": "function", "defer_loading": true, "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]}),
            json!("hi"),
        ),
        (
            PICTURE,
            "unknown variant `image_url`, expected `text`",
            json!({}),
            json!([{"type": "text", "text": "hi"}, picture]),
        ),
    ] {
        for filter in [None, Some("fn inlet(body) { body }")] {
            let setup = TestHost::new();
            let host = match filter {
                Some(filter) => setup.filter("same", filter).start().await,
                None => setup.start().await,
            };
            refuses(&host, word, refusal(message));
            let mut body = json!({"model": MODEL, "messages": [{"role": "user", "content": content}]});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            for requests in [2, 3] {
                let answer = Answer::of(host.posting(body.to_string())).await;
                assert_eq!(answer.status, 200, "{message}: {}", answer.body());
                assert!(answer.header("x-valvehouse-adapted").is_some(), "{message}");
                assert_eq!(host.upstream.requests().len(), requests, "{message}, {filter:?}");
                assert!(host.upstream.last().text().contains("hi"));
                let lines = trace_of(&host, &answer).await["lines"].to_string();
                assert!(filter.is_none() || lines.contains("adapted in the request"), "{lines}");
            }
        }
    }
}

#[tokio::test]
async fn other_refusals_reach_the_client_at_once_and_changes_come_to_an_end() {
    let host = TestHost::new().start().await;
    for message in
        ["temperature must be a number", "'messages' are not supported", "Unknown parameter: 'seed'"]
    {
        refuses(&host, "temperature", refusal(message));
        let before = host.upstream.requests().len();
        let answer = Answer::of(
            host.posting(
                json!({"model": MODEL, "temperature": 0.5, "messages": [{"role": "user", "content": "hi"}]})
                    .to_string(),
            ),
        )
        .await;
        assert_eq!((answer.status, host.upstream.requests().len() - before), (400, 1), "{message}");
        assert!(answer.body().contains(message));
    }
    // The named field is gone, and the service refuses the request again.
    refuses(&host, "model", refusal("Unsupported parameter: 'temperature'"));
    let before = host.upstream.requests().len();
    let body = json!({"model": MODEL, "temperature": 0.5, "messages": [{"role": "user", "content": "hi"}]});
    let answer = Answer::of(host.posting(body.to_string())).await;
    assert_eq!((answer.status, host.upstream.requests().len() - before), (400, 2));
}
