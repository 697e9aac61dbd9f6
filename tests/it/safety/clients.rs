//! The limits of a client with a key: it cannot be another user, be an administrator, disable a plugin for others, read
//! the conversations of others, or send the model what guards do not see.

use crate::host::{Answer, TestHost, chat_body};
use crate::upstream::MODEL;
use serde_json::{Value, json};

const KEYS: &str = "[server]\nkeys = [\"sk-plain-0123456789\", { key = \"sk-ann-0123456789\", user = { id = \"ann\" } }, \
                    { key = \"sk-bob-0123456789\", user = { id = \"bob\" } }]";

/// Tells the user that the script sees.
const TELLS: &str =
    "fn inlet(body, __user__) { skip(json::stringify(#{ id: __user__.id, role: __user__.role })) }";

async fn chat_as(host: &TestHost, key: &str, body: &Value) -> Answer {
    Answer::of(host.posting(body.to_string()).header("authorization", format!("Bearer sk-{key}-0123456789")))
        .await
}

async fn post(host: &TestHost, path: &str, body: &Value) -> Answer {
    let request = host.request("POST", path).header("content-type", "application/json");
    Answer::of(request.body(body.to_string())).await
}

async fn records_of_ann(host: &TestHost, method: &str) -> Value {
    let request = host.request(method, "/api/v1/users/ann/records");
    Answer::of(request.header("authorization", "Bearer sesame")).await.json()
}

async fn post_as(host: &TestHost, key: &str, path: &str, body: &Value) -> Answer {
    let request = host.request("POST", path).header("content-type", "application/json");
    let request = request.header("authorization", format!("Bearer sk-{key}-0123456789"));
    Answer::of(request.body(body.to_string())).await
}

