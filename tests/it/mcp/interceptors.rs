//! Filters as interceptors that other hosts call, according to the draft of that extension.

use super::same::rpc;
use crate::host::TestHost;
use serde_json::{Value, json};

const UPPER: &str = "/*\ndescription: Writes notes in capitals\n*/\nconst Valves = #{ priority: -5 };\n\
    fn pre_invocation(ctx) { if \"note\" in ctx.args { ctx.args.note = ctx.args.note.to_upper(); } ctx }\n\
    fn post_invocation(ctx) { if type_of(ctx.result) == \"string\" { ctx.result += \"!\"; } ctx }";
const DENY: &str = "fn pre_invocation(ctx) { error(\"denied by policy\") }";
const GUARD: &str = "/*\nsecurity: true\n*/\n\
    fn inlet(body) { body.messages[-1].content.replace(\"secret\", \"***\"); body }\n\
    fn outlet(body) { if \"secret\" in body.messages[-1].content { error(\"it says a secret\") } else { body } }";

async fn invoke(host: &TestHost, name: &str, event: &str, phase: &str, payload: Value) -> Value {
    let params = json!({ "name": name, "event": event, "phase": phase, "payload": payload });
    rpc(host, "interceptor/invoke", params).await
}

/// Returns a result without the fields that differ between calls.
fn result(answer: &Value) -> Value {
    let mut result = answer["result"].clone();
    let fields = result.as_object_mut().unwrap_or_else(|| panic!("{answer}"));
    assert!(fields.remove("durationMs").is_some_and(|took| took.is_u64()), "{answer}");
    fields.remove("_meta");
    assert_eq!(fields.remove("resultType"), Some("complete".into()));
    result
}

