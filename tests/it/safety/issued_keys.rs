//! Keys that operators hand out: their models on every route, their limits, their roles, and their end.

use super::with;
use crate::cli::Project;
use crate::host::{Answer, TIMEOUT, TestHost, chat_body, streaming, until};
use crate::upstream::{Gate, MODEL, Reply};
use serde_json::{Value, json};
use valvehouse::json::Json;
use valvehouse::store::StoredKey;

const CONFIG: &str = r#"
[admin]
key = "sk-operator"
[[models]]
name = "fast"
provider = "mock"
model = "mock-1"
price = { input = 1_000_000, output = 2_000_000 }
[[models]]
name = "smart"
provider = "mock"
model = "mock-2"
"#;

async fn host() -> TestHost {
    TestHost::new().config(CONFIG).start().await
}

async fn operate(host: &TestHost, method: &str, path: &str, body: Value) -> Answer {
    let request = host.request(method, path).bearer_auth("sk-operator");
    Answer::of(if body.is_null() { request } else { request.body(body.to_string()) }).await
}

/// Creates a key with these rights.
async fn key(host: &TestHost, name: &str, rights: Value) -> String {
    let made = operate(host, "POST", "/api/v1/keys", json!({"name": name, "rights": rights})).await;
    made.ok()["key"].as_str().unwrap().to_owned()
}

async fn ask(host: &TestHost, key: &str, body: &Value) -> Answer {
    Answer::of(host.posting(body.to_string()).bearer_auth(key)).await
}

async fn used(host: &TestHost, name: &str) -> (u64, f64) {
    let key = operate(host, "GET", &format!("/api/v1/keys/{name}"), Value::Null).await.ok();
    (key["use"]["tokens_today"].as_u64().unwrap(), key["use"]["cost_today"].as_f64().unwrap())
}

/// The bodies of every route that names a model.
fn routes(model: &str) -> Vec<(String, Value)> {
    let messages = json!([{"role": "user", "content": "hi"}]);
    let chat = json!({"model": model, "messages": messages, "max_tokens": 9});
    let with = |key: &str, value: Value| {
        let mut body = chat.clone();
        body[key] = value;
        body
    };
    let input = json!({"model": model, "input": "hi"});
    let mut background = input.clone();
    background["background"] = true.into();
    let all = [
        ("/v1/chat/completions", chat.clone()),
        ("/v1/chat/completions", with("stream", true.into())),
        ("/chat/completions", chat.clone()),
        ("/v1/messages", chat.clone()),
        ("/v1/messages/count_tokens", chat.clone()),
        ("/v1/responses", input.clone()),
        ("/v1/responses", background),
        ("/v1/responses/compact", json!({"model": model, "input": [{"role": "user", "content": "hi"}]})),
        ("/api/chat", chat.clone()),
        ("/api/generate", json!({"model": model, "prompt": "hi"})),
        ("/api/show", json!({"model": model})),
        ("/api/embed", input.clone()),
        ("/api/embed", json!({"model": model, "input": []})),
        ("/api/embeddings", json!({"model": model, "prompt": "hi"})),
        ("/v1/embeddings", input.clone()),
        ("/v1/completions", json!({"model": model, "prompt": "hi"})),
        ("/v1/moderations", input.clone()),
        ("/v1/rerank", json!({"model": model, "query": "hi", "documents": ["hi"]})),
        ("/v1/images/generations", json!({"model": model, "prompt": "hi"})),
        ("/v1/audio/speech", json!({"model": model, "input": "hi", "voice": "a"})),
        ("/v1/batches", json!({"input_file_id": "f", "endpoint": "/v1/chat/completions"})),
        ("/v1/embeddings", json!({"input": "hi"})),
    ];
    let mut all: Vec<(String, Value)> = all.into_iter().map(|(path, body)| (path.to_owned(), body)).collect();
    all.push((format!("/openai/deployments/{model}/chat/completions"), json!({"messages": messages})));
    all.push((format!("/openai/deployments/{model}/embeddings"), json!({"input": "hi"})));
    all
}

/// The methods and paths that `/openapi.json` describes for callers of one kind and not for those of the other; ids in
/// paths are this text.
async fn described(host: &TestHost, opened_by: &str, not_by: &str, id: &str) -> Vec<(String, String)> {
    let document = host.get("/openapi.json").await.json();
    let mut found = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let parts = path.split('/').map(|part| if part.starts_with('{') { id } else { part });
        let path = parts.collect::<Vec<_>>().join("/");
        for (method, operation) in operations.as_object().unwrap() {
            let security = operation["security"].as_array().cloned().unwrap_or_default();
            let is_by = |kind: &str| security.iter().any(|one| one.get(kind).is_some());
            if is_by(opened_by) && !is_by(not_by) {
                found.push((method.to_uppercase(), path.clone()));
            }
        }
    }
    found
}

#[tokio::test]
async fn no_described_route_reaches_a_model_that_a_key_cannot_use() {
    let host = host().await;
    let (mut body, mut ways) = (json!({}), described(&host, "key", "none", "smart").await);
    ways.extend(described(&host, "operator", "none", "smart").await);
    assert!(ways.len() > 80, "{ways:?}");
    // What any of them reads.
    routes("smart")
        .into_iter()
        .for_each(|(_, own)| body.as_object_mut().unwrap().extend(own.as_object().unwrap().clone()));
    let key = key(&host, "ci", json!({"models": ["fast"]})).await;
    for (method, path) in ways {
        let request =
            host.request(&method, &path).bearer_auth(&key).header("content-type", "application/json");
        let request = if method == "GET" { request } else { request.body(body.to_string()) };
        // Some routes follow events without an end.
        let answer = request.send().await.unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(answer.status().as_u16() < 500, "{method} {path}: {}", answer.status());
    }
    let asked: Vec<String> = host.upstream.requests().iter().map(|request| format!("{request:?}")).collect();
    assert!(asked.iter().all(|request| !request.contains("hi") && !request.contains("mock-2")), "{asked:?}");
}

