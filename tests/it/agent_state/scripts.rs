//! Every callback that a script receives, over HTTP: `const callbacks = true`.

use crate::host::{TestHost, until};
use crate::upstream::{MODEL, Reply, UpstreamRequest};
use serde_json::{Value, json};
use valvehouse::agent::callbacks::Callback;

const REMEMBERS: &str = "[[models]]\nname = \"assistant\"\nprovider = \"mock\"\nmodel = \"mock-1\"\nmemory = true\ntools = [\"*\"]";

/// A tool that looks something up and fails for the query `nothing`.
const LOOK: &str = r#"/*
tag: retriever
*/
const parameters = #{ q: #{ type: "string" } };
fn handler(args) { if args.q == "nothing" { throw "there is nothing"; } "found " + args.q }
"#;

const ASKS: &str = r#"
fn pre_invocation(ctx) {
    if ctx.args.q == "secret" {
        let answer = ask(#{ type: "approval", data: #{ tool: ctx.tool.name, arguments: ctx.args } });
        if answer.approved != true { return skip("no"); }
    }
    ctx
}
fn inlet(body) { emit(#{ type: "begun", data: #{ n: 1 } }); body }
"#;

/// Returns a script that records the events of every callback in `kv`.
fn listener() -> String {
    let functions = Callback::ALL.map(|callback| {
        let name = callback.name();
        format!("fn {name}(event) {{ note(event); }}\n")
    });
    format!(
        "/*\nrequirements: kv\n*/\nconst callbacks = true;\n\
         fn note(event) {{ let all = kv::get(\"all\", []); all.push(event); kv::set(\"all\", all); }}\n{}",
        functions.concat()
    )
}

fn calls(q: &str) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": json!({"q": q}).to_string()}}]})
}

/// Calls `look` on request and fails on `break`.
fn model(request: &UpstreamRequest) -> Reply {
    let body = request.json();
    let last = body["messages"].as_array().unwrap().last().unwrap().clone();
    let text = last["content"].as_str().unwrap_or_default();
    if text == "break" {
        return Reply::raw("application/json", r#"{"error":{"message":"broken"}}"#).status(500);
    }
    let message = match text.strip_prefix("look ") {
        Some(q) if last["role"] == "user" => calls(q),
        _ if body["stream"] == true => return Reply::words(["all ", "done"]),
        _ => json!({"role": "assistant", "content": "all done"}),
    };
    let finish = if message["tool_calls"].is_array() { "tool_calls" } else { "stop" };
    Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}]}))
}

async fn host() -> TestHost {
    let setup = TestHost::new().filter("listens", listener()).filter("asks", ASKS).tool("look", LOOK);
    let host = setup.config(REMEMBERS).start().await;
    host.upstream.script(model);
    host
}

fn chat_request(text: &str, stream: bool) -> Value {
    json!({"model": "assistant", "chat_id": "c", "stream": stream, "messages": [{"role": "user", "content": text}]})
}

/// Waits for an event and returns all events that the script has received.
async fn events_until(host: &TestHost, last: &str) -> Vec<Value> {
    let look = || async {
        let rows = host.store().kv_all().await.unwrap();
        let row = rows.iter().find(|row| row.key == "all");
        row.map(|row| serde_json::from_str::<Vec<Value>>(&row.value.to_string()).unwrap()).unwrap_or_default()
    };
    until(last, || async { look().await.iter().any(|event| event["event"] == last) }).await;
    look().await
}

