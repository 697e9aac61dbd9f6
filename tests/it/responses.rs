//! The Responses API for models of services that only have chat completions.

use crate::generator::clients;
use crate::host::{Answer, TestHost};
use crate::python::{REFUSES, passes};
use crate::upstream::{Reply, chunk};
use serde_json::{Value, json};

/// Marks the response as seen, streamed or not.
const LOUD: &str = r#"
fn stream(event) { event.text = regex::replace(event.text, "hello", "HELLO"); event }
fn outlet(body) { body.messages[-1].text = regex::replace(body.messages[-1].text, "hello", "HELLO"); body }
"#;

fn usage() -> Value {
    json!({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7, "prompt_tokens_details": {"cached_tokens": 2}})
}

/// Returns tool calls as a service streams them, interleaved, or as one response.
fn calls(stream: bool) -> Reply {
    let patch = json!({"input": "*** Begin \"Patch\"\n+1"}).to_string();
    if !stream {
        let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
        let calls = [
            call("call_1", "weather", r#"{"city":"Oslo"}"#),
            call("call_2", "weather", r#"{"city":"Lima"}"#),
            call("call_3", "apply_patch", &patch),
        ];
        let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
        let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
        let answer = json!({"id": "c", "object": "chat.completion", "model": "mock-1", "choices": [choice], "usage": usage()});
        return Reply::json(&answer);
    }
    let begin = |index: u64, id: &str, name: &str| {
        let function = json!({"name": name, "arguments": ""});
        let call = json!({"index": index, "id": id, "type": "function", "function": function});
        chunk(&json!({"tool_calls": [call]}), None)
    };
    let more = |index: u64, text: &str| {
        chunk(&json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]}), None)
    };
    let (one, other) = patch.split_at(14);
    let stream = [
        begin(0, "call_1", "weather"),
        begin(1, "call_2", "weather"),
        more(0, r#"{"city":"#),
        more(1, r#"{"city":"Lima"}"#),
        more(0, r#""Oslo"}"#),
        begin(2, "call_3", "apply_patch"),
        more(2, one),
        more(2, other),
        chunk(&json!({}), Some("tool_calls")),
        format!(
            "data: {}\n\n",
            json!({"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": usage()})
        ),
        "data: [DONE]\n\n".into(),
    ];
    Reply::raw("text/event-stream", stream.concat())
}

async fn host() -> TestHost {
    let host = TestHost::new()
        .config("[[models]]\nname = \"mock-1\"\nprovider = \"mock\"")
        // Time for a slow machine: each of the many events of a long answer has a time limit.
        .config("[filters.loud]\nbudget = { ms = 5_000 }")
        .provider("kind = \"vllm\"")
        .filter("rules", REFUSES)
        .filter("loud", LOUD)
        .start()
        .await;
    host.upstream.script(|request| match request.last_text().as_str() {
        "call" => calls(request.json()["stream"] == true),
        "cut" => Reply::begun(["half an "]).then_cut(),
        _ => Reply::fitting(request, "hello from upstream"),
    });
    host
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_openai_sdk_uses_the_responses_api() {
    let Some(mut client) = clients::python("tests/python/responses_client.py") else { return };
    let host = host().await;
    client.arg(host.url("/v1"));
    passes(client).await;
}

#[tokio::test]
async fn a_response_equals_its_stream_except_for_ids_and_times() {
    let host = host().await;
    for text in ["hello", "call"] {
        let tools =
            json!([{"type": "function", "name": "weather"}, {"type": "custom", "name": "apply_patch"}]);
        let mut body = json!({"model": "mock-1", "input": text, "tools": tools, "temperature": 0.5});
        let whole = host.respond(&body).await.json();
        body["stream"] = json!(true);
        let streamed = host.respond(&body).await;
        let last = streamed.typed_events().pop().unwrap();
        assert_eq!(last["type"], "response.completed");
        let plain = |mut response: Value| {
            for key in ["id", "created_at", "completed_at"] {
                response.as_object_mut().unwrap().remove(key).unwrap();
            }
            for item in response["output"].as_array_mut().unwrap() {
                item.as_object_mut().unwrap().remove("id").unwrap();
            }
            response
        };
        let mut response = last["response"].clone();
        if text == "hello" {
            // This service reports tokens only for whole responses.
            response["usage"] = whole["usage"].clone();
        }
        assert_eq!(plain(whole.clone()), plain(response));
        if text == "call" {
            let usage = json!({"input_tokens": 3, "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0}, "output_tokens": 4,
                "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 7});
            assert_eq!(whole["usage"], usage);
        }
        assert_eq!(whole["temperature"], 0.5);
        let echoed = json!([{"type": "function", "name": "weather", "description": null, "parameters": null, "strict": null},
            {"type": "custom", "name": "apply_patch"}]);
        assert_eq!(whole["tools"], echoed);
    }
}

#[tokio::test]
async fn a_conversation_continues_after_a_restart_only_for_its_key() {
    let keys = "[[server.keys]]\nuser = { id = \"ann\" }\nkey = \"ann-secret-0001\"\n[[server.keys]]\nuser = { id = \"bob\" }\nkey = \"bob-secret-0001\"";
    let mut host = TestHost::new()
        .config("[[models]]\nname = \"mock-1\"\nprovider = \"mock\"")
        .config(keys)
        .start()
        .await;
    host.upstream.script(|request| Reply::fitting(request, "hello"));
    let ask = async |host: &TestHost, key: &str, body: Value| {
        let request = host.request("POST", "/v1/responses").header("authorization", format!("Bearer {key}"));
        Answer::of(request.header("content-type", "application/json").body(body.to_string())).await
    };
    let first = ask(&host, "ann-secret-0001", json!({"model": "mock-1", "input": "I am Ann"})).await.json();
    host.restart().await;
    let on = json!({"model": "mock-1", "input": "who am I?", "previous_response_id": first["id"]});
    let second = ask(&host, "ann-secret-0001", on.clone()).await.json();
    assert_eq!(second["previous_response_id"], first["id"]);
    let texts: Vec<Value> = host.upstream.last().json()["messages"].as_array().unwrap().clone();
    let texts: Vec<&str> = texts.iter().map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!(texts, ["I am Ann", "hello", "who am I?"]);
    ask(&host, "bob-secret-0001", on).await.refused(400, "previous response");
    let path = format!("/v1/responses/{}", first["id"].as_str().unwrap());
    let shown =
        Answer::of(host.request("GET", &path).header("authorization", "Bearer bob-secret-0001")).await;
    shown.refused(404, "unknown response");
}

#[tokio::test]
async fn reasoning_and_calls_are_sent_back_to_their_service() {
    let host = host().await;
    let items = json!([
        {"type": "message", "role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": "data:image/png;base64,AA=="}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "one moment"}]},
        {"type": "function_call", "call_id": "a", "name": "weather", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "b", "name": "apply_patch", "input": "+1"},
        {"type": "function_call_output", "call_id": "a", "output": "20"},
        {"type": "custom_tool_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "done"}]},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    ]);
    let tools = json!([{"type": "custom", "name": "apply_patch"}]);
    let body = json!({"model": "mock-1", "instructions": "rules", "input": items, "tools": tools, "max_output_tokens": 9});
    let answer = host.respond(&body).await;
    assert_eq!(answer.header("x-valvehouse-left-out"), Some("web_search_call"));
    let sent = host.upstream.last().json();
    let function = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let expected = json!([
        {"role": "system", "content": "rules\n\nbe brief"},
        {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]},
        {"role": "assistant", "content": "one moment", "reasoning_content": "hm",
         "tool_calls": [function("a", "weather", "{}"), function("b", "apply_patch", r#"{"input":"+1"}"#)]},
        {"role": "tool", "tool_call_id": "a", "content": "20"},
        {"role": "tool", "tool_call_id": "b", "content": "done"},
    ]);
    assert_eq!(sent["messages"], expected);
    assert_eq!(sent["max_completion_tokens"], 9);
}

#[tokio::test]
async fn the_redact_filter_sees_the_text_of_custom_tool_calls() {
    let host = TestHost::new()
        .config("[[models]]\nname = \"mock-1\"\nprovider = \"mock\"")
        .provider("kind = \"vllm\"")
        .filter("redact", include_str!("../../filters/redact.rhai"))
        .start()
        .await;
    let secret = format!("ghp_{}", "a1B2c3D4e5".repeat(4));
    let text = format!("x\n{secret}\nend");
    let theirs = text.clone();
    host.upstream.script(move |_| {
        let arguments = json!({"input": theirs}).to_string();
        let function = json!({"name": "apply", "arguments": arguments});
        let calls = json!([{"id": "c", "type": "function", "function": function}]);
        let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
        let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
        Reply::json(&json!({"id": "c", "object": "chat.completion", "model": "mock-1", "choices": [choice]}))
    });
    let input = json!([
        {"role": "user", "content": "hi"},
        {"type": "custom_tool_call", "call_id": "a", "name": "apply", "input": text},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "ok"},
    ]);
    let tools = json!([{"type": "custom", "name": "apply"}]);
    let answer = host.respond(&json!({"model": "mock-1", "input": input, "tools": tools})).await.json();
    let call_input = answer["output"][0]["input"].as_str().unwrap();
    assert!(
        call_input.starts_with("x\n") && call_input.ends_with("\nend") && !call_input.contains(&secret),
        "{call_input}"
    );
    let sent = host.upstream.last().json();
    let arguments = sent["messages"][1]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
    assert!(arguments.starts_with(r#"{"input":"x\n"#) && !arguments.contains(&secret), "{arguments}");
}

#[tokio::test]
async fn openai_receives_custom_tools_unchanged() {
    let host = TestHost::new().config("[[models]]\nname = \"mock-1\"\nprovider = \"mock\"").start().await;
    host.upstream.script(|_| {
        let calls = json!([{"id": "c", "type": "custom", "custom": {"name": "apply", "input": "+1"}}]);
        let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
        let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
        Reply::json(&json!({"id": "c", "object": "chat.completion", "model": "mock-1", "choices": [choice]}))
    });
    let format = json!({"type": "grammar", "syntax": "lark", "definition": "start: X"});
    let tools = json!([{"type": "custom", "name": "apply", "format": format}]);
    let answer = host.respond(&json!({"model": "mock-1", "input": "hi", "tools": tools})).await.json();
    assert_eq!(
        (&answer["output"][0]["type"], &answer["output"][0]["input"]),
        (&json!("custom_tool_call"), &json!("+1"))
    );
    let grammar = json!({"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: X"}});
    let expected = json!([{"type": "custom", "custom": {"name": "apply", "format": grammar}}]);
    assert_eq!(host.upstream.last().json()["tools"], expected);
}

#[tokio::test]
async fn an_item_reference_is_resolved() {
    let host = host().await;
    let first = host.respond(&json!({"model": "mock-1", "input": "hello"})).await.json();
    let reference = json!({"type": "item_reference", "id": first["output"][0]["id"]});
    let input =
        json!([{"role": "user", "content": "hello"}, reference, {"role": "user", "content": "again"}]);
    host.respond(&json!({"model": "mock-1", "input": input})).await;
    let sent = host.upstream.last().json();
    assert_eq!(sent["messages"][1], json!({"role": "assistant", "content": "HELLO from upstream"}), "{sent}");
    let unknown = json!([{"type": "item_reference", "id": "msg_unknown"}]);
    host.respond(&json!({"model": "mock-1", "input": unknown}))
        .await
        .refused(400, "unknown item `msg_unknown`");
}

#[tokio::test]
async fn an_interrupted_stream_ends_with_an_error_and_a_failed_response() {
    let host = host().await;
    let answer = host.respond(&json!({"model": "mock-1", "input": "cut", "stream": true})).await;
    let events = answer.typed_events();
    let [.., done, error, failed] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(
        (&done["type"], &done["item"]["status"]),
        (&json!("response.output_item.done"), &json!("incomplete"))
    );
    assert_eq!((error["type"].as_str(), failed["type"].as_str()), (Some("error"), Some("response.failed")));
    assert_eq!(failed["response"]["status"], "failed");
    assert_eq!(failed["response"]["output"][0]["content"][0]["text"], "half an ");
    assert_eq!(failed["response"]["id"], events[0]["response"]["id"]);
}

#[tokio::test]
async fn a_cached_answer_is_not_changed_by_later_filters() {
    let sign = "fn outlet(body) { body.messages[-1].text += \" -- signed\"; body }";
    let cache = std::fs::read_to_string("filters/answer_cache.rhai").unwrap();
    let host = TestHost::new().filter("answer_cache", cache.replace("global: false", "global: true"));
    let host = host.filter("sign", sign).config("[filters.answer_cache.valves]\nshared = true").start().await;
    host.upstream.script(|request| Reply::fitting(request, "hello"));
    for stream in [false, true, false, true] {
        let answer = host.respond(&json!({"model": "mock-1", "input": "hi", "stream": stream})).await;
        let response = match stream {
            true => answer.typed_events().pop().unwrap()["response"].clone(),
            false => answer.ok(),
        };
        assert_eq!(response["output"][0]["content"][0]["text"], "hello -- signed", "stream: {stream}");
        let body =
            json!({"model": "mock-1", "max_tokens": 9, "messages": [{"role": "user", "content": "hey"}]});
        assert_eq!(host.message(&body).await.ok()["content"][0]["text"], "hello -- signed");
    }
    assert_eq!(host.upstream.requests().len(), 2, "one for each question");
}

#[tokio::test]
async fn a_long_answer_is_complete() {
    let host = host().await;
    let long = "ein Satz über 日本\n".repeat(5_000);
    let answer = long.clone();
    host.upstream.script(move |request| Reply::fitting(request, &answer));
    let mut body = json!({"model": "mock-1", "input": "hi"});
    let whole = host.respond(&body).await.ok();
    assert!(whole["output"][0]["content"][0]["text"] == long, "the whole one was cut or changed");
    body["stream"] = json!(true);
    let events = host.respond(&body).await.typed_events();
    let deltas = events.iter().filter(|event| event["type"] == "response.output_text.delta");
    let text: String = deltas.map(|event| event["delta"].as_str().unwrap()).collect();
    let last = events.last().unwrap();
    assert!(text == long, "the streamed one was cut or changed, and ends with {:.1000}", last.to_string());
    assert_eq!(last["type"], "response.completed");
    assert!(last["response"]["output"][0]["content"][0]["text"] == long, "its end was cut or changed");
}

#[tokio::test]
async fn invalid_fields_of_a_request_are_named() {
    let host = host().await;
    for (body, words) in [
        (json!([]), "must be a JSON object"),
        (json!({"input": "hi"}), "missing model"),
        (json!({"model": "mock-1"}), "missing input"),
        (json!({"model": "mock-1", "input": 1}), "invalid input"),
        (json!({"model": "mock-1", "input": [1]}), "invalid input[0]"),
        (json!({"model": "mock-1", "input": [{"role": "x"}]}), "invalid input[0].role"),
        (
            json!({"model": "mock-1", "input": [{"type": "function_call", "name": "a"}]}),
            "missing input[0].call_id",
        ),
        (json!({"model": "mock-1", "input": "hi", "stream": "yes"}), "invalid stream"),
        (json!({"model": "mock-1", "input": "hi", "store": "false"}), "invalid store"),
        (json!({"model": "mock-1", "input": "hi", "temperature": "hot"}), "invalid temperature"),
        (json!({"model": "mock-1", "input": "hi", "tools": "x"}), "invalid tools"),
        (json!({"model": "mock-1", "input": "hi", "tool_choice": "banana"}), "invalid tool_choice"),
        (json!({"model": "mock-1", "input": "hi", "instructions": ["x"]}), "invalid instructions"),
        (
            json!({"model": "mock-1", "input": "hi", "text": {"format": {"type": "zz"}}}),
            "invalid text.format",
        ),
        (
            json!({"model": "mock-1", "input": "hi", "text": {"format": {"type": "json_schema"}}}),
            "invalid text.format",
        ),
        (json!({"model": "mock-1", "input": [{"role": "user", "content": 5}]}), "invalid input[0].content"),
        (
            json!({"model": "mock-1", "input": [{"role": "user", "content": [{"type": "input_text", "text": {"k": 1}}]}]}),
            "invalid input[0].content[0].text",
        ),
        (
            json!({"model": "mock-1", "input": [{"type": "function_call_output", "call_id": "a", "output": {"k": 1}}]}),
            "invalid input[0].output",
        ),
        (
            json!({"model": "mock-1", "input": [{"type": "function_call_output", "call_id": "a", "output": "20"}]}),
            "no tool call found for input[0] with call_id `a`",
        ),
        (
            json!({"model": "mock-1", "input": [{"type": "compaction", "encrypted_content": "gAAAA"}]}),
            "cannot read an item of the type `compaction` in input",
        ),
        (json!({"model": "mock-1", "input": "hi", "background": 1}), "invalid background"),
        (json!({"model": "mock-1", "input": "hi", "conversation": {}}), "invalid conversation"),
        (json!({"model": "mock-1", "input": "hi", "prompt": {"id": "p"}}), "cannot use `prompt`"),
        (json!({"model": "mock-1", "input": "hi", "tools": [{"type": "function"}]}), "missing tools[0].name"),
        (json!({"model": "mock-1", "input": "hi", "previous_response_id": "resp_no"}), "previous response"),
    ] {
        host.respond(&body).await.refused(400, words);
    }
    let upgrade = Answer::of(host.request("GET", "/v1/responses")).await;
    upgrade.refused(426, "cannot open a WebSocket");
}

/// A service that thinks, calls the first offered tool, and repeats what it receives about a call.
fn thinks_and_calls(request: &crate::upstream::UpstreamRequest) -> Reply {
    let sent = request.json();
    let message = match sent["messages"].as_array().unwrap().last().unwrap()["role"] == "tool" {
        true => json!({"role": "assistant", "content": "done"}),
        false => {
            let function = json!({"name": sent["tools"][0]["function"]["name"], "arguments": "{\"id\":1}"});
            let call = json!({"index": 0, "id": "call_1", "type": "function", "function": function});
            json!({"role": "assistant", "content": null, "reasoning_content": "hm, well", "tool_calls": [call]})
        }
    };
    if sent["stream"] == true {
        let stream =
            [chunk(&message, None), chunk(&json!({}), Some("stop")), "data: [DONE]\n\n".into()].concat();
        return Reply::raw("text/event-stream", stream);
    }
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    Reply::json(&json!({"id": "c", "object": "chat.completion", "model": "mock-1", "choices": [choice]}))
}

#[tokio::test]
async fn functions_in_namespaces_are_called_by_name() {
    let host = host().await;
    host.upstream.script(thinks_and_calls);
    let function = json!({"type": "function", "name": "close_agent", "parameters": {"type": "object"}});
    for (space, name) in [("agents", "agents__close_agent"), ("mcp__docs__", "mcp__docs__close_agent")] {
        for stream in [false, true] {
            let tools =
                json!([{"type": "namespace", "name": space, "description": "…", "tools": [function]}]);
            let mut input = json!([{"type": "message", "role": "user", "content": "hi"}]);
            let mut body = json!({"model": "mock-1", "input": input, "tools": tools, "stream": stream});
            let answer = host.respond(&body).await;
            assert_eq!(answer.header("x-valvehouse-left-out"), None);
            assert_eq!(host.upstream.last().json()["tools"][0]["function"]["name"], name);
            let response = match stream {
                true => answer.typed_events().pop().unwrap()["response"].clone(),
                false => answer.json(),
            };
            let call = &response["output"][1];
            assert_eq!((&call["namespace"], &call["name"]), (&json!(space), &json!("close_agent")));
            let items = input.as_array_mut().unwrap();
            items.extend(response["output"].as_array().unwrap().clone());
            items.push(
                json!({"type": "function_call_output", "call_id": call["call_id"], "output": "closed"}),
            );
            body["input"] = input;
            host.respond(&body).await;
            let sent = host.upstream.last().json();
            assert_eq!(sent["messages"][1]["tool_calls"][0]["function"]["name"], name, "{sent}");
        }
    }
}

#[tokio::test]
async fn reasoning_summaries_are_returned_on_request_and_sent_back_completely() {
    let host = host().await;
    host.upstream.script(thinks_and_calls);
    let tools = json!([{"type": "function", "name": "weather"}]);
    let mut body = json!({"model": "mock-1", "input": [{"role": "user", "content": "hi"}], "tools": tools,
        "reasoning": {"summary": "auto"}, "store": false});
    let whole = host.respond(&body).await.json();
    let summary = json!([{"type": "summary_text", "text": "hm, well"}]);
    assert_eq!((&whole["output"][0]["summary"], &whole["output"][0]["content"]), (&summary, &json!([])));
    body["stream"] = json!(true);
    let streamed = host.respond(&body).await.typed_events();
    let kinds: Vec<&str> = streamed
        .iter()
        .filter(|event| event["output_index"] == 0)
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    let expected = [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
    ];
    assert_eq!(kinds, expected.map(|kind| format!("response.{kind}")));
    let output = streamed.last().unwrap()["response"]["output"].as_array().unwrap().clone();
    assert_eq!(output[0]["summary"], summary);
    let items = body["input"].as_array_mut().unwrap();
    items.extend(output);
    items.push(json!({"type": "function_call_output", "call_id": "call_1", "output": "20"}));
    host.respond(&body).await;
    assert_eq!(host.upstream.last().json()["messages"][1]["reasoning_content"], "hm, well");
}

#[tokio::test]
async fn a_call_is_completed_when_the_next_one_starts() {
    // A filter that may append text would hold the calls back.
    let host = TestHost::new().start().await;
    host.upstream.script(|_| {
        let piece = |index: u64, name: &str, arguments: &str| {
            let function = json!({"name": name, "arguments": arguments});
            let function = if name.is_empty() { json!({"arguments": arguments}) } else { function };
            let id = (!name.is_empty()).then(|| format!("call_{index}"));
            chunk(&json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}), None)
        };
        // The second call is interleaved with the third, and white space follows the first.
        let stream = [
            piece(0, "weather", ""),
            piece(0, "", "{\"city\":\"Oslo\"}"),
            piece(1, "weather", "{\"city\":"),
            piece(0, "", " "),
            piece(2, "weather", "{}"),
            piece(1, "", "\"Lima\"}"),
            chunk(&json!({}), Some("tool_calls")),
            "data: [DONE]\n\n".into(),
        ];
        Reply::raw("text/event-stream", stream.concat())
    });
    let tools = json!([{"type": "function", "name": "weather"}]);
    let body = json!({"model": "mock-1", "input": "hi", "tools": tools, "stream": true});
    let events = host.respond(&body).await.typed_events();
    let order: Vec<String> = events
        .iter()
        .filter(|event| event["type"].as_str().unwrap().starts_with("response.output_item."))
        .map(|event| {
            format!(
                "{} {}",
                event["type"].as_str().unwrap().rsplit('.').next().unwrap(),
                event["output_index"]
            )
        })
        .collect();
    assert_eq!(order, ["added 0", "done 0", "added 1", "added 2", "done 1", "done 2"]);
    let output = &events.last().unwrap()["response"]["output"];
    let arguments: Vec<&str> =
        output.as_array().unwrap().iter().map(|call| call["arguments"].as_str().unwrap()).collect();
    assert_eq!(arguments, ["{\"city\":\"Oslo\"}", "{\"city\":\"Lima\"}", "{}"]);
}

#[tokio::test]
async fn tokens_are_counted_with_the_conversation_before_and_without_the_model() {
    let host = host().await;
    let count = async |body: Value| {
        let request = host.request("POST", "/v1/responses/input_tokens");
        Answer::of(request.header("content-type", "application/json").body(body.to_string())).await
    };
    let first = host.respond(&json!({"model": "mock-1", "input": "word ".repeat(500)})).await.json();
    let asked = host.upstream.requests().len();
    let short = count(json!({"model": "mock-1", "input": "hi"})).await.json();
    assert_eq!(short["object"], "response.input_tokens");
    let short = short["input_tokens"].as_u64().unwrap();
    let body = json!({"model": "mock-1", "input": "hi", "previous_response_id": first["id"]});
    let long = count(body).await.json()["input_tokens"].as_u64().unwrap();
    assert!((1..50).contains(&short) && long > short + 400, "{short} {long}");
    assert_eq!(host.upstream.requests().len(), asked);
    for body in [
        json!({"model": "mock-1", "input": 5}),
        json!({"model": "mock-1", "previous_response_id": "resp_none"}),
        json!({"input": "hi"}),
    ] {
        let refused = count(body.clone()).await;
        assert_eq!(refused.status, 400, "{body}: {}", refused.body());
    }
}

#[tokio::test]
async fn a_compacted_conversation_continues_from_its_summary() {
    let host = host().await;
    let compact = async |body: &Value| {
        let request =
            host.request("POST", "/v1/responses/compact").header("content-type", "application/json");
        Answer::of(request.body(body.to_string())).await
    };
    let first = host.respond(&json!({"model": "mock-1", "input": "my name is Ann"})).await.json();
    let input = json!([
        {"role": "user", "content": "the weather in Oslo?"},
        {"type": "function_call", "call_id": "a", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "20"},
    ]);
    let body =
        json!({"model": "mock-1", "previous_response_id": first["id"], "input": input, "stream": true});
    let compacted = compact(&body).await.json();
    let sent = host.upstream.last().json();
    assert_eq!(sent["stream"], json!(null), "a compaction is not a stream");
    // The whole conversation, with its calls, their tools and the requested tool choice.
    assert_eq!(sent["messages"].as_array().unwrap().len(), 6, "{sent}");
    assert_eq!(
        (&sent["tools"][0]["function"]["name"], &sent["tool_choice"]),
        (&json!("weather"), &json!("none"))
    );
    assert_eq!(compacted["object"], "response.compaction");
    let output = compacted["output"].as_array().unwrap();
    let kinds: Vec<&str> = output.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "message", "compaction"]);
    assert_eq!(compacted["usage"]["total_tokens"], 2, "{compacted}");
    let mut input = output.clone();
    input.push(json!({"role": "user", "content": "go on"}));
    host.respond(&json!({"model": "mock-1", "input": input})).await;
    let sent = host.upstream.last().json();
    let texts: Vec<&str> =
        sent["messages"].as_array().unwrap().iter().map(|m| m["content"].as_str().unwrap()).collect();
    // The host's filter received the summary as well.
    assert_eq!(texts[..2], ["my name is Ann", "the weather in Oslo?"]);
    assert!(texts[2].ends_with("Its summary:\n\nHELLO from upstream") && texts[3] == "go on", "{texts:?}");
    compact(&json!({"input": "hi"})).await.refused(400, "missing model");
}

#[tokio::test]
async fn clients_receive_the_reason_and_retry_after_of_a_failed_stream() {
    let limit = r#"fn stream(event) { if event.text.contains("stop") { throw #{status: 429, retry_after: 7, message: "enough"}; } event }"#;
    let host = TestHost::new()
        .config("[[models]]\nname = \"mock-1\"\nprovider = \"mock\"")
        .filter("limit", limit)
        .start()
        .await;
    host.upstream.script(|request| {
        let code = request.last_text();
        let error = json!({"error": {"message": "no", "type": "requests", "code": code}});
        let after = if code == "stop" {
            chunk(&json!({"content": "stop"}), None)
        } else {
            format!("data: {error}\n\n")
        };
        Reply::raw("text/event-stream", chunk(&json!({"content": "one "}), None) + after.as_str())
    });
    for (text, code, message) in [
        ("context_length_exceeded", "context_length_exceeded", "no"),
        ("insufficient_quota", "insufficient_quota", "no"),
        ("rate_limit_exceeded", "rate_limit_exceeded", "no"),
        ("else", "server_error", "no"),
        ("stop", "rate_limit_exceeded", "enough; try again in 7s"),
    ] {
        let answer = host.respond(&json!({"model": "mock-1", "input": text, "stream": true})).await;
        let error = answer.typed_events().pop().unwrap()["response"]["error"].clone();
        assert_eq!((&error["code"], &error["message"]), (&json!(code), &json!(message)), "{}", answer.body());
    }
}

#[tokio::test]
async fn sources_and_probabilities_of_an_answer_are_in_its_response() {
    let host = host().await;
    let annotation = json!({"type": "url_citation", "url_citation": {"start_index": 0, "end_index": 5, "url": "https://a.example", "title": "A"}});
    let tokens = [
        json!({"token": "hello", "logprob": -0.5, "bytes": [104, 101, 108, 108, 111], "top_logprobs": []}),
        json!({"token": " é", "logprob": -0.25}),
    ];
    let (cited, probable) = (annotation.clone(), tokens.clone());
    host.upstream.script(move |request| {
        let call = json!({"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}});
        if request.json()["stream"] != true {
            let message = json!({"role": "assistant", "content": "hello é", "annotations": [cited], "tool_calls": [call]});
            let choice = json!({"index": 0, "message": message, "logprobs": {"content": probable}, "finish_reason": "tool_calls"});
            return Reply::json(&json!({"id": "c", "object": "chat.completion", "model": "mock-1", "choices": [choice]}));
        }
        let chunk_of = |text: &str, token: &Value| {
            let choice = json!({"index": 0, "delta": {"content": text}, "logprobs": {"content": [token]}, "finish_reason": null});
            format!("data: {}\n\n", json!({"id": "c", "object": "chat.completion.chunk", "choices": [choice]}))
        };
        let mut call = call;
        call["index"] = json!(0);
        let stream = [
            chunk_of("hello", &probable[0]),
            chunk_of(" é", &probable[1]),
            chunk(&json!({"annotations": [cited]}), None),
            chunk(&json!({"tool_calls": [call]}), None),
            chunk(&json!({}), Some("tool_calls")),
            "data: [DONE]\n\n".into(),
        ];
        Reply::raw("text/event-stream", stream.concat())
    });
    let tools = json!([{"type": "function", "name": "weather"}]);
    let include = json!(["message.output_text.logprobs"]);
    for stream in [false, true] {
        let body =
            json!({"model": "mock-1", "input": "hi", "tools": tools, "stream": stream, "include": include});
        let answer = host.respond(&body).await;
        assert_eq!(host.upstream.last().json()["logprobs"], true);
        let response =
            if stream { answer.typed_events().pop().unwrap()["response"].clone() } else { answer.json() };
        let part = &response["output"][0]["content"][0];
        let flat = json!({"type": "url_citation", "start_index": 0, "end_index": 5, "url": "https://a.example", "title": "A"});
        assert_eq!(part["text"], "HELLO é");
        assert_eq!(part["annotations"], json!([flat]), "stream: {stream}");
        let second = json!({"token": " é", "logprob": -0.25, "bytes": [32, 195, 169], "top_logprobs": []});
        assert_eq!(part["logprobs"], json!([tokens[0], second]), "stream: {stream}");
        if stream {
            let events = answer.typed_events();
            let added = events.iter().find(|event| event["type"] == "response.output_text.annotation.added");
            let added = added.unwrap();
            assert_eq!((&added["annotation"], &added["annotation_index"]), (&flat, &json!(0)));
            assert_eq!(added["item_id"], response["output"][0]["id"]);
        }
    }
}