/// The changes that `/openapi.json` describes for operators: method, path and role, for each kind of plugin. Deletions
/// come last.
fn changes(document: &Value) -> Vec<(String, String, String)> {
    let mut changes = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let Some(role) = operation["x-role"].as_str() else {
                let is_open = method == "get" || !operation["security"].to_string().contains("operator");
                assert!(is_open, "{method} {path} has no role");
                continue;
            };
            let (role, of_guards) = role.split_once(", for guards ").unwrap_or((role, role));
            let filled = |id: &str| {
                let parts = path.split('/').map(|part| match part {
                    "{id}" => id,
                    name if name.starts_with('{') => "x",
                    part => part,
                });
                parts.collect::<Vec<_>>().join("/")
            };
            for (path, role) in [
                (filled("plain"), role),
                (filled("guard"), of_guards),
                (filled("guard") + "?confirm=true", "admin"),
            ] {
                changes.push((method.to_uppercase(), path, role.to_owned()));
            }
        }
    }
    changes.sort_by_key(|(method, ..)| method == "DELETE");
    changes
}

#[tokio::test]
async fn a_described_change_is_open_to_operators_from_its_role_on() {
    const ROLES: [&str; 4] = ["read", "tune", "write", "admin"];
    let mut tried = 0;
    for require_key in [false, true] {
        let host = TestHost::new()
            .config(&format!("[server]\nrequire_key = {require_key}\n{CONFIG}"))
            .filter("plain", "fn inlet(body) { body }")
            .filter("guard", "/*\nsecurity: true\n*/\nfn inlet(body) { body }")
            .start()
            .await;
        let mut keys = Vec::new();
        for role in ROLES {
            keys.push(key(&host, role, json!({"role": role})).await);
        }
        for (method, path, needed) in changes(&host.get("/openapi.json").await.json()) {
            // Callers of models use these without a role, where they need no key.
            let is_for_callers = path.contains("/filter/") || path.contains("/questions/");
            if is_for_callers != require_key || path.starts_with("/api/v1/session") {
                continue;
            }
            let needed = ROLES.iter().position(|role| *role == needed).unwrap();
            for (role, key) in keys.iter().enumerate() {
                let request = host.request(&method, &path).bearer_auth(key);
                let answer = Answer::of(request.header("content-type", "application/json").body("{}")).await;
                let is_refused = answer.status == 403;
                assert_eq!(is_refused, role < needed, "{} {method} {path}: {}", ROLES[role], answer.body());
            }
            tried += 1;
        }
    }
    assert!(tried > 100, "{tried}");
}

#[tokio::test]
async fn no_route_reaches_a_model_that_a_key_cannot_use() {
    let host = host().await;
    let unread = key(&host, "unread", json!({"models": [MODEL]})).await;
    let key = key(&host, "ci", json!({"models": ["fast", "other-*"]})).await;
    for model in ["smart", MODEL, "Fast", "fast ", "mock-2", "other"] {
        for (path, body) in routes(model) {
            let request =
                host.request("POST", &path).bearer_auth(&key).header("content-type", "application/json");
            let answer = Answer::of(request.body(body.to_string())).await;
            assert!(
                [400, 403, 404].contains(&answer.status),
                "{path} {body}: {} {}",
                answer.status,
                answer.body()
            );
        }
        assert_eq!(
            with_key(&host, &key, &format!("/v1/models/{}", model.replace(' ', "%20"))).await.status,
            404,
            "{model}"
        );
    }
    let messages = json!([{"role": "user", "content": "hi"}]);
    for (field, value) in [
        ("models", json!(["fast", "smart"])),
        ("fallbacks", json!([{"model": "mock-2"}])),
        ("x", json!({"model": "smart"})),
        ("preset", json!("p")),
        ("tools", json!([{"type": "x", "model": "smart"}])),
    ] {
        let body = json!({"model": "fast", "messages": messages, field: value});
        ask(&host, &key, &body).await.refused(404, "does not exist for the key `ci`");
        // The bytes of a request that names a service's model as it is could be forwarded unread.
        let body = json!({"model": MODEL, "messages": messages, field: value});
        ask(&host, &unread, &body).await.refused(404, "does not exist for the key `unread`");
    }
    assert!(host.upstream.requests().is_empty(), "{:?}", host.upstream.requests());
    assert_eq!(ask(&host, &key, &chat_body("fast", "hi")).await.text(), "hello from upstream");
    let names = |list: &Value, field: &str, id: &str| -> Vec<String> {
        list[field].as_array().unwrap().iter().map(|model| model[id].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&with_key(&host, &key, "/v1/models").await.json(), "data", "id"), ["fast"]);
    assert_eq!(names(&with_key(&host, &key, "/models").await.json(), "data", "id"), ["fast"]);
    let tags = with_key(&host, &key, "/api/tags").await.json();
    assert_eq!(tags["models"].as_array().unwrap().len(), 1, "{tags}");
}