fn names(listed: &Value) -> Vec<&str> {
    let all = listed["result"]["interceptors"].as_array().unwrap_or_else(|| panic!("{listed}"));
    all.iter().map(|one| one["name"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_are_interceptors_only_if_configured() {
    let host = TestHost::new().filter("upper", UPPER).start().await;
    for method in ["interceptors/list", "interceptor/invoke"] {
        let refused = rpc(&host, method, json!({})).await;
        assert_eq!(refused["error"]["code"], -32_601, "{refused}");
    }
    let about = rpc(&host, "server/discover", json!({})).await;
    assert!(about["result"]["capabilities"]["extensions"].is_null(), "{about}");

    let toml = "[interceptors.upper]\n[server]\nkeys = [\"sk-all\", { key = \"sk-none\", mcp_tools = [] }]";
    let host = TestHost::new().filter("upper", UPPER).config(toml).start().await;
    let list = async |key: &str| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let body =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "interceptors/list", "params": { "_meta": meta } });
        let request = host
            .request("POST", "/mcp")
            .header("authorization", format!("Bearer {key}"))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "interceptors/list")
            .body(body.to_string());
        request.send().await.unwrap().text().await.unwrap()
    };
    assert!(list("sk-all").await.contains("\"upper\""));
    assert!(list("sk-none").await.contains("-32601"));
    assert!(list("sk-other").await.contains("invalid_api_key"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_host_calls_configured_filters_as_interceptors() {
    let toml = "[interceptors.upper]\n[interceptors.deny]\ntype = \"validation\"\n\
                [interceptors.watch]\nmode = \"audit\"\n[interceptors.guard]\n[interceptors.gone]\n\
                [interceptors.veto]\ntype = \"validation\"\n[interceptors.off]";
    let host = TestHost::new()
        .filter("upper", UPPER)
        .filter("deny", DENY)
        .filter("watch", DENY)
        .filter("guard", GUARD)
        .filter("veto", GUARD)
        .filter("off", UPPER)
        .filter("private", DENY)
        .config(toml)
        .config("[filters.off]\nenabled = false")
        .start()
        .await;
    let about = rpc(&host, "server/discover", json!({})).await;
    let extension = &about["result"]["capabilities"]["extensions"]["io.modelcontextprotocol/interceptors"];
    assert!(extension["supportedEvents"].as_array().unwrap().contains(&json!("tools/call")), "{about}");
    let listed = rpc(&host, "interceptors/list", json!({})).await;
    assert_eq!(names(&listed), ["upper", "deny", "watch", "guard", "gone", "veto"]);
    let events = json!(["tools/call", "prompts/get", "resources/read"]);
    assert_eq!(
        listed["result"]["interceptors"][0],
        json!({ "name": "upper", "type": "mutation", "description": "Writes notes in capitals", "mode": "enforce",
            "failOpen": false, "priorityHint": -5, "hooks": [
                { "events": events, "phase": "request" }, { "events": events, "phase": "response" }] })
    );
    assert_eq!(
        listed["result"]["interceptors"][1]["hooks"],
        json!([{ "events": events, "phase": "request" }])
    );
    // An interceptor that cannot run applies to every event and fails, so that nothing bypasses it.
    assert_eq!(
        names(&rpc(&host, "interceptors/list", json!({ "event": "llm/completion" })).await),
        ["guard", "gone", "veto"]
    );
    assert!(
        names(&rpc(&host, "interceptors/list", json!({ "event": "elicitation/create" })).await).is_empty()
    );

    // The fixtures of the draft: invoke-mutation-modified, -unmodified, -validation-deny, -unknown-name.
    let payload = json!({ "name": "echo", "arguments": { "note": "hello" } });
    let call =
        |name: &'static str, payload: &Value| invoke(&host, name, "tools/call", "request", payload.clone());
    let modified = result(&call("upper", &payload).await);
    let loud = json!({ "name": "echo", "arguments": { "note": "HELLO" } });
    assert_eq!(
        modified,
        json!({ "interceptor": "upper", "type": "mutation", "phase": "request", "modified": true, "payload": loud })
    );
    let unmodified = result(&call("upper", &loud).await);
    assert_eq!(unmodified["modified"], false);
    assert_eq!(unmodified["payload"], loud);
    let wrapped = json!({ "method": "tools/call", "params": payload });
    let modified = result(&call("upper", &wrapped).await);
    assert_eq!(modified["payload"], json!({ "method": "tools/call", "params": loud }));
    let denied = result(&call("deny", &payload).await);
    assert_eq!(
        denied,
        json!({ "interceptor": "deny", "type": "validation", "phase": "request", "valid": false, "severity": "error",
            "messages": [{ "message": "denied by policy", "severity": "error" }] })
    );
    for name in ["unknown", "private", "off"] {
        assert_eq!(
            invoke(&host, name, "tools/call", "request", payload.clone()).await["error"]["code"],
            -32_602,
            "{name}"
        );
    }
    // An observed event is not blocked.
    let watched = result(&call("watch", &payload).await);
    assert_eq!((&watched["modified"], &watched["payload"]), (&json!(false), &payload));
    assert_eq!(watched["info"]["refused"], "denied by policy");
    let gone = call("gone", &payload).await;
    assert_eq!(gone["error"]["code"], -32_603, "{gone}");

    // Tool results have the form that filters of this host receive.
    let answer = |text: &str| json!({ "content": [{ "type": "text", "text": text }], "isError": false });
    let changed = invoke(&host, "upper", "tools/call", "response", answer("done")).await;
    assert_eq!(result(&changed)["payload"], answer("done!"));
    let structured =
        json!({ "content": [{ "type": "text", "text": "{}" }], "structuredContent": { "a": 1 } });
    let kept = invoke(&host, "upper", "tools/call", "response", structured.clone()).await;
    assert_eq!(result(&kept)["payload"], structured);

    // Requests and responses of models.
    let chat_request = |text: &str| json!({ "model": "m", "messages": [{ "role": "user", "content": text }], "maxTokens": 5 });
    let masked = invoke(&host, "guard", "llm/completion", "request", chat_request("a secret")).await;
    assert_eq!(result(&masked)["payload"], chat_request("a ***"));
    let chat_response =
        |text: &str| json!({ "model": "m", "message": { "role": "assistant", "content": text } });
    let passed = invoke(&host, "guard", "llm/completion", "response", chat_response("hello")).await;
    assert_eq!(result(&passed)["modified"], false);
    let refused = invoke(&host, "guard", "llm/completion", "response", chat_response("a secret")).await;
    assert_eq!(refused["error"]["data"]["reason"], "it says a secret", "{refused}");
    // A guard that may not change the payload rejects it.
    let vetoed = result(&invoke(&host, "veto", "llm/completion", "request", chat_request("a secret")).await);
    assert_eq!((&vetoed["valid"], &vetoed["suggestions"][0]["path"]), (&json!(false), &json!("messages")));
    let valid = result(&invoke(&host, "veto", "llm/completion", "request", chat_request("hello")).await);
    assert_eq!(valid["valid"], true);

    for (params, why) in [
        (
            json!({ "name": "deny", "event": "llm/completion", "phase": "request", "payload": chat_request("x") }),
            "does not handle",
        ),
        (
            json!({ "name": "deny", "event": "tools/call", "phase": "later", "payload": payload }),
            "unknown phase",
        ),
        (
            json!({ "name": "deny", "event": "tools/call", "phase": "request", "payload": 7 }),
            "expected an object",
        ),
        (json!({ "name": "deny", "event": "tools/call", "phase": "request" }), "payload"),
        (
            json!({ "name": "deny", "event": "tools/call", "phase": "request", "payload": payload, "config": { "x": 1 } }),
            "does not accept `config`",
        ),
    ] {
        let wrong = rpc(&host, "interceptor/invoke", params).await;
        assert_eq!(wrong["error"]["code"], -32_602, "{wrong}");
        assert!(wrong["error"]["message"].as_str().unwrap().contains(why), "{wrong}");
    }
    // A saved filter takes effect at once.
    host.update("deny", "fn pre_invocation(ctx) { ctx }").await;
    assert_eq!(result(&call("deny", &payload).await)["valid"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interceptor_call_has_the_budget_grants_and_trace_of_the_filter() {
    let endless = "fn pre_invocation(ctx) { loop {} }";
    let reaches =
        "/*\nrequirements: http\n*/\nfn pre_invocation(ctx) { http::get(\"http://127.0.0.1:9/\"); ctx }";
    let waits = "fn pre_invocation(ctx) { time::sleep(20000); ctx }";
    let toml = "[interceptors.endless]\n[interceptors.reaches]\n[interceptors.waits]\n[interceptors.upper]";
    let host = TestHost::new()
        .filter("endless", endless)
        .filter("reaches", reaches)
        .filter("waits", waits)
        .filter("upper", UPPER)
        .config(toml)
        .start()
        .await;
    let payload = json!({ "name": "echo", "arguments": { "note": "hello" } });
    for name in ["endless", "reaches"] {
        let failed = invoke(&host, name, "tools/call", "request", payload.clone()).await;
        assert_eq!(failed["error"]["code"], -32_603, "{failed}");
        assert_eq!(failed["error"]["data"]["interceptor"], name);
    }
    let params = json!({ "name": "waits", "event": "tools/call", "phase": "request", "payload": payload, "timeoutMs": 50 });
    let mut without = params.clone();
    without["timeoutMs"] = json!(0);
    let refused = rpc(&host, "interceptor/invoke", without).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("`timeoutMs`"), "{refused}");
    let late = rpc(&host, "interceptor/invoke", params).await;
    assert_eq!(
        (&late["error"]["code"], &late["error"]["data"]["timeoutMs"]),
        (&json!(-32_000), &json!(50)),
        "{late}"
    );

    result(&invoke(&host, "upper", "tools/call", "request", payload).await);
    let traces = host.get("/api/v1/traces").await.json();
    let past = traces["past"].as_array().unwrap_or_else(|| panic!("{traces}"));
    let ours = past.iter().filter(|trace| trace["endpoint"] == "mcp").count();
    assert_eq!(ours, 4, "{traces}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interceptor_calls_no_tool_on_behalf_of_its_caller() {
    let calls = "/*\nrequirements: tools\n*/\nfn inlet(body) { tools::call(\"look\", #{}); body }";
    let tool = "fn handler(args) { \"seen\" }";
    let host = TestHost::new()
        .filter("calls", calls)
        .tool("look", tool)
        .config("[interceptors.calls]")
        .start()
        .await;
    let payload = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });
    let failed = invoke(&host, "calls", "llm/completion", "request", payload).await;
    assert_eq!(failed["error"]["code"], -32_603, "{failed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_interceptor_payload_reaches_no_filter_and_opens_no_breaker() {
    let guard = "/*\nsecurity: true\n*/\nfn inlet(body) {\n\
        if body.messages[-1].content == \"break\" { let x = 1 / 0; }\n\
        body\n}\nfn outlet(body) { body.messages[-1].content.len(); body }\nfn pre_invocation(ctx) { ctx.args.x = 1; ctx }";
    let host = TestHost::new()
        .filter("guard", guard)
        .config("[interceptors.guard]\n[breaker]\nfailure_threshold = 3\ncool_down_ms = 600000")
        .start()
        .await;
    for (event, phase, payload, why) in [
        ("llm/completion", "request", json!({ "model": "m", "messages": [] }), "at least one message"),
        ("llm/completion", "request", json!({ "model": "m", "messages": [7] }), "messages[0]"),
        (
            "llm/completion",
            "request",
            json!({ "model": "m", "messages": [{ "content": "x" }] }),
            "messages[0].role",
        ),
        ("llm/completion", "request", json!({ "messages": [{ "role": "user", "content": "x" }] }), "model"),
        (
            "llm/completion",
            "request",
            json!({ "method": "x", "params": { "model": "m", "messages": [] } }),
            "at least one message",
        ),
        ("llm/completion", "response", json!({ "model": "m", "message": { "content": "x" } }), "role"),
        ("tools/call", "request", json!({ "name": "x", "arguments": [1] }), "arguments"),
        ("tools/call", "request", json!({ "name": "x", "arguments": "y" }), "arguments"),
    ] {
        let refused = invoke(&host, "guard", event, phase, payload).await;
        assert_eq!(refused["error"]["code"], -32_602, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(why), "{why}: {refused}");
    }
    let traces = host.get("/api/v1/traces").await.json();
    assert!(traces["past"].as_array().unwrap().is_empty(), "{traces}");

    let payload = json!({ "model": "m", "messages": [{ "role": "user", "content": "break" }] });
    let mut reasons = Vec::new();
    for _ in 0..6 {
        let failed = invoke(&host, "guard", "llm/completion", "request", payload.clone()).await;
        assert_eq!(failed["error"]["code"], -32_603, "{failed}");
        reasons.push(failed["error"]["data"]["reason"].as_str().unwrap().to_owned());
    }
    // The interceptor has a separate breaker.
    assert!(
        !reasons[0].contains("circuit breaker is open") && reasons[5].contains("circuit breaker is open"),
        "{reasons:?}"
    );
    let chat = host.ask("hello").await;
    assert_eq!(chat.status, 200, "{}", chat.body());
    // A new version starts with a closed breaker.
    host.update("guard", &guard.replace("\"break\"", "\"burst\"")).await;
    result(&invoke(&host, "guard", "llm/completion", "request", payload).await);
}
