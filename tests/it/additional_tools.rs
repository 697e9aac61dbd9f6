//! Tools that a client of the Responses API sends as an input item, as Codex does with current models.

use crate::host::TestHost;
use crate::upstream::{MODEL, Reply, UpstreamRequest};
use serde_json::{Value, json};

/// A guard that sees the tools of a request and removes one.
const GUARD: &str = "/*\nsecurity: true\n*/\nfn inlet(body) { body.tools = (body.tools ?? []).filter(|tool| tool.type != \"function\" || tool.function.name != \"functions__wait\"); body }";

fn item() -> Value {
    json!({"type": "additional_tools", "id": "at_1", "role": "developer", "tools": [
        {"type": "namespace", "name": "functions", "description": "d", "tools": [
            {"type": "custom", "name": "exec", "description": "Runs.", "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"}},
            {"type": "function", "name": "wait", "parameters": {"type": "object", "properties": {}}, "strict": false}]},
        {"type": "web_search"}]})
}

fn body(more: &[Value]) -> Value {
    let input = [vec![item(), json!({"role": "user", "content": "hi"})], more.to_vec()].concat();
    json!({"model": MODEL, "store": false, "input": input})
}

/// Calls `exec` in the protocol of the service.
fn service(request: &UpstreamRequest) -> Reply {
    let written = json!({"input": "ls"}).to_string();
    match request.path.as_str() {
        "/v1/chat/completions" => {
            let function = json!({"name": "functions__exec", "arguments": written});
            let call = json!({"id": "c1", "type": "function", "function": function});
            let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            Reply::json(
                &json!({"id": "x", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}),
            )
        }
        "/v1/messages" => {
            Reply::json(&json!({"id": "x", "type": "message", "role": "assistant", "model": "m",
            "content": [{"type": "tool_use", "id": "c1", "name": "functions__exec", "input": {"input": "ls"}}],
            "stop_reason": "tool_use", "usage": {"input_tokens": 1, "output_tokens": 1}}))
        }
        path if path.ends_with("/api/chat") => {
            Reply::json(&json!({"model": "m", "message": {"role": "assistant", "content": "",
            "tool_calls": [{"id": "c1", "function": {"name": "functions__exec", "arguments": {"input": "ls"}}}]}, "done": true}))
        }
        _ => Reply::json(
            &json!({"id": "r", "object": "response", "created_at": 1, "status": "completed", "model": "m",
            "output": [{"type": "custom_tool_call", "id": "ct", "call_id": "c1", "namespace": "functions", "name": "exec", "input": "ls"}]}),
        ),
    }
}

/// Returns the names of the tools that a service received.
fn names(sent: &Value) -> Vec<String> {
    let tools = sent["tools"].as_array().into_iter().flatten();
    let name = |tool: &Value| {
        [&tool["function"]["name"], &tool["name"]]
            .into_iter()
            .find_map(|name| Some(name.as_str()?.to_owned()))
    };
    tools.filter_map(name).collect()
}

#[tokio::test]
async fn every_service_receives_them_and_guards_decide_on_them() {
    for settings in ["kind = \"groq\"", "kind = \"anthropic\"", "kind = \"ollama\"", "api = \"responses\""] {
        for is_guarded in [false, true] {
            let host = TestHost::new().provider(settings);
            let host = if is_guarded { host.filter("guard", GUARD) } else { host };
            let host = host.start().await;
            host.upstream.script(service);
            let answer = host.respond(&body(&[])).await;
            assert_eq!(answer.status, 200, "{settings}: {}", answer.body());
            let call = answer.json()["output"][0].clone();
            assert_eq!(
                (&call["type"], &call["namespace"], &call["name"], &call["input"]),
                (&json!("custom_tool_call"), &json!("functions"), &json!("exec"), &json!("ls")),
                "{settings}: {call}"
            );
            let result = json!({"type": "custom_tool_call_output", "call_id": "c1", "output": "a.txt"});
            let answer = host.respond(&body(&[call, result])).await;
            assert_eq!(answer.status, 200, "{settings}: {}", answer.body());
            let sent = host.upstream.last().json();
            if settings.contains("responses") {
                let mut expected = item();
                if is_guarded {
                    expected["tools"][0]["tools"].as_array_mut().unwrap().pop();
                }
                assert_eq!((&sent["input"][0], sent.get("tools")), (&expected, None), "{sent}");
                assert_eq!(
                    (&sent["input"][2]["namespace"], &sent["input"][2]["name"]),
                    (&json!("functions"), &json!("exec"))
                );
                assert_eq!(answer.header("x-valvehouse-left-out"), None);
            } else {
                let all = ["functions__exec", "functions__wait"];
                let expected = if is_guarded { &all[..1] } else { &all[..] };
                assert_eq!(names(&sent), expected, "{settings}: {sent}");
                assert!(!sent.to_string().contains("additional_tools"), "{sent}");
                assert_eq!(answer.header("x-valvehouse-left-out"), Some("web_search"), "{settings}");
            }
        }
    }
}