#[tokio::test]
async fn only_the_role_admin_takes_a_guard_away() {
    let guard = "/*\nsecurity: true\n*/\nfn inlet(body) { deny(\"guarded\") }";
    let host = TestHost::new()
        .config(CONFIG)
        .filter("wall", guard)
        .filter("other", "fn inlet(body) {}")
        .start()
        .await;
    let own = key(&host, "bob", json!({"role": "write"})).await;
    for (method, path, body) in [
        ("POST", "rollback", json!({"version": 1})),
        ("POST", "update?confirm=true", json!({"content": "fn inlet(body) {}"})),
        ("DELETE", "delete?confirm=true", Value::Null),
    ] {
        let send = async |id: &str| {
            let request =
                host.request(method, &format!("/api/v1/functions/id/{id}/{path}")).bearer_auth(&own);
            let request = request.header("content-type", "application/json");
            Answer::of(request.body(if body.is_null() { String::new() } else { body.to_string() })).await
        };
        let refused = send("wall").await;
        assert!(
            refused.status == 403 && refused.body().contains("this needs `admin`"),
            "{path}: {}",
            refused.body()
        );
        let other = send("other").await;
        assert_ne!(other.status, 403, "{path}: {}", other.body());
    }
    ask(&host, "sk-operator", &chat_body("fast", "hi")).await.refused(400, "guarded");
}

#[tokio::test]
async fn groups_are_found_by_name_and_not_brought_back_with_their_keys() {
    let host = host().await;
    operate(&host, "POST", "/api/v1/keys", json!({"name": "@lim", "rights": {"tokens_per_day": 1}}))
        .await
        .ok();
    for (rights, why) in [
        (json!({"group": "Lim"}), "did you mean `lim`?"),
        (json!({"group": "@lim"}), "without `@`"),
        (json!({"group": "lim "}), "invalid group"),
        (json!({"models": []}), "the list of models is empty"),
    ] {
        let refused = operate(&host, "POST", "/api/v1/keys", json!({"name": "a", "rights": rights})).await;
        assert!(refused.status == 400 && refused.body().contains(why), "{rights}: {}", refused.body());
    }
    key(&host, "ann", json!({"group": "lim"})).await;
    operate(&host, "DELETE", "/api/v1/keys/@lim", Value::Null).await.ok();
    let again = operate(&host, "POST", "/api/v1/keys", json!({"name": "@lim", "rights": {}})).await;
    again.refused(409, "its keys ann would be valid again");
    operate(&host, "DELETE", "/api/v1/keys/ann", Value::Null).await.ok();
    operate(&host, "POST", "/api/v1/keys", json!({"name": "@lim", "rights": {}})).await.ok();
}

#[tokio::test]
async fn model_calls_of_tools_at_mcp_count_for_the_key() {
    let asks = "/*\nrequirements: llm\n*/\nfn handler(args) { llm::chat(#{ model: \"fast\", messages: [#{ role: \"user\", \
                content: \"hi\" }] }).content }";
    let config = format!("{CONFIG}\n[grants.asks]\nllm = true\n");
    let host = TestHost::new().config(&config).tool("asks", asks).start().await;
    let own = key(&host, "ci", json!({"tokens_per_day": 3})).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "asks", "arguments": {}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "a", "version": "1"}}}});
    let ask = async || {
        let request =
            host.request("POST", "/mcp").bearer_auth(&own).header("mcp-protocol-version", "2026-07-28");
        let request = request.header("mcp-method", "tools/call").header("mcp-name", "asks");
        let request = request.header("accept", "application/json, text/event-stream");
        Answer::of(request.header("content-type", "application/json").body(call.to_string())).await
    };
    for used_before in [0, 2] {
        assert_eq!(used(&host, "ci").await.0, used_before);
        let answer = ask().await;
        assert!(answer.status == 200 && answer.body().contains("hello from upstream"), "{}", answer.body());
    }
    assert_eq!(used(&host, "ci").await.0, 4);
    ask().await.refused(429, "limit of 3 tokens per day");
}

#[tokio::test]
async fn model_calls_of_work_after_the_answer_count_for_its_key() {
    let calls = |text: &str| {
        format!("llm::chat(#{{ model: \"fast\", messages: [#{{ role: \"user\", content: \"{text}\" }}] }});")
    };
    let works = format!(
        "/*\nrequirements: llm\n*/\nfn inlet(body) {{ let say = body.messages[-1].text; after(|| {{ if say == \"a\" {{ {} }} }}); }}\n\
         fn done(body) {{ if body.messages[0].text == \"d\" {{ {} }} }}",
        calls("after"),
        calls("done")
    );
    let config = format!("{CONFIG}\n[grants.works]\nllm = true\n");
    let host = TestHost::new().config(&config).filter("works", works).start().await;
    let own = key(&host, "ci", json!({"tokens_per_day": 7})).await;
    let free = key(&host, "free", json!({})).await;
    for (say, sum) in [("a", 4), ("d", 8)] {
        for (key, name) in [(&own, "ci"), (&free, "free")] {
            assert_eq!(ask(&host, key, &chat_body("fast", say)).await.status, 200, "{name}");
            until("the work is counted", || async { used(&host, name).await.0 == sum }).await;
        }
    }
    ask(&host, &own, &chat_body("fast", "hi")).await.refused(429, "limit of 7 tokens per day");
    let usage = async || {
        let all = operate(&host, "GET", "/api/v1/usage?by=key", Value::Null).await.ok();
        let rows = all["data"].as_array().cloned().unwrap_or_default();
        let of_key = rows.into_iter().find(|row| row["by"]["key"] == "free");
        of_key.map(|row| json!([row["requests"], row["prompt_tokens"], row["completion_tokens"]]))
    };
    until("the usage is written", || async { usage().await == Some(json!([2, 4, 4])) }).await;
}

