//! The extras that services send with an answer and expect back, such as signatures and thinking: they return although
//! the protocol of the client, the client itself or a filter loses them.

use crate::host::{Answer, TestHost};
use crate::upstream::{Reply, UpstreamRequest};
use serde_json::{Value, json};

const CLIENTS: [&str; 4] = ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat"];

/// The services: the settings of their provider.
const SERVICES: [&str; 4] =
    ["kind = \"gemini\"", "kind = \"moonshot\"", "kind = \"anthropic\"", "api = \"responses\""];

/// A filter that changes the thinking that clients see.
const MASKS: &str =
    "fn stream(event) { event.reasoning = regex::replace(event.reasoning, \"need\", \"****\"); event }";

const THOUGHT: &str = "I need it.";

/// Returns the first answer of a service, a call with its extras, and a text afterwards.
fn service(request: &UpstreamRequest) -> Reply {
    let body = request.json();
    let is_second = body.to_string().contains("21 degrees");
    let events = match (request.path.as_str(), is_second) {
        ("/v1/chat/completions", false) => chat_events(),
        ("/v1/chat/completions", true) => vec![chat_chunk(json!({"content": "mild"}), Some("stop"))],
        ("/v1/messages", false) => message_events(),
        ("/v1/messages", true) => block_events(&[json!({"type": "text", "text": "mild"})], "end_turn"),
        (_, false) => response_events(&[
            json!({"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHT}], "encrypted_content": "gAAA+/=="}),
            json!({"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{\"city\":\"Rome\",\"days\":2}"}),
        ]),
        (_, true) => response_events(&[json!({"id": "m_1", "type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": "mild", "annotations": []}]})]),
    };
    // A stream is accepted for a whole answer too.
    let text: String = events
        .iter()
        .map(|event| match event["type"].as_str() {
            Some(name) => format!("event: {name}\ndata: {event}\n\n"),
            None => format!("data: {event}\n\n"),
        })
        .collect();
    Reply::raw("text/event-stream", text)
}

fn chat_chunk(delta: Value, finish: Option<&str>) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

fn chat_events() -> Vec<Value> {
    let function = json!({"name": "weather", "arguments": "{\"city\":\"Rome\","});
    let call = json!({"index": 0, "id": "c1", "type": "function", "function": function,
        "extra_content": {"google": {"thought_signature": "c2ln"}}});
    vec![
        chat_chunk(json!({"role": "assistant", "reasoning_content": "I need "}), None),
        chat_chunk(json!({"reasoning_content": "it."}), None),
        chat_chunk(json!({"tool_calls": [call]}), None),
        chat_chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": "\"days\":2}"}}]}), None),
        chat_chunk(json!({}), Some("tool_calls")),
    ]
}

fn message_events() -> Vec<Value> {
    let blocks = [
        json!({"type": "thinking", "thinking": THOUGHT, "signature": "sig=="}),
        json!({"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Rome", "days": 2}}),
    ];
    block_events(&blocks, "tool_use")
}

fn block_events(blocks: &[Value], stop: &str) -> Vec<Value> {
    let start = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "usage": {"input_tokens": 1, "output_tokens": 1}});
    let mut events = vec![json!({"type": "message_start", "message": start})];
    for (at, block) in blocks.iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": at, "content_block": block}));
        events.push(json!({"type": "content_block_stop", "index": at}));
    }
    events.push(
        json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 2}}),
    );
    events.push(json!({"type": "message_stop"}));
    events
}

fn response_events(items: &[Value]) -> Vec<Value> {
    let response = |output: &[Value]| json!({"id": "r", "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": output});
    let mut events = vec![json!({"type": "response.created", "response": response(&[])})];
    for (at, item) in items.iter().enumerate() {
        events.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
    }
    events.push(json!({"type": "response.completed", "response": response(items)}));
    events
}