#[tokio::test]
async fn the_body_of_a_client_names_no_role_and_no_other_user_of_a_key() {
    let host = TestHost::new().filter("tells", TELLS).config(KEYS).start().await;
    let mut body = chat_body(MODEL, "hi");
    body["user"] = json!({"id": "zed", "role": "admin"});
    assert_eq!(chat_as(&host, "plain", &body).await.text(), r#"{"id":"zed","role":null}"#);
    assert_eq!(chat_as(&host, "ann", &body).await.text(), r#"{"id":"ann","role":null}"#);
    let split = json!({"user": {"id": "bob", "role": "admin"}, "body": chat_body(MODEL, "hi")});
    for (key, expected) in [("plain", r#"{"id":"bob","role":null}"#), ("ann", r#"{"id":"ann","role":null}"#)]
    {
        let answer = post_as(&host, key, "/tells/filter/inlet", &split).await;
        assert!(answer.body().replace('\\', "").contains(expected), "{key}: {}", answer.body());
    }
    // Without keys, everybody is an operator.
    let open = TestHost::new().filter("tells", TELLS).start().await;
    assert_eq!(open.chat(&body).await.text(), r#"{"id":"zed","role":"admin"}"#);
}

#[tokio::test]
async fn failures_of_one_client_disable_a_plugin_for_it_alone() {
    let fails = "fn inlet(body) { if body.messages[-1].text == \"zero\" { let x = 0; x = 1 / x; } body }";
    let host = TestHost::new().filter("fails", fails).config(KEYS).start().await;
    for _ in 0..5 {
        assert_eq!(chat_as(&host, "bob", &chat_body(MODEL, "zero")).await.status, 500);
    }
    chat_as(&host, "bob", &chat_body(MODEL, "hi")).await.refused(503, "circuit breaker");
    assert_eq!(chat_as(&host, "ann", &chat_body(MODEL, "hi")).await.status, 200);
    assert_eq!(chat_as(&host, "plain", &chat_body(MODEL, "hi")).await.status, 200);
}

#[tokio::test]
async fn messages_that_are_no_objects_do_not_reach_the_filters_of_a_pipelines_server() {
    let host =
        TestHost::new().filter("reads", "fn inlet(body) { body.messages[0].text.len(); body }").start().await;
    for messages in [json!(["x"]), json!([null]), json!([{"content": "no role"}])] {
        let answer =
            post(&host, "/reads/filter/inlet", &json!({"body": {"model": MODEL, "messages": messages}}))
                .await;
        assert_eq!(answer.status, 400, "{}", answer.body());
    }
}

#[tokio::test]
async fn valves_of_a_user_have_a_size_that_scripts_can_read() {
    let script = "const UserValves = #{ color: \"red\" };\nfn inlet(body, __user__) { body }";
    let host = TestHost::new().filter("paints", script).config(KEYS).start().await;
    let path = "/api/v1/functions/id/paints/valves/user/update";
    assert_eq!(post_as(&host, "bob", path, &json!({"color": "b".repeat(60_000)})).await.status, 200);
    let answer = post_as(&host, "bob", path, &json!({"color": "b".repeat(70_000)})).await;
    assert_eq!(answer.status, 413, "{}", answer.body());
    assert!(answer.body().contains("64 KiB"), "{}", answer.body());
}

#[tokio::test]
async fn a_verified_user_has_its_own_entries_of_a_chat() {
    let notes = "/*\nrequirements: kv\n*/\nfn inlet(body) { let seen = kv::chat::get(\"note\", \"none\"); kv::chat::set(\"note\", body.messages[-1].text); skip(seen) }";
    let host =
        TestHost::new().filter("notes", notes).config(KEYS).config("[admin]\nkey = \"sesame\"").start().await;
    let say = |text: &str| {
        let mut body = chat_body(MODEL, text);
        body["chat_id"] = json!("c-ann");
        body
    };
    assert_eq!(chat_as(&host, "ann", &say("private")).await.text(), "none");
    assert_eq!(chat_as(&host, "bob", &say("mine")).await.text(), "none");
    assert_eq!(chat_as(&host, "plain", &say("anyone's")).await.text(), "none");
    assert_eq!(chat_as(&host, "ann", &say("again")).await.text(), "private");
    let records = records_of_ann(&host, "GET").await;
    assert_eq!(records["entries"], 1, "{records}");
    let forgotten = records_of_ann(&host, "DELETE").await;
    assert_eq!(forgotten["entries"], 1, "{forgotten}");
    assert_eq!(chat_as(&host, "ann", &say("new")).await.text(), "none");
    assert_eq!(chat_as(&host, "bob", &say("x")).await.text(), "mine");
}

/// A guard that allows one tool.
const TOOLS: &str = "/*\nsecurity: true\n*/\nconst ALLOWED = [\"weather\"];\nfn inlet(body) { body.tools = (body.tools ?? []).filter(|tool| tool.type == \"function\" && tool.function.name in ALLOWED); body }";

#[tokio::test]
async fn an_anthropic_service_receives_only_what_guards_have_seen() {
    let host = TestHost::new().provider("kind = \"anthropic\"").filter("tools", TOOLS).start().await;
    let mut body = chat_body(MODEL, "hi");
    body["tools"] = json!([{"type": "function", "name": "delete_all", "description": "x", "function": {"name": "weather", "parameters": {}}}]);
    host.chat(&body).await;
    let sent = host.upstream.requests().pop().unwrap();
    assert_eq!(
        sent.json()["tools"],
        json!([{"name": "weather", "input_schema": {"type": "object", "properties": {}}}])
    );
    let mut body = chat_body(MODEL, "hi");
    body["system"] = json!("obey");
    host.chat(&body).await.refused(400, "system");
    // The service does not count the tokens of a prompt that no guard has seen.
    let before = host.upstream.requests().len();
    let counted = post(
        &host,
        "/v1/messages/count_tokens",
        &json!({"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}),
    )
    .await;
    assert!(counted.json()["input_tokens"].as_u64().unwrap() > 0);
    assert_eq!(host.upstream.requests().len(), before);
}

#[tokio::test]
async fn items_that_add_tools_are_rejected_where_guards_check_tools() {
    let input = |kind: &str| {
        json!([
            {"type": kind, "role": "developer", "tools": [{"type": "web_search"}, {"type": "function", "name": "weather"}]},
            {"role": "user", "content": "hi"},
        ])
    };
    let guarded = TestHost::new().provider("api = \"responses\"").filter("tools", TOOLS).start().await;
    let unknown = json!({"model": MODEL, "input": input("more_tools")});
    guarded.respond(&unknown).await.refused(400, "more_tools");
    assert_eq!(guarded.upstream.requests().len(), 0);
    // These are tools of the request, which the guard checks.
    guarded.respond(&json!({"model": MODEL, "input": input("additional_tools")})).await;
    let sent = guarded.upstream.last().json();
    let parameters = json!({"type": "object", "properties": {}});
    let left = json!([{"type": "function", "name": "weather", "parameters": parameters}]);
    assert_eq!((&sent["input"][0]["tools"], sent.get("tools")), (&left, None), "{sent}");
}

#[tokio::test]
async fn inputs_in_other_fields_of_an_embedding_are_rejected_where_filters_read_the_texts() {
    let guard =
        "/*\nsecurity: true\n*/\nconst endpoints = [\"chat\", \"embeddings\"];\nfn inlet(body) { body }";
    let host = TestHost::new().filter("reads", guard).start().await;
    for field in ["messages", "texts", "inputs"] {
        let mut body = json!({"model": MODEL, "input": "hi"});
        body[field] = json!([{"role": "user", "content": "secret"}]);
        post(&host, "/v1/embeddings", &body).await.refused(400, field);
    }
}

#[tokio::test]
async fn an_invalid_response_of_a_service_is_not_quoted_to_the_client() {
    let host = TestHost::new().start().await;
    host.upstream.script(|_| crate::upstream::Reply::raw("application/json", "oops sk-secret-1234"));
    let answer = host.ask("hi").await;
    assert_eq!(answer.status, 502);
    assert!(!answer.body().contains("sk-secret"), "{}", answer.body());
}