/// A key is checked for the model of the path; a body that names another one must not reach it.
#[tokio::test]
async fn the_model_of_the_path_replaces_the_one_of_the_body() {
    let host = host().await;
    let key = key(&host, "ci", json!({"models": [MODEL]})).await;
    for (route, body) in [
        ("embeddings", json!({"model": "mock-2", "input": "hi"})),
        ("completions", json!({"prompt": "hi", "model": "mock-2"})),
        ("images/generations", json!({"model": "mock-2", "prompt": "hi"})),
        ("audio/speech", json!({"model": "", "input": "hi", "voice": "a"})),
        ("chat/completions", chat_body("mock-2", "hi")),
    ] {
        let request = host.request("POST", &format!("/openai/deployments/{MODEL}/{route}")).bearer_auth(&key);
        let answer =
            Answer::of(request.header("content-type", "application/json").body(body.to_string())).await;
        assert_eq!(answer.status, 200, "{route}: {}", answer.body());
        assert_eq!(host.upstream.last().json()["model"], MODEL, "{route}");
    }
    let form = "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nmock-2\r\n--x\r\n\
                Content-Disposition: form-data; name=\"prompt\"\r\n\r\nhi\r\n--x--\r\n";
    let path = format!("/openai/deployments/{MODEL}/images/edits");
    let request = host.request("POST", &path).bearer_auth(&key);
    let request = request.header("content-type", "multipart/form-data; boundary=x").body(form);
    assert_eq!(Answer::of(request).await.status, 200);
    let sent = host.upstream.last().text();
    assert!(sent.contains(MODEL) && !sent.contains("mock-2"), "{sent}");
}

#[tokio::test]
async fn streams_of_a_revoked_key_end() {
    let host = host().await;
    let operator = key(&host, "op", json!({"role": "read"})).await;
    let client = key(&host, "ci", json!({})).await;
    let mut streams = Vec::new();
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}});
    let accept = "application/json, text/event-stream";
    let begun = host.request("POST", "/mcp").bearer_auth(&client).header("accept", accept);
    let begun =
        begun.header("content-type", "application/json").body(begin.to_string()).send().await.unwrap();
    let session = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    for (path, key) in [("/api/v1/events", &operator), ("/mcp", &client)] {
        let request = host.request("GET", path).bearer_auth(key).header("mcp-session-id", &session);
        let response = request.header("accept", "text/event-stream").send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        streams.push(response);
    }
    for name in ["op", "ci"] {
        operate(&host, "DELETE", &format!("/api/v1/keys/{name}"), Value::Null).await.ok();
    }
    for mut stream in streams {
        let end = async { while let Ok(Some(_)) = stream.chunk().await {} };
        tokio::time::timeout(TIMEOUT, end).await.expect("the stream goes on");
    }
}

#[tokio::test]
async fn a_key_created_again_does_not_have_the_records_of_the_revoked_one() {
    let host = host().await;
    let first = key(&host, "ci", json!({})).await;
    let stored = host.request("POST", "/v1/responses").bearer_auth(&first);
    let stored = Answer::of(stored.body(json!({"model": MODEL, "input": "secret"}).to_string())).await.ok();
    let path = format!("/v1/responses/{}", stored["id"].as_str().unwrap());
    let rotated = operate(&host, "POST", "/api/v1/keys/ci/rotate", json!({})).await.ok();
    assert_eq!(with_key(&host, rotated["key"].as_str().unwrap(), &path).await.status, 200);
    operate(&host, "DELETE", "/api/v1/keys/ci", Value::Null).await.ok();
    let second = key(&host, "ci", json!({})).await;
    assert_eq!(with_key(&host, &second, &path).await.status, 404);
}

#[tokio::test]
async fn the_role_tune_runs_no_script_of_its_own_and_sends_no_secret_elsewhere() {
    let asks = "/*\nrequirements: http\nallow_hosts: valve:url\n*/\nconst Valves = #{ url: \"https://judge.example/v1\", \
                api_key: #{ value: \"\", type: \"string\", secret: true }, limit: 3 };\nfn inlet(body) {}";
    let host = TestHost::new().config(CONFIG).filter("asks", asks).start().await;
    let own = key(&host, "bob", json!({"role": "tune"})).await;
    let replay = json!({"plugin": "asks", "source": "fn inlet(body, valves) { body.x = valves.api_key }"});
    let request = host.request("POST", "/api/v1/traces/x/replay").bearer_auth(&own);
    Answer::of(request.header("content-type", "application/json").body(replay.to_string()))
        .await
        .refused(403, "this needs `write`");
    let set = async |values: Value| {
        let request = host.request("POST", "/api/v1/functions/id/asks/valves/update").bearer_auth(&own);
        Answer::of(request.header("content-type", "application/json").body(values.to_string())).await
    };
    let judge = "https://judge.example/v2";
    assert_eq!(set(json!({"api_key": "a-long-secret-key", "url": judge})).await.status, 200);
    assert_eq!(set(json!({"api_key": "********", "url": judge, "limit": 4})).await.status, 200);
    assert_eq!(set(json!({"api_key": "********", "url": "https://judge.example/v3"})).await.status, 200);
    let elsewhere = "https://attacker.example/v1";
    let refused = set(json!({"api_key": "********", "url": elsewhere})).await;
    assert!(refused.status == 409 && refused.body().contains("the secret `api_key` would be sent there"));
    assert_eq!(set(json!({"api_key": "another-long-key", "url": elsewhere})).await.status, 200);
}