/// Returns a request of a client that returns of a call only what its protocol requires.
fn request(path: &str, text: &str, is_second: bool, stream: bool) -> Value {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let function = json!({"name": "weather", "parameters": schema});
    let arguments = json!({"days": 2, "city": "Rome"});
    let (result, written) = ("21 degrees", arguments.to_string());
    let mut body = match path {
        "/v1/responses" => {
            json!({"tools": [{"type": "function", "name": "weather", "parameters": schema}], "store": false,
            "input": [{"role": "user", "content": text},
                {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": written},
                {"type": "function_call_output", "call_id": "c1", "output": result}]})
        }
        "/v1/messages" => json!({"max_tokens": 4000, "thinking": {"type": "enabled", "budget_tokens": 1024},
            "tools": [{"name": "weather", "input_schema": schema}],
            "messages": [{"role": "user", "content": text},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": arguments}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": result}]}]}),
        "/api/chat" => json!({"tools": [{"type": "function", "function": function}],
            "messages": [{"role": "user", "content": text},
                {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "weather", "arguments": arguments}}]},
                {"role": "tool", "content": result}]}),
        _ => json!({"tools": [{"type": "function", "function": function}],
            "messages": [{"role": "user", "content": text},
                {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": written}}]},
                {"role": "tool", "tool_call_id": "c1", "content": result}]}),
    };
    body["model"] = json!("m");
    body["stream"] = json!(stream);
    let list = if path == "/v1/responses" { "input" } else { "messages" };
    if !is_second {
        body[list].as_array_mut().unwrap().truncate(1);
    }
    body
}

async fn post(host: &TestHost, key: &str, path: &str, body: &Value) -> Answer {
    let request = host.request("POST", path).header("content-type", "application/json");
    let request = request.header("authorization", format!("Bearer {key}")).body(body.to_string());
    let answer = Answer::of(request).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body());
    answer
}

/// Returns `true` if a request has everything that its service sent with its call.
fn has_extras(sent: &Value) -> bool {
    if let Some(input) = sent.get("input") {
        let reasoning = input.as_array().unwrap().iter().find(|item| item["type"] == "reasoning");
        return reasoning.is_some_and(|item| item["encrypted_content"] == "gAAA+/==");
    }
    let assistant = &sent["messages"][1];
    if let Some(blocks) = assistant["content"].as_array() {
        let thinking = json!({"type": "thinking", "thinking": THOUGHT, "signature": "sig=="});
        return blocks[0] == thinking && sent["thinking"]["type"] != "disabled";
    }
    // Plain thinking that the host still has in its changed form is sent in this form.
    (assistant["reasoning_content"] == THOUGHT || assistant["reasoning_content"] == "I **** it.")
        && assistant["tool_calls"][0]["extra_content"]["google"]["thought_signature"] == "c2ln"
}

#[tokio::test]
async fn what_a_service_sent_with_a_call_returns_to_it_over_every_protocol() {
    for settings in SERVICES {
        for filter in [None, Some(MASKS)] {
            let host = TestHost::new().provider(settings);
            let host =
                filter.into_iter().fold(host, |host, filter| host.filter("masks", filter)).start().await;
            host.upstream.script(service);
            for path in CLIENTS {
                for stream in [false, true] {
                    let place = format!("{settings}, {path}, stream {stream}, filter {}", filter.is_some());
                    let text = format!("weather? {place}");
                    let first = post(&host, "any", path, &request(path, &text, false, stream)).await;
                    assert!(filter.is_none() || !first.body().contains(THOUGHT), "{place}");
                    let second = post(&host, "any", path, &request(path, &text, true, stream)).await;
                    let sent = host.upstream.last().json();
                    assert!(has_extras(&sent), "{place}: {sent}");
                    assert_eq!(second.header("x-valvehouse-left-out"), None, "{place}");
                }
            }
        }
    }
}

#[tokio::test]
async fn the_loop_of_the_host_keeps_what_a_filter_changed_for_the_service() {
    let tool = "/*\ndescription: The weather.\n*/\nconst parameters = #{ city: #{ type: \"string\" }, days: #{ type: \"integer\" } };\nfn handler(args) { \"21 degrees\" }\n";
    for settings in SERVICES {
        let host = TestHost::new()
            .provider(settings)
            .config(
                "[[models]]\nname = \"clerk\"\nprovider = \"mock\"\nmodel = \"m\"\ntools = [\"weather\"]\n",
            )
            .tool("weather", tool)
            .filter("masks", MASKS)
            .start()
            .await;
        host.upstream.script(service);
        for stream in [false, true] {
            let body = json!({"model": "clerk", "stream": stream, "messages": [{"role": "user", "content": "weather?"}]});
            let answer = host.chat(&body).await;
            assert!(answer.text().contains("mild"), "{}", answer.body());
            assert!(!answer.body().contains(THOUGHT));
            let sent = host.upstream.last().json();
            assert!(has_extras(&sent), "{settings}: {sent}");
        }
    }
}