fn names(events: &[Value]) -> String {
    events.iter().map(|event| event["event"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_script_receives_each_event_of_a_run_once_and_in_order() {
    let host = host().await;
    assert_eq!(host.chat(&chat_request("look tea", false)).await.text(), "all done");
    let events = events_until(&host, "on_turn_end").await;
    let expected = "on_turn_start on_custom_event on_llm_start on_llm_call on_llm_end \
        on_agent_action on_tool_start on_retriever_start on_tool_call on_tool_end on_retriever_end on_llm_start \
        on_llm_call on_llm_end on_text on_agent_finish on_turn_end";
    assert_eq!(names(&events), expected);
    assert!(
        events.iter().all(|event| event["agent_id"] == "assistant" && event["run_id"] == events[0]["run_id"])
    );
    let of = |name: &str| events.iter().find(|event| event["event"] == name).unwrap();
    assert_eq!(of("on_tool_end")["result"], "found tea");
    assert_eq!(of("on_tool_call")["args"], json!({"q": "tea"}));
    assert_eq!(of("on_custom_event")["name"], "begun");
    assert_eq!(of("on_agent_finish")["text"], "all done");
    assert_eq!(of("on_turn_start")["input"][0]["content"], "look tea");
}

#[tokio::test]
async fn a_script_receives_the_chunks_of_a_stream() {
    let host = host().await;
    assert_eq!(host.chat(&chat_request("hello", true)).await.text(), "all done");
    let events = events_until(&host, "on_turn_end").await;
    let tokens = events.iter().filter(|event| event["event"] == "on_token");
    let text: String = tokens.map(|event| event["token"].as_str().unwrap()).collect();
    assert_eq!(text, "all done");
}

#[tokio::test]
async fn a_script_receives_failures() {
    let host = host().await;
    assert_eq!(host.chat(&chat_request("look nothing", false)).await.text(), "all done");
    let of_tool = names(&events_until(&host, "on_turn_end").await);
    for name in ["on_tool_error", "on_retriever_error"] {
        assert_eq!(of_tool.matches(name).count(), 1, "{of_tool}");
    }
    assert_eq!(host.chat(&chat_request("break", false)).await.status, 500);
    let all = names(&events_until(&host, "on_turn_error").await);
    for name in ["on_llm_error", "on_turn_error"] {
        assert_eq!(all.matches(name).count(), 1, "{all}");
    }
}

#[tokio::test]
async fn a_script_receives_a_pause_once() {
    let host = host().await;
    let waits = host.chat(&chat_request("look secret", false)).await;
    let run = waits.header("x-valvehouse-run").unwrap().to_owned();
    let events_before = events_until(&host, "on_interrupt").await;
    assert_eq!(events_before.last().unwrap()["pending"]["question"]["data"]["tool"], "look");
    let path = format!("/api/v1/agents/runs/{run}/resume");
    let decided = host.request("POST", &path).body(r#"{"decision":"approve"}"#);
    assert_eq!(crate::host::Answer::of(decided).await.status, 200);
    let all = events_until(&host, "on_turn_end").await;
    let once = "on_turn_start on_custom_event on_agent_action on_tool_start on_retriever_start \
        on_interrupt on_resume on_tool_call on_tool_end on_retriever_end on_agent_finish on_turn_end";
    for name in once.split_whitespace() {
        let count = all.iter().filter(|event| event["event"] == name).count();
        assert_eq!(count, 1, "{name} in {}", names(&all));
    }
    assert!(all.iter().all(|event| event["run_id"] == run.as_str()));
}

#[tokio::test]
async fn a_script_receives_the_retry_of_a_model() {
    let config =
        format!("{REMEMBERS}\nmiddleware = {{ model_retry = {{ initial_delay_ms = 1, max_delay_ms = 1 }} }}");
    let host = TestHost::new().filter("listens", listener()).config(&config).start().await;
    let counter = std::sync::atomic::AtomicUsize::new(0);
    host.upstream.script(move |_| match counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 => Reply::raw("application/json", r#"{"error":{"message":"busy"}}"#).status(503),
        _ => Reply::text("all done"),
    });
    assert_eq!(host.chat(&chat_request("hello", false)).await.text(), "all done");
    let events = events_until(&host, "on_turn_end").await;
    assert_eq!(names(&events).matches("on_retry").count(), 1, "{}", names(&events));
}