async fn with_key(host: &TestHost, key: &str, path: &str) -> Answer {
    Answer::of(host.request("GET", path).bearer_auth(key)).await
}

#[tokio::test]
async fn requests_per_minute_are_limited_in_the_form_of_each_protocol() {
    let host = host().await;
    let key = key(&host, "ci", json!({"requests_per_minute": 2})).await;
    let first = ask(&host, &key, &chat_body("fast", "hi")).await;
    assert_eq!(
        (first.header("x-ratelimit-limit-requests"), first.header("x-ratelimit-remaining-requests")),
        (Some("2"), Some("1"))
    );
    let message = json!({"model": "fast", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
    let messages = async || {
        let request = host.request("POST", "/v1/messages").header("x-api-key", &key);
        with(request.body(message.to_string()), &[("content-type", "application/json")]).await
    };
    let second = messages().await;
    assert_eq!(second.header("anthropic-ratelimit-requests-remaining"), Some("0"));
    assert!(second.header("x-ratelimit-limit-requests").is_none());
    let over = ask(&host, &key, &chat_body("fast", "hi")).await;
    over.refused(429, "the key `ci` has reached its limit of 2 requests per minute");
    assert_eq!(over.json()["error"]["code"], "rate_limit_exceeded");
    assert!(
        over.header("retry-after").unwrap().parse::<u64>().unwrap() <= 30,
        "{:?}",
        over.header("retry-after")
    );
    let over = messages().await;
    assert_eq!(
        (over.status, &over.json()["error"]["type"]),
        (429, &json!("rate_limit_error")),
        "{}",
        over.body()
    );
    assert_eq!(
        ask(&host, "sk-operator", &chat_body("fast", "hi")).await.status,
        200,
        "others are not held up"
    );
}

#[tokio::test]
async fn tokens_and_costs_of_every_form_of_answer_count() {
    let host = host().await;
    let other = key(&host, "free", json!({})).await;
    let key = key(&host, "paid", json!({"cost_per_month": 1000, "tokens_per_day": 40})).await;
    assert_eq!(ask(&host, &key, &chat_body("fast", "hi")).await.status, 200);
    assert_eq!(used(&host, "paid").await, (2, 3.0));
    ask(&host, &key, &chat_body("smart", "hi")).await.refused(403, "has no price");
    // A service reports the tokens of a stream only if it is asked; the client is not shown what it did not ask for.
    host.upstream.script(|request| {
        assert_eq!(request.json()["stream_options"], json!({"include_usage": true}));
        let usage = json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 5}});
        Reply::begun(["a", "b"]).then(format!("data: {usage}\n\ndata: [DONE]\n\n"))
    });
    let streamed = ask(&host, &key, &streaming("fast", "hi")).await;
    assert!(!streamed.body().contains("usage\":{"), "{}", streamed.body());
    assert_eq!(used(&host, "paid").await, (12, 18.0));
    // A service that reports nothing, or what cannot be: what was sent and received is counted.
    for usage in [Value::Null, json!({"prompt_tokens": -4, "completion_tokens": -4})] {
        let choice = json!({"index": 0, "message": {"role": "assistant", "content": "word ".repeat(1_000)},
            "finish_reason": "stop"});
        let whole = json!({"id": "a", "object": "chat.completion", "choices": [choice], "usage": usage});
        host.upstream.script(move |_| Reply::json(&whole));
        let before = used(&host, "free").await.0;
        ask(&host, &other, &chat_body("fast", "hi")).await;
        let tokens = used(&host, "free").await.0 - before;
        assert!((1_250..1_350).contains(&tokens), "{tokens} {usage}");
    }
    host.upstream.script(|_| Reply::words(["a"; 9]));
    ask(&host, &key, &streaming("fast", "hi")).await;
    let (tokens, _) = used(&host, "paid").await;
    assert!((12 + 9..12 + 100).contains(&tokens), "{tokens}");
    let over = ask(&host, &key, &chat_body("fast", "hi")).await;
    over.refused(429, "limit of 40 tokens per day");
    assert_eq!(
        (over.json()["error"]["code"].as_str(), over.header("x-should-retry")),
        (Some("insufficient_quota"), Some("false"))
    );
    assert_eq!(over.header("x-ratelimit-remaining-tokens"), Some("0"));
    ask(&host, &other, &chat_body("smart", "hi")).await;
    assert!(used(&host, "free").await.0 > 0);
}