#[tokio::test]
async fn a_client_never_causes_the_extras_of_another_to_be_sent() {
    let keys = "[server]\nkeys = [\"sk-ann-0123456789\", \"sk-bob-0123456789\"]";
    for settings in SERVICES {
        let host = TestHost::new().provider(settings).config(keys).start().await;
        host.upstream.script(service);
        for path in CLIENTS {
            post(&host, "sk-ann-0123456789", path, &request(path, "weather?", false, true)).await;
            for (key, is_own) in [("sk-bob-0123456789", false), ("sk-ann-0123456789", true)] {
                post(&host, key, path, &request(path, "weather?", true, true)).await;
                let sent = host.upstream.last().json();
                assert_eq!(has_extras(&sent), is_own, "{settings}, {path}, {key}: {sent}");
            }
        }
    }
}

#[tokio::test]
async fn lost_thinking_is_reported() {
    let host = TestHost::new().provider("kind = \"anthropic\"").start().await;
    host.upstream.script(service);
    let answer = host.message(&request("/v1/messages", "weather?", true, false)).await;
    assert_eq!(host.upstream.last().json()["thinking"], json!({"type": "disabled"}));
    assert_eq!(answer.header("x-valvehouse-left-out"), Some("thinking"));
}

#[tokio::test]
async fn a_wish_to_think_or_not_reaches_every_service() {
    let wishes = [
        (
            "/api/chat",
            json!({"think": false}),
            [json!("none"), Value::Null, json!({"type": "disabled"}), json!({"effort": "none"})],
        ),
        (
            "/v1/messages",
            json!({"max_tokens": 9, "thinking": {"type": "disabled"}}),
            [json!("none"), Value::Null, json!({"type": "disabled"}), json!({"effort": "none"})],
        ),
        (
            "/v1/responses",
            json!({"reasoning": {"effort": "none"}}),
            [json!("none"), Value::Null, json!({"type": "disabled"}), json!({"effort": "none"})],
        ),
        (
            "/v1/messages",
            json!({"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 8500}}),
            [
                json!("medium"),
                json!("medium"),
                json!({"type": "enabled", "budget_tokens": 8500}),
                json!({"summary": "auto", "effort": "medium"}),
            ],
        ),
        (
            "/api/chat",
            json!({"think": "high"}),
            [
                json!("high"),
                json!("high"),
                json!({"type": "adaptive", "display": "summarized"}),
                json!({"summary": "auto", "effort": "high"}),
            ],
        ),
        (
            "/v1/responses",
            json!({"reasoning": {"summary": "auto"}}),
            [
                Value::Null,
                Value::Null,
                json!({"type": "adaptive", "display": "summarized"}),
                json!({"summary": "auto"}),
            ],
        ),
    ];
    let services =
        ["kind = \"openai\"", "kind = \"moonshot\"", "kind = \"anthropic\"", "api = \"responses\""];
    for (at, settings) in services.into_iter().enumerate() {
        let host = TestHost::new().provider(settings).start().await;
        host.upstream.script(service);
        for (path, wish, expected) in &wishes {
            let mut body = request(path, "hi", false, false);
            body.as_object_mut().unwrap().remove("tools");
            body["model"] = json!("claude-x");
            body.as_object_mut().unwrap().extend(wish.as_object().unwrap().clone());
            post(&host, "any", path, &body).await;
            let sent = host.upstream.last().json();
            let key = ["reasoning_effort", "reasoning_effort", "thinking", "reasoning"][at];
            assert_eq!(sent[key], expected[at], "{settings}, {path} {wish}: {sent}");
            if settings.contains("moonshot")
                && expected[at].is_null()
                && wish["reasoning"]["summary"].is_null()
            {
                assert_eq!(sent["thinking"], json!({"type": "disabled"}), "{sent}");
            }
        }
    }
}
