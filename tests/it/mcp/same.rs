//! One tool, called by a model's chat, by an agent, by `invoke` and over MCP: the same result through the
//! same filters.

use crate::host::TestHost;
use crate::upstream::Reply;
use serde_json::{Value, json};
use valvehouse::trace::Traces;

const TOOL: &str = "/*\ndescription: Adds\n*/\nconst parameters = #{ a: #{ type: \"integer\", required: true } };\nfn handler(args) { #{ sum: args.a + 1 } }";
const FILTER: &str = "fn pre_invocation(ctx) { ctx.args.a += 10; ctx }\nfn post_invocation(ctx) { ctx.result.seen = true; ctx }";

/// Returns the call that the model makes.
fn plus() -> Value {
    json!({ "index": 0, "id": "call_1", "type": "function", "function": { "name": "plus", "arguments": "{\"a\":1}" } })
}

/// Returns the steps around the tool in the latest trace: names and results.
pub(super) fn steps(traces: &Traces) -> Vec<String> {
    let past = traces.past();
    let records = past[0].records();
    let text = |record: &valvehouse::json::Json, key: &str| record.text(key).unwrap_or_default();
    let all = records.iter().map(|record| record.to_json());
    let around =
        all.filter(|record| ["pre_invocation", "tool", "post_invocation"].contains(&&*text(record, "hook")));
    around
        .map(|record| {
            format!("{} {} {}", text(&record, "hook"), text(&record, "plugin"), text(&record, "outcome"))
        })
        .collect()
}

