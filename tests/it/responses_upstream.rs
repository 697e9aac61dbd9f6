//! Services with the Responses API: `api = "responses"` of a provider.

use crate::host::{Answer, TestHost};
use crate::traces::trace_of;
use crate::upstream::{Reply, Upstream, UpstreamRequest};
use serde_json::{Value, json};

/// Shows that filters receive the texts in both directions.
const LOUD: &str = r#"
fn inlet(body) { body.messages[-1].text = regex::replace(body.messages[-1].text, "secret", "[masked]"); body }
fn stream(event) { event.text = regex::replace(event.text, "cold", "COLD"); event }
fn outlet(body) { body.messages[-1].text = regex::replace(body.messages[-1].text, "cold", "COLD"); body }
"#;

/// Returns the items of the service: encrypted reasoning, a built-in search, text and, if it is offered a
/// function, a call.
fn items(body: &Value) -> Vec<Value> {
    let mut items = vec![
        json!({"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "gAAA+/=="}),
        json!({"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}}),
        json!({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "It is cold.", "annotations": []}]}),
    ];
    let tools = body["tools"].as_array().into_iter().flatten();
    let is_question = body["input"].as_array().unwrap().last().unwrap()["role"] == "user";
    if tools.into_iter().any(|tool| tool["name"] == "weather") && is_question {
        items.push(json!({"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "weather",
            "arguments": "{\"city\":\"Oslo\"}", "status": "completed"}));
    }
    items
}

fn service(request: &UpstreamRequest) -> Reply {
    assert_eq!(request.path, "/v1/responses");
    let body = request.json();
    if body["input"].to_string().contains("limited") {
        let error = json!({"error": {"code": "rate_limit_exceeded", "message": "Please try again in 2s.", "type": "requests"}});
        return Reply::json(&error).status(429);
    }
    let items = items(&body);
    let usage = json!({"input_tokens": 7, "input_tokens_details": {"cached_tokens": 2}, "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 12});
    let response = |status: &str, output: &[Value]| {
        json!({"id": "resp_up", "object": "response", "created_at": 9, "status": status, "model": "mock-1",
            "error": null, "incomplete_details": null, "output": output, "usage": usage})
    };
    if body["stream"] != true {
        return Reply::json(&response("completed", &items));
    }
    let mut events = vec![json!({"type": "response.created", "response": response("in_progress", &[])})];
    for (at, item) in items.iter().enumerate() {
        let place =
            |kind: &str, key: &str, value: Value| json!({"type": kind, "output_index": at, key: value});
        let mut begun = item.clone();
        if begun.get("arguments").is_some() {
            begun["arguments"] = json!("");
        }
        events.push(place("response.output_item.added", "item", begun));
        match item["type"].as_str().unwrap() {
            "reasoning" => events.push(place("response.reasoning_summary_text.delta", "delta", json!("Hm."))),
            "message" => {
                for text in ["It is ", "cold."] {
                    events.push(place("response.output_text.delta", "delta", json!(text)));
                }
            }
            "function_call" => {
                for text in ["{\"city\":", "\"Oslo\"}"] {
                    events.push(place("response.function_call_arguments.delta", "delta", json!(text)));
                }
            }
            _ => {}
        }
        events.push(place("response.output_item.done", "item", item.clone()));
    }
    events.push(json!({"type": "response.completed", "response": response("completed", &items)}));
    let events: String = events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect();
    Reply::raw("text/event-stream", events)
}

async fn host() -> TestHost {
    let host = TestHost::new()
        .config("[[models]]\nname = \"mock-1\"\nprovider = \"mock\"")
        .provider("api = \"responses\"")
        .filter("loud", LOUD)
        .start()
        .await;
    host.upstream.script(service);
    host
}

fn function() -> Value {
    json!({"type": "function", "name": "weather", "parameters": {"type": "object"}})
}

/// Returns the response, streamed or not.
async fn respond(host: &TestHost, mut body: Value, stream: bool) -> Value {
    body["model"] = json!("mock-1");
    if stream {
        body["stream"] = json!(true);
    }
    let answer = host.respond(&body).await;
    assert_eq!(answer.status, 200, "{}", answer.body());
    assert_eq!(answer.header("x-valvehouse-left-out"), None);
    match stream {
        false => answer.json(),
        true => {
            let last = answer.body().trim_end().rsplit("data: ").next().unwrap();
            serde_json::from_str::<Value>(last).unwrap()["response"].clone()
        }
    }
}

fn kinds(items: &Value) -> Vec<&str> {
    items.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn reasoning_and_hosted_tools_pass_unchanged_between_responses_client_and_service() {
    let host = host().await;
    let tools = json!([{"type": "web_search", "search_context_size": "low"}, function()]);
    for stream in [false, true] {
        let ask = json!({"input": "a secret", "tools": tools, "tool_choice": {"type": "web_search"}, "max_tool_calls": 3,
            "reasoning": {"effort": "low", "summary": "auto"}, "include": ["reasoning.encrypted_content"]});
        let first = respond(&host, ask, stream).await;
        let sent = host.upstream.last().json();
        assert_eq!(sent["input"][0]["content"], "a [masked]", "a filter acts: {sent}");
        assert_eq!(sent["tools"][0], json!({"type": "web_search", "search_context_size": "low"}), "{sent}");
        assert_eq!(sent["tools"][1]["name"], "weather", "{sent}");
        let wishes = (&sent["tool_choice"], &sent["max_tool_calls"], &sent["reasoning"]);
        assert_eq!(
            wishes,
            (&json!({"type": "web_search"}), &json!(3), &json!({"effort": "low", "summary": "auto"}))
        );
        assert_eq!((&sent["store"], &sent["previous_response_id"]), (&json!(false), &json!(null)), "{sent}");

        let output = &first["output"];
        assert_eq!(kinds(output), ["reasoning", "web_search_call", "message", "function_call"], "{first}");
        assert_eq!(output[0]["encrypted_content"], "gAAA+/==", "{first}");
        assert_eq!(output[0]["summary"][0]["text"], "Hm.", "{first}");
        assert_eq!(output[1], items(&sent)[1], "{first}");
        assert_eq!(output[2]["content"][0]["text"], "It is COLD.", "{first}");
        let usage = &first["usage"];
        assert_eq!(
            (&usage["input_tokens"], &usage["output_tokens_details"]["reasoning_tokens"]),
            (&json!(7), &json!(3))
        );

        // All items are sent back, either as items or through the stored response.
        let result = json!({"type": "function_call_output", "call_id": "call_1", "output": "3"});
        let mut items = output.as_array().unwrap().clone();
        items.insert(0, json!({"role": "user", "content": "a secret"}));
        items.push(result.clone());
        let by_id = json!({"input": [result], "previous_response_id": first["id"], "tools": tools});
        for body in [json!({"input": items, "tools": tools}), by_id] {
            let second = respond(&host, body, stream).await;
            assert_eq!(kinds(&second["output"]), ["reasoning", "web_search_call", "message"], "{second}");
            let sent = host.upstream.last().json();
            let expected = [
                "message",
                "reasoning",
                "web_search_call",
                "message",
                "function_call",
                "function_call_output",
            ];
            assert_eq!(kinds(&sent["input"]), expected, "{sent}");
            assert_eq!(sent["input"][1]["encrypted_content"], "gAAA+/==", "{sent}");
            assert_eq!(sent["input"][2]["action"]["query"], "q", "{sent}");
            assert_eq!(sent["input"][4]["arguments"], "{\"city\":\"Oslo\"}", "{sent}");
        }
    }
}

#[tokio::test]
async fn chat_and_messages_clients_use_a_responses_service() {
    let host = host().await;
    let tool = json!({"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}});
    for stream in [false, true] {
        let ask = json!({"model": "mock-1", "messages": [{"role": "user", "content": "hi"}], "tools": [tool], "stream": stream});
        let answer = host.chat(&ask).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "It is COLD."), "{}", answer.body());
        assert!(
            answer.body().contains("call_1") && answer.body().contains("tool_calls"),
            "{}",
            answer.body()
        );
        assert_eq!(host.upstream.last().json()["stream"], stream);

        let tool = json!({"name": "weather", "input_schema": {"type": "object"}});
        let ask = json!({"model": "mock-1", "max_tokens": 99, "messages": [{"role": "user", "content": "hi"}], "tools": [tool], "stream": stream});
        let request = host.request("POST", "/v1/messages").header("content-type", "application/json");
        let answer = Answer::of(request.body(ask.to_string())).await;
        assert_eq!(answer.status, 200, "{}", answer.body());
        assert!(answer.body().contains("COLD") && answer.body().contains("tool_use"), "{}", answer.body());
        assert!(!answer.body().contains("response_item"), "{}", answer.body());
        assert_eq!(host.upstream.last().json()["max_output_tokens"], 99);
    }
    // Fields that this API does not have are left out or refused with a hint, and errors keep their status and code.
    let mut ask = json!({"model": "mock-1", "messages": [{"role": "user", "content": "hi"}], "stop": ["x"]});
    let answer = host.chat(&ask).await;
    assert_eq!(answer.header("x-valvehouse-left-out"), Some("stop"), "{}", answer.body());
    assert!(host.upstream.last().json().get("stop").is_none());
    ask["n"] = json!(2);
    host.chat(&ask).await.refused(400, "cannot send n");
    let limited = host.ask("limited").await;
    assert_eq!(
        (limited.status, &limited.error()["code"]),
        (429, &json!("rate_limit_exceeded")),
        "{}",
        limited.body()
    );
}

/// Sends a request to the model that its last message names.
const ROUTES: &str = r#"
fn inlet(body) {
    let text = body.messages[-1].text;
    if text.starts_with("to ") { body.model = text.sub_string(3); }
}
"#;

/// Starts a host with the model `native` of a Responses service and the model `plain` of a chat service, each
/// with the other as its fallback.
async fn two_services() -> (TestHost, Upstream) {
    let chats = Upstream::start().await;
    let model = |name: &str, provider: &str, spare: &str| {
        format!("[[models]]\nname = \"{name}\"\nprovider = \"{provider}\"\nfallbacks = {spare}\n")
    };
    let host = TestHost::new()
        .provider("api = \"responses\"")
        .config(&format!(
            "[[providers]]\nname = \"chats\"\nkind = \"openai\"\nbase_url = \"{}\"\napi_key = \"sk-c\"\nmodels = [\"c-1\"]\n\
             retry = {{ max_attempts = 1 }}\nbreaker = {{ failure_threshold = 0 }}",
            chats.url()
        ))
        .config(&model("native", "mock", "[]"))
        .config(&model("plain", "chats", "[]"))
        .config(&model("native_first", "mock", "[\"plain\"]"))
        .config(&model("plain_first", "chats", "[\"native\"]"))
        .filter("routes", ROUTES)
        .start()
        .await;
    host.upstream.script(service);
    (host, chats)
}

#[tokio::test]
async fn options_that_are_not_sent_are_named_for_the_answering_service() {
    let (host, chats) = two_services().await;
    let search = json!({"type": "web_search", "search_context_size": "low"});
    let ask = async |model: &str, text: &str, stream: bool| {
        let input = json!([{"type": "web_search_call", "id": "ws_0", "status": "completed"}, {"role": "user", "content": text}]);
        let body = json!({"model": model, "input": input, "tools": [search, function()], "stream": stream,
            "include": ["reasoning.encrypted_content"], "store": false});
        let answer = host.respond(&body).await;
        assert_eq!(answer.status, 200, "{}", answer.body());
        let left_out = answer.header("x-valvehouse-left-out").map(str::to_owned);
        // The trace reports it, too.
        let lines = trace_of(&host, &answer).await["lines"].to_string();
        assert!(left_out.is_none() || lines.contains("left out of the request: web_search"), "{lines}");
        left_out
    };
    let left_out = || Some("web_search, web_search_call".to_owned());
    for stream in [false, true] {
        // A chat service replaces the requested one, and the other way round.
        for (model, text) in [("plain", "hi"), ("native", "to plain")] {
            chats.script(|request| Reply::fitting(request, "hello"));
            assert_eq!(ask(model, text, stream).await, left_out(), "{model}, {text}, {stream}");
            let sent = chats.last().json();
            assert_eq!(
                (sent["tools"].as_array().unwrap().len(), &sent["messages"]),
                (1, &json!([{"role": "user", "content": text}]))
            );
            assert!(sent.get("responses").is_none() && sent.get("include").is_none(), "{sent}");
        }
        for (model, text) in [("native", "hi"), ("plain", "to native")] {
            assert_eq!(ask(model, text, stream).await, None, "{model}, {text}, {stream}");
            let sent = host.upstream.last().json();
            assert_eq!(
                (&sent["tools"][0], &sent["input"][0]["type"]),
                (&search, &json!("web_search_call")),
                "{sent}"
            );
            assert!(sent.get("responses").is_none(), "{sent}");
        }
        // A service that cannot respond has left nothing out.
        chats.script(|_| Reply::json(&json!({"error": {"message": "busy"}})).status(503));
        assert_eq!(ask("plain_first", "hi", stream).await, None);
        chats.script(|request| Reply::fitting(request, "hello"));
        host.upstream.script(|_| Reply::json(&json!({"error": {"message": "busy"}})).status(503));
        assert_eq!(ask("native_first", "hi", stream).await, left_out());
        host.upstream.script(service);
    }
}

#[tokio::test]
async fn a_forced_hosted_tool_is_rejected_if_the_service_lacks_it() {
    let (host, chats) = two_services().await;
    let ask = async |model: &str, text: &str, stream: bool| {
        let body = json!({"model": model, "input": [{"role": "user", "content": text}], "tools": [{"type": "web_search"}],
            "tool_choice": {"type": "web_search"}, "stream": stream});
        host.respond(&body).await
    };
    for stream in [false, true] {
        for (model, text) in [("native", "hi"), ("plain", "to native")] {
            assert_eq!(ask(model, text, stream).await.status, 200);
            assert_eq!(host.upstream.last().json()["tool_choice"], json!({"type": "web_search"}));
        }
        for (model, text) in [("plain", "hi"), ("native", "to plain")] {
            ask(model, text, stream).await.refused(400, "cannot force the tool `web_search`");
        }
    }
    assert!(chats.requests().is_empty());
}

#[tokio::test]
async fn unsupported_options_of_a_messages_client_are_named() {
    let (host, chats) = two_services().await;
    chats.script(|request| Reply::fitting(request, "hello"));
    for stream in [false, true] {
        let body = json!({"model": "native", "max_tokens": 9, "messages": [{"role": "user", "content": "to plain"}],
            "tools": [{"type": "web_search_20250305", "name": "web_search"}], "stream": stream});
        let answer = host.message(&body).await;
        assert_eq!(answer.header("x-valvehouse-left-out"), Some("web_search_20250305"), "{}", answer.body());
    }
}

#[tokio::test]
async fn a_guard_sees_hosted_tools_and_rejects_or_removes_them() {
    let guard = r#"
fn inlet(body) {
    let hosted = (body.tools ?? []).filter(|tool| tool.type != "function" && tool.type != "custom");
    if body.messages[-1].text == "strict" && !hosted.is_empty() {
        throw #{ status: 403, message: "no " + hosted[0].type };
    }
    body.tools = (body.tools ?? []).filter(|tool| !(tool.type in ["web_search", "file_search"]));
}
"#;
    let host = TestHost::new().provider("api = \"responses\"").filter("guard", guard).start().await;
    host.upstream.script(service);
    for stream in [false, true] {
        let ask = async |text: &str| {
            let tools = json!([{"type": "web_search"}, function(), {"type": "code_interpreter", "container": {"type": "auto"}}]);
            host.respond(&json!({"model": "mock-1", "input": text, "tools": tools, "stream": stream})).await
        };
        ask("strict").await.refused(403, "no web_search");
        assert!(stream || host.upstream.requests().is_empty());
        assert_eq!(ask("hi").await.status, 200);
        let sent = host.upstream.last().json();
        assert_eq!(kinds(&sent["tools"]), ["function", "code_interpreter"], "{sent}");
    }
}
