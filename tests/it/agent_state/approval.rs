//! `human_approval` of a configured model, from the question to the answer, over HTTP.

use crate::host::{Answer, TestHost};
use crate::upstream::{MODEL, Reply, UpstreamRequest};
use serde_json::{Value, json};

const CONFIG: &str = "[[models]]\nname = \"assistant\"\nprovider = \"mock\"\nmodel = \"mock-1\"\nmemory = true\n\
    tools = [\"*\"]\nmiddleware = { human_approval = { mode = \"selective\", tools = [\"pay\"] } }";

const PAY: &str = r#"
const parameters = #{ amount: #{ type: "integer", required: true } };
fn handler(args) { #{ paid: args.amount } }
"#;

/// Calls the payment tool on request, then returns its result.
fn model(request: &UpstreamRequest) -> Reply {
    let body = request.json();
    let last = body["messages"].as_array().unwrap().last().unwrap();
    let text = last["content"].as_str().unwrap_or_default();
    if last["role"] == "tool" {
        return Reply::fitting(request, text);
    }
    let calls = json!([{"id": "call_1", "type": "function",
        "function": {"name": "pay", "arguments": "{\"amount\":5}"}}]);
    let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
    Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}))
}

async fn host() -> TestHost {
    let host = TestHost::new().tool("pay", PAY).config(CONFIG).start().await;
    host.upstream.script(model);
    host
}

fn chat_request(chat: &str) -> Value {
    json!({"model": "assistant", "chat_id": chat, "messages": [{"role": "user", "content": "pay"}]})
}

async fn waits(host: &TestHost, chat: &str) -> String {
    let answer = host.chat(&chat_request(chat)).await;
    assert!(answer.text().contains("asks whether `pay` may run with {\"amount\":5}"), "{}", answer.body());
    answer.header("x-valvehouse-run").unwrap().to_owned()
}

async fn decide(host: &TestHost, run: &str, decision: &Value) -> Answer {
    let path = format!("/api/v1/agents/runs/{run}/resume");
    Answer::of(host.request("POST", &path).body(decision.to_string())).await
}

/// Returns the tool results of a conversation.
async fn results(host: &TestHost, chat: &str) -> Vec<String> {
    let lines = super::lines(&host.store().messages(chat, 0, 99).await.unwrap());
    lines.iter().filter_map(|line| line.strip_prefix("tool: ")).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_person_approves_rejects_or_changes_a_tool_call() {
    let host = host().await;
    for (decision, words) in [
        (json!({"decision": "approve"}), "\"paid\":5"),
        (json!({"decision": "reject", "reason": "too dear"}), "too dear"),
        (json!({"decision": "approve", "arguments": {"amount": 2}}), "\"paid\":2"),
    ] {
        let run = waits(&host, words).await;
        let path = format!("/api/v1/agents/runs/{run}");
        let state = host.get(&path).await.json();
        assert_eq!(state["pending_action"]["by"], "human_approval");
        assert_eq!(state["tool_calls"][0]["function"]["name"], "pay");
        let decided = decide(&host, &run, &decision).await;
        assert_eq!(decided.status, 200, "{}", decided.body());
        let results = results(&host, words).await;
        assert_eq!(results.len(), 1, "{results:?}");
        assert!(results[0].contains(words), "{results:?}");
        assert_eq!(host.get(&path).await.json()["status"], "done");
        assert_eq!(decide(&host, &run, &decision).await.status, 409, "decided once");
    }
}

#[tokio::test]
async fn changed_arguments_are_validated_like_those_of_the_model() {
    let host = host().await;
    let run = waits(&host, "c").await;
    let wrong = decide(&host, &run, &json!({"decision": "approve", "arguments": "all"})).await;
    assert_eq!(wrong.status, 400, "{}", wrong.body());
    decide(&host, &run, &json!({"decision": "approve", "arguments": {"amount": "much"}})).await;
    let results = results(&host, "c").await;
    assert!(
        results.len() == 1 && results[0].contains("amount") && !results[0].contains("paid"),
        "{results:?}"
    );
}

#[tokio::test]
async fn a_decision_can_be_made_in_another_process() {
    let mut host = host().await;
    let run = waits(&host, "c").await;
    host.restart().await;
    assert_eq!(decide(&host, &run, &json!({"decision": "approve"})).await.status, 200);
    assert_eq!(results(&host, "c").await, ["{\"paid\":5}"]);
}

/// A script that changes the arguments in every callback that receives them.
const CHANGES: &str = r#"
const Valves = #{ priority: 9997 };
const callbacks = true;
fn on_tool_start(event) { event.args.amount = 999; }
fn on_tool_call(event) { event.args.amount = 999; event.args = #{ amount: 999 }; }
fn pre_invocation(ctx, state) {
    // The array of the last call is not a way to the arguments of this one.
    if state.args != () { state.args.amount = 999; }
    state.args = ctx.args;
    ctx
}
fn inlet(body, state) { state.args = (); body }
"#;

#[tokio::test]
async fn callbacks_cannot_change_approved_arguments() {
    let mut host = TestHost::new().tool("pay", PAY).filter("changes", CHANGES).config(CONFIG).start().await;
    host.upstream.script(model);
    for restarts in [false, true] {
        let chat = format!("restarts {restarts}");
        let run = waits(&host, &chat).await;
        if restarts {
            host.restart().await;
        }
        assert_eq!(decide(&host, &run, &json!({"decision": "approve"})).await.status, 200);
        assert_eq!(results(&host, &chat).await, ["{\"paid\":5}"]);
    }
}

#[tokio::test]
async fn a_person_sees_the_arguments_as_changed_by_scripts() {
    let doubles = "const Valves = #{ priority: 9997 };\nfn pre_invocation(ctx) { ctx.args.amount *= 2; ctx }";
    let host = TestHost::new().tool("pay", PAY).filter("doubles", doubles).config(CONFIG).start().await;
    host.upstream.script(model);
    let answer = host.chat(&chat_request("c")).await;
    assert!(answer.text().contains("asks whether `pay` may run with {\"amount\":10}"), "{}", answer.body());
    let run = answer.header("x-valvehouse-run").unwrap().to_owned();
    assert_eq!(decide(&host, &run, &json!({"decision": "approve"})).await.status, 200);
    assert_eq!(results(&host, "c").await, ["{\"paid\":10}"]);
}