#[tokio::test]
async fn a_call_costs_the_price_of_the_model_that_answers() {
    let dear = "[[models]]\nname = \"dear\"\nprovider = \"mock\"\nmodel = \"mock-3\"\nprice = { input = 100_000_000 }\n\
        [[models]]\nname = \"falls\"\nprovider = \"mock\"\nmodel = \"mock-4\"\nprice = { input = 1 }\n\
        fallbacks = [\"mock/mock-3\"]\n";
    let routes = "fn inlet(body) { if body.messages[-1].text == \"route\" { body.model = \"dear\"; } }";
    let asks = "/*\nrequirements: llm\n*/\nfn inlet(body) { if body.messages[-1].text == \"ask\" { \
        llm::chat(#{ model: \"dear\", messages: [#{ role: \"user\", content: \"hi\" }] }); } }";
    let host = TestHost::new()
        .config(&format!("{CONFIG}{dear}[grants.asks]\nllm = true\n"))
        .filter("routes", routes)
        .filter("asks", asks)
        .start()
        .await;
    let key = key(&host, "paid", json!({"cost_per_month": 1_000_000})).await;
    host.upstream.script(|request| match request.json()["model"] == "mock-4" {
        true => Reply::text("down").status(500),
        false => Reply::fitting(request, "hi"),
    });
    let mut before = 0.0;
    // A prompt of one token costs 1 and 100, an answer of one token 2 and 0.
    for (model, text, cost) in [
        ("fast", "hi", 3.0),
        ("dear", "hi", 100.0),
        ("fast", "route", 100.0),
        ("fast", "ask", 103.0),
        ("falls", "hi", 100.0),
    ] {
        assert_eq!(ask(&host, &key, &chat_body(model, text)).await.status, 200, "{model} {text}");
        let now = used(&host, "paid").await.1;
        assert_eq!(now - before, cost, "{model} {text}");
        before = now;
    }
}

#[tokio::test]
async fn a_client_that_leaves_a_stream_pays_for_what_it_had() {
    let host = host().await;
    let key = key(&host, "ci", json!({"tokens_per_day": 1000})).await;
    host.upstream.script(|_| Reply::begun(["a"; 20]).then_for_ever(": more\n\n"));
    let mut begun = host.posting(streaming("fast", "hi").to_string()).bearer_auth(&key).send().await.unwrap();
    let mut read = 0;
    while read < 2_000 {
        read += begun.chunk().await.unwrap().unwrap().len();
    }
    drop(begun);
    until("the tokens are counted", || async { used(&host, "ci").await.0 >= 15 }).await;
    // Before the first byte, the service has read the request.
    host.upstream.reply(Reply::text("never").behind(&Gate::closed()));
    for body in [chat_body("fast", "hi"), streaming("fast", "hi")] {
        let (before, requests) = (used(&host, "ci").await.0, host.upstream.requests().len());
        let asking = tokio::spawn(host.posting(body.to_string()).bearer_auth(&key).send());
        host.upstream.wait_for_requests(requests + 1).await;
        asking.abort();
        until("the request is counted", || async { used(&host, "ci").await.0 >= before + 10 }).await;
    }
}