pub(super) async fn rpc(host: &TestHost, method: &str, params: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut params = params;
    params["_meta"] = meta;
    let name = params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default().to_owned();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let mut request = host
        .request("POST", "/mcp")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method)
        .body(body.to_string());
    if !name.is_empty() {
        request = request.header("mcp-name", name);
    }
    let text = request.send().await.unwrap().text().await.unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data:")).next_back().unwrap_or(&text);
    serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_gives_the_same_result_by_chat_agent_invoke_and_mcp() {
    let host = TestHost::new()
        .tool("plus", TOOL)
        .filter("shift", FILTER)
        .config("[[models]]\nname = \"helper\"\nprovider = \"mock\"\nmodel = \"mock-1\"\ntools = [\"plus\"]")
        .config("[[models]]\nname = \"clerk\"\nprovider = \"mock\"\nmodel = \"mock-1\"\ntools = [\"plus\"]\nmemory = true")
        .start()
        .await;
    let expected = json!({ "sum": 12, "seen": true });
    let called = rpc(&host, "tools/call", json!({ "name": "plus", "arguments": { "a": 1 } })).await;
    assert_eq!(called["result"]["structuredContent"], expected, "{called}");
    let of_mcp = steps(&host.app().traces);
    assert_eq!(of_mcp.len(), 3, "{of_mcp:?}");

    host.upstream.script(|request| match request.text().contains("\"role\":\"tool\"") {
        true => Reply::fitting(request, "done"),
        false if request.json()["stream"] == true => {
            let delta = json!({ "role": "assistant", "content": null, "tool_calls": [plus()] });
            let chunk = |delta: Value, end: Value| {
                json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "mock-1",
                    "choices": [{ "index": 0, "delta": delta, "finish_reason": end }] })
            };
            let (first, last) = (chunk(delta, Value::Null), chunk(json!({}), json!("tool_calls")));
            Reply::raw("text/event-stream", format!("data: {first}\n\ndata: {last}\n\ndata: [DONE]\n\n"))
        }
        false => Reply::json(&json!({
            "id": "c", "object": "chat.completion", "created": 1, "model": "mock-1",
            "choices": [{ "index": 0, "finish_reason": "tool_calls",
                "message": { "role": "assistant", "content": null, "tool_calls": [plus()] } }],
        })),
    });
    let body = json!({ "model": "helper", "messages": [{ "role": "user", "content": "add" }] });
    let answer = host.chat(&body).await;
    assert_eq!(answer.status, 200, "{}", answer.body());
    let sent = host.upstream.requests().last().unwrap().json();
    let message =
        sent["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&message).unwrap(), expected);
    assert_eq!(steps(&host.app().traces), of_mcp);

    let run = json!({ "input": "add" }).to_string();
    let run = host.request("POST", "/api/v1/agents/clerk/runs").body(run).send().await.unwrap();
    assert_eq!(run.status(), 200, "{}", run.text().await.unwrap());
    let sent = host.upstream.requests().last().unwrap().json();
    let result = sent["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&result).unwrap(), expected);
    assert_eq!(steps(&host.app().traces), of_mcp);

    let mut invoke = std::process::Command::new(super::clients::BINARY);
    invoke.arg("--project").arg(host.folder()).args(["--format", "json", "invoke", "plus", "a=1"]);
    let output = tokio::task::spawn_blocking(move || invoke.output()).await.unwrap().unwrap();
    let printed: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error} {output:?}"));
    assert_eq!(printed["result"], expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_uses_its_own_tools_and_sessions_only() {
    let keys = "[server]\nkeys = [\"sk-all\", { key = \"sk-few\", user = { id = \"ann\" }, mcp_tools = [\"plus\"] }]";
    let host = TestHost::new()
        .tool("plus", TOOL)
        .tool("minus", "/*\ndescription: Takes away\n*/\nfn handler(args) { 0 }")
        .config(keys)
        .start()
        .await;
    let post = |key: &str, session: Option<String>, body: Value| {
        let mut request = host
            .request("POST", "/mcp")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("authorization", format!("Bearer {key}"))
            .body(body.to_string());
        if let Some(session) = session {
            request = request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-11-25");
        }
        request.send()
    };
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    assert_eq!(post("sk-wrong", None, hello.clone()).await.unwrap().status(), 401);
    let begun = post("sk-few", None, hello).await.unwrap();
    let session = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    assert!(begun.text().await.unwrap().contains("listChanged"));
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(post("sk-few", Some(session.clone()), ready).await.unwrap().status(), 202);
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    let listed = post("sk-few", Some(session.clone()), list.clone()).await.unwrap().text().await.unwrap();
    assert!(listed.contains("\"plus\"") && !listed.contains("minus"), "{listed}");
    let call = json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": { "name": "minus" } });
    let called = post("sk-few", Some(session.clone()), call).await.unwrap().text().await.unwrap();
    assert!(called.contains("unknown tool `minus`"), "{called}");
    assert_eq!(post("sk-all", Some(session.clone()), list).await.unwrap().status(), 404);
    let other = host
        .request("POST", "/mcp")
        .header("authorization", "Bearer sk-few")
        .header("origin", "https://evil.example");
    assert_eq!(other.send().await.unwrap().status(), 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_inside_a_tool_waits_at_the_host_if_the_client_has_no_forms() {
    let asks = "/*\nrequirements: llm\n*/\n\
        fn handler(args) { llm::chat(#{ model: \"clerk\", messages: [#{ role: \"user\", content: \"pay\" }] }).content }";
    let host = TestHost::new()
        .tool("asks", asks)
        .tool("pay", "/*\ntimeout: 60000\n*/\nfn handler(args) { `paid ${args.amount}` }")
        .config(
            "[[models]]\nname = \"clerk\"\nprovider = \"mock\"\nmodel = \"mock-1\"\ntools = [\"pay\"]\n\
             middleware = { human_approval = { timeout_ms = 60_000 } }\n[grants.asks]\nllm = true",
        )
        .start()
        .await;
    host.upstream.script(crate::even_ground::pays);
    let approve = async || {
        let question = crate::even_ground::held(&host).await;
        assert_eq!(
            (&question["data"]["tool"], &question["model"]),
            (&json!("pay"), &json!("clerk")),
            "{question}"
        );
        let path = format!("/api/v1/questions/{}", question["id"].as_str().unwrap());
        assert_eq!(host.request("POST", &path).body("true").send().await.unwrap().status(), 200);
    };
    let call = json!({ "name": "asks", "arguments": {} });
    let (called, ()) = tokio::join!(rpc(&host, "tools/call", call.clone()), approve());
    assert!(called["result"].to_string().contains("paid 5"), "{called}");

    let post = |session: Option<String>, body: Value| {
        let mut request = host
            .request("POST", "/mcp")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(body.to_string());
        if let Some(session) = session {
            request = request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-11-25");
        }
        request.send()
    };
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    let begun = post(None, hello).await.unwrap();
    let session = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    drop(begun.text().await.unwrap());
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(post(Some(session.clone()), ready).await.unwrap().status(), 202);
    let call = json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": call });
    let called = async { post(Some(session), call).await.unwrap().text().await.unwrap() };
    let (called, ()) = tokio::join!(called, approve());
    assert!(called.contains("paid 5"), "{called}");
}