#[tokio::test]
async fn a_key_ends_by_rotation_revocation_and_expiry_and_the_host_stays_closed() {
    let mut host = TestHost::new().start().await;
    assert_eq!(host.ask("hi").await.status, 200, "without keys, this machine may ask");
    let made = Answer::of(host.request("POST", "/api/v1/keys").body(r#"{"name": "ci"}"#)).await.ok();
    let first = made["key"].as_str().unwrap().to_owned();
    host.ask("hi").await.refused(401, "missing API key");
    let asks = async |host: &TestHost, key: &str| ask(host, key, &chat_body(MODEL, "hi")).await;
    assert_eq!(asks(&host, &first).await.status, 200);
    let twice = Answer::of(host.request("POST", "/api/v1/keys").body(r#"{"name": "ci"}"#)).await;
    twice.refused(409, "valvehouse key rotate ci");
    let rotated = Answer::of(host.request("POST", "/api/v1/keys/ci/rotate")).await.ok();
    let second = rotated["key"].as_str().unwrap().to_owned();
    asks(&host, &first).await.refused(401, "invalid API key");
    assert_eq!(asks(&host, &second).await.status, 200);
    let stored = std::fs::read(host.folder().join(".valvehouse/state.db-wal")).unwrap();
    assert!(!stored.windows(second.len()).any(|part| part == second.as_bytes()), "only the digest is stored");
    host.restart().await;
    assert_eq!(asks(&host, &second).await.status, 200);
    let revoked = Answer::of(host.request("DELETE", "/api/v1/keys/ci")).await.ok();
    assert!(revoked["revoked_at"].is_string(), "{revoked}");
    asks(&host, &second).await.refused(401, "the key `ci` was revoked on");
    Answer::of(host.request("POST", "/api/v1/keys/ci/rotate")).await.refused(409, "is revoked");
    host.ask("hi").await.refused(401, "missing API key");
    let past = r#"{"name": "old", "rights": {"expires_at": "2020-01-01T00:00:00Z"}}"#;
    Answer::of(host.request("POST", "/api/v1/keys").body(past)).await.refused(400, "the time is past");
    Answer::of(host.request("DELETE", "/api/v1/keys/cii")).await.refused(404, "did you mean `ci`?");
}

#[tokio::test]
async fn an_operators_role_limits_what_it_changes() {
    let guard = "/*---\nsecurity: true\n---*/\nconst limit = 3;\nfn inlet(body) { body }";
    let host = TestHost::new()
        .filter("guard", guard)
        .filter("valves", "fn inlet(body) { body }")
        .filter("plain", "const mark = \"!\";\nfn inlet(body) { body }")
        .start()
        .await;
    // The first key of an operator closes the page for everybody else on this machine.
    let made = Answer::of(
        host.request("POST", "/api/v1/keys").body(r#"{"name": "root", "rights": {"role": "admin"}}"#),
    )
    .await;
    let root = made.ok()["key"].as_str().unwrap().to_owned();
    assert_eq!(host.get("/api/v1/functions").await.status, 401);
    let mut keys = vec![("admin", root.clone())];
    for role in ["read", "tune", "write"] {
        let body = json!({"name": role, "rights": {"role": role}}).to_string();
        let made = Answer::of(host.request("POST", "/api/v1/keys").bearer_auth(&root).body(body)).await.ok();
        keys.push((role, made["key"].as_str().unwrap().to_owned()));
    }
    let script = json!({"id": "new", "name": "new", "content": "fn inlet(body) { body }", "meta": {}});
    for (method, path, body, roles) in [
        ("GET", "/api/v1/functions", Value::Null, &["read", "tune", "write", "admin"][..]),
        ("GET", "/api/v1/keys", Value::Null, &["read", "tune", "write", "admin"]),
        (
            "POST",
            "/api/v1/functions/id/plain/valves/update",
            json!({"mark": "?"}),
            &["tune", "write", "admin"],
        ),
        ("POST", "/api/v1/functions/id/plain/toggle", Value::Null, &["tune", "write", "admin"]),
        ("POST", "/api/v1/functions/id/guard/toggle", Value::Null, &["admin"]),
        ("POST", "/api/v1/functions/id/plain/toggle/audit", Value::Null, &["tune", "write", "admin"]),
        ("POST", "/api/v1/functions/id/guard/toggle/audit", Value::Null, &["admin"]),
        // The id of a plugin is not a word of the route.
        ("DELETE", "/api/v1/functions/id/valves/delete", Value::Null, &["write", "admin"]),
        ("POST", "/api/v1/functions/id/toggle/update", Value::Null, &["write", "admin"]),
        ("POST", "/api/v1/functions/create", script, &["write", "admin"]),
        ("POST", "/api/v1/functions/check", json!({"content": "fn inlet(body) {}"}), &["write", "admin"]),
        ("POST", "/api/v1/functions/complete", json!({"content": "", "at": 0}), &["write", "admin"]),
        ("GET", "/api/v1/functions/id/plain/grants", Value::Null, &["read", "tune", "write", "admin"]),
        ("POST", "/api/v1/functions/id/plain/grants/approve", json!({"hash": "", "grants": []}), &["admin"]),
        ("POST", "/api/v1/functions/id/plain/grants/revoke", json!({"grants": []}), &["admin"]),
        ("POST", "/api/v1/functions/id/plain/test", json!({}), &["write", "admin"]),
        ("GET", "/api/v1/settings", Value::Null, &["read", "tune", "write", "admin"]),
        ("POST", "/api/v1/functions/id/guard/confirm", Value::Null, &["admin"]),
        ("DELETE", "/api/v1/users/ann/records", Value::Null, &["admin"]),
        ("POST", "/api/v1/keys", json!({"name": "more"}), &["admin"]),
    ] {
        for (role, key) in &keys {
            let request = host.request(method, path).bearer_auth(key);
            let answer =
                Answer::of(if body.is_null() { request } else { request.body(body.to_string()) }).await;
            match roles.contains(role) {
                true => assert!(![401, 403].contains(&answer.status), "{role} {path}: {}", answer.body()),
                false => assert_eq!(
                    (answer.status, answer.body().contains("has the role")),
                    (403, true),
                    "{role} {path}: {}",
                    answer.body()
                ),
            }
        }
    }
    let history =
        Answer::of(host.request("GET", "/api/v1/functions/id/plain/history").bearer_auth(&root)).await.ok();
    assert!(
        keys.iter().any(|(role, _)| history[0]["by"] == **role) || history[0]["by"] == "root",
        "{history}"
    );
    ask(&host, &keys[1].1, &chat_body(MODEL, "hi")).await.refused(403, "use a key for models");
}

#[tokio::test]
async fn a_session_of_an_operators_own_key_ends_with_the_key() {
    let host = host().await;
    let own = key(&host, "bob", json!({"role": "tune"})).await;
    let signed = host.request("POST", "/api/v1/session").body(json!({"key": own}).to_string());
    let signed = Answer::of(signed).await;
    let cookie = signed.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(signed.ok()["by"], "bob");
    let look = async || with(host.request("GET", "/api/v1/functions"), &[("cookie", &cookie)]).await.status;
    assert_eq!(look().await, 200);
    operate(&host, "DELETE", "/api/v1/keys/bob", Value::Null).await.ok();
    assert_eq!(look().await, 401);
}

#[tokio::test]
async fn keys_of_the_file_take_effect_when_it_is_saved() {
    let mut host = TestHost::new().config("[server]\nkeys = [\"sk-one\"]").start().await;
    let settings = host.settings();
    host.reconfigure(&settings.replace("sk-one", "sk-two")).await;
    ask(&host, "sk-one", &chat_body(MODEL, "hi")).await.refused(401, "invalid API key");
    assert_eq!(ask(&host, "sk-two", &chat_body(MODEL, "hi")).await.status, 200);
}

#[tokio::test]
async fn keys_of_a_group_share_its_limits_its_models_and_its_end() {
    let host = host().await;
    let group = json!({"name": "@research", "rights": {"models": ["fast"], "tokens_per_day": 4}});
    let made = operate(&host, "POST", "/api/v1/keys", group).await.ok();
    assert_eq!(made["key"], Value::Null, "a group has no secret");
    let ann = key(&host, "ann", json!({"group": "research"})).await;
    let bob = key(&host, "bob", json!({"group": "research", "models": ["fast", "smart"]})).await;
    let other = key(&host, "other", json!({"group": "elsewhere"})).await;

    let body = chat_body("fast", "hi");
    for wrong in [&ann, &bob] {
        ask(&host, wrong, &chat_body("smart", "hi")).await.refused(404, "its models are fast");
    }
    // Each answer has two tokens: one of each key, and both keys are at the end.
    assert_eq!(ask(&host, &ann, &body).await.status, 200);
    assert_eq!(ask(&host, &bob, &body).await.status, 200);
    for over in [&ann, &bob] {
        let refused = ask(&host, over, &body).await;
        refused.refused(429, "the group `research` has reached its limit of 4 tokens per day");
    }
    assert_eq!(ask(&host, &other, &body).await.status, 200, "a group without limits is a word for reports");
    assert_eq!(
        [used(&host, "@research").await.0, used(&host, "ann").await.0, used(&host, "bob").await.0],
        [4, 2, 2]
    );

    // More for the group, at once and with what it has used.
    let more = json!({"rights": {"models": ["fast"], "tokens_per_day": 6}});
    operate(&host, "PUT", "/api/v1/keys/@research", more).await.ok();
    assert_eq!(ask(&host, &ann, &body).await.status, 200);
    ask(&host, &bob, &body).await.refused(429, "6 tokens per day");

    operate(&host, "POST", "/api/v1/keys/@research/rotate", json!({})).await.refused(409, "has no secret");
    for (path, body, why) in [
        ("@research", json!({"rights": {"user": "ann"}}), "no user"),
        ("ann", json!({"rights": {"requests_per_minute": 0}}), "requests_per_minute"),
        ("ann", json!({"rights": {"role": "admin"}}), "role"),
    ] {
        let refused = operate(&host, "PUT", &format!("/api/v1/keys/{path}"), body).await;
        assert!(refused.status >= 400 && refused.body().contains(why), "{path}: {}", refused.body());
    }
    operate(&host, "DELETE", "/api/v1/keys/@research", Value::Null).await.ok();
    ask(&host, &bob, &body).await.refused(401, "the group `research` was revoked");
    let shown = operate(&host, "GET", "/api/v1/keys/bob", Value::Null).await.ok();
    assert_eq!((&shown["state"], &shown["revoked_at"]), (&"revoked".into(), &Value::Null));
    assert_eq!(ask(&host, &other, &body).await.status, 200);
}

#[tokio::test]
async fn keys_whose_rights_cannot_be_read_are_rejected_and_open_nothing() {
    // A later version may write what this one cannot read, in the only key or in its group.
    for broken in ["ann", "@research"] {
        let host = host().await;
        operate(&host, "POST", "/api/v1/keys", json!({"name": "@research", "rights": {}})).await.ok();
        let ann = key(&host, "ann", json!({"group": "research"})).await;
        assert_eq!(ask(&host, &ann, &chat_body("fast", "hi")).await.status, 200);
        break_rights(&host, broken).await;
        for key in [&ann, "vh-another"] {
            assert_eq!(ask(&host, key, &chat_body("fast", "hi")).await.status, 401, "{broken}");
        }
        assert_eq!(host.chat(&chat_body("fast", "hi")).await.status, 401, "without a key, {broken}");
    }
}

async fn break_rights(host: &TestHost, name: &str) {
    let row = host.store().keys().await.unwrap().into_iter().find(|row| row.name == name).unwrap();
    let digest = row.digest.clone();
    let broken = StoredKey { rights: Json::from("all"), ..row };
    host.store().put_key(&broken, Some(&digest)).await.unwrap();
    host.app().host.reload().await;
}

#[test]
fn the_command_creates_lists_and_revokes_keys() {
    let project = Project::new();
    project.run("key list").ends(0).stderr_has("no keys are stored");
    let made =
        project.run("key create --name ci --user ann --models fast,gpt-* --tokens-per-day 1M --expires 90d");
    assert!(made.ends(0).out.starts_with("vh-"));
    project
        .run("key list")
        .ends(0)
        .prints("ci")
        .prints("fast, gpt-*")
        .prints("1000000 tokens/day")
        .prints("never");
    let shown = project.run("key show ci --format json").ends(0).json();
    assert_eq!(shown.at_path("rights.user").as_str(), Some("ann"));
    project.run("key create --name ci").ends(2).stderr_has("valvehouse key rotate ci");
    project.run("key create --name c/i").ends(2).stderr_has("expected up to 64 letters");
    project.run("key create --name a --tokens-per-day lots").ends(2).stderr_has("such as 500, 500k or 1M");
    project.run("key create --name a --role read --models fast").ends(2).stderr_has("an operator's");
    project.run("key create --name @research --tokens-per-month 5M").ends(0).prints("the group `@research`");
    project.run("key change ci --group research --tokens-per-day 2M").ends(0).prints("changed the rights");
    let changed = project.run("key show ci --format json").ends(0).json();
    assert_eq!(changed.at_path("rights.tokens_per_day").as_i64(), Some(2_000_000));
    assert_eq!(changed.at_path("rights.user").as_str(), Some("ann"), "the others stay");
    project.run("key list").ends(0).prints("ann @research").prints("5000000 tokens/month");
    project.run("key rotate ci").ends(0).prints("vh-");
    project.run("key revoke ci").ends(0).prints("revoked the key `ci`");
    project.run("key list").ends(0).prints("revoked");
    project.run("key show cj").ends(2).stderr_has("did you mean `ci`?");
}
