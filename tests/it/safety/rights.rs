//! The permissions of users: questions, valves and runs are accessible to their own user only. Also the
//! origin of requests.

use super::{chat_with, with};
use crate::agents_api::{APPROVAL, PAY};
use crate::host::{Answer, Setup, TestHost, streaming};
use crate::upstream::{MODEL, Reply};
use serde_json::{Value, json};

const KEYS: &str = "[server]\nkeys = [{ key = \"sk-ann\", user = { id = \"ann\" } }, { key = \"sk-bob\", user = { id = \"bob\" } }, \"sk-any\"]\n\
    [admin]\nkey = \"sk-operator\"\n";

const ASKS: &str =
    "fn inlet(body) { body.messages[-1].content = ask(#{ type: \"input\", data: #{} }).city; body }";

fn bearer(key: &str) -> String {
    format!("Bearer {key}")
}

async fn post(host: &TestHost, path: &str, key: &str, body: &str) -> Answer {
    with(host.request("POST", path).body(body.to_owned()), &[("authorization", &bearer(key))]).await
}

#[tokio::test]
async fn a_question_is_answered_by_its_user_or_an_operator() {
    let host = TestHost::new().config(KEYS).filter("asks", ASKS).start().await;
    for (asks, refused, answers) in
        [("sk-ann", ["sk-bob", "sk-any"], "sk-ann"), ("sk-any", ["sk-ann", "sk-bob"], "sk-operator")]
    {
        let asking = host.posting(streaming("demo", "hi").to_string()).header("x-valvehouse-events", "1");
        let mut response = asking.header("authorization", bearer(asks)).send().await.unwrap();
        let mut seen = String::new();
        while !seen.contains("\n\n") {
            seen.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
        }
        let event: Value =
            serde_json::from_str(seen.lines().next().unwrap().strip_prefix("data: ").unwrap()).unwrap();
        let path = format!("/api/v1/questions/{}", event["event"]["id"].as_str().unwrap());
        for key in refused {
            post(&host, &path, key, r#"{"city": "Rome"}"#).await.refused(404, "unknown question");
        }
        assert_eq!(post(&host, &path, answers, r#"{"city": "Oslo"}"#).await.status, 200);
        let rest = response.text().await.unwrap();
        assert!(rest.contains("Oslo") && !rest.contains("Rome"), "{rest}");
    }
}

#[tokio::test]
async fn a_trusted_header_selects_the_valves_of_a_user() {
    let script = "const UserValves = #{ loud: false };\nfn inlet(body) { body }";
    let config = format!("{KEYS}\n").replace("[admin]", "trust_user_headers = true\n[admin]");
    let host = TestHost::new().config(&config).filter("shouts", script).start().await;
    let path = "/api/v1/functions/id/shouts/valves/user";
    let ask = async |key: &str, user: &str, query: &str| {
        let headers = [("authorization", bearer(key)), ("x-openwebui-user-id", user.to_owned())];
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        with(host.request("GET", &format!("{path}{query}")), &headers).await
    };
    let update = host.request("POST", &format!("{path}/update")).body(r#"{"loud": true}"#);
    let headers = [("authorization", "Bearer sk-any"), ("x-openwebui-user-id", "cat")];
    assert_eq!(with(update, &headers).await.status, 200);
    assert_eq!(ask("sk-any", "cat", "").await.json(), json!({"loud": true}));
    assert_eq!(ask("sk-any", "dog", "").await.json(), json!({}));
    assert_eq!(ask("sk-any", "dog", "?user=cat").await.status, 403, "another user's");
    assert_eq!(ask("sk-bob", "cat", "").await.json(), json!({}), "the key's user counts first");
    assert_eq!(ask("sk-wrong", "cat", "").await.status, 401);
    assert_eq!(ask("sk-operator", "dog", "?user=cat").await.json(), json!({"loud": true}));
    // Without trust, the header has no effect.
    let host = TestHost::new().config(KEYS).filter("shouts", script).start().await;
    let headers = [("authorization", "Bearer sk-any"), ("x-openwebui-user-id", "cat")];
    assert_eq!(with(host.request("GET", path), &headers).await.status, 401);
}

fn clerk() -> Setup {
    let model = "[[models]]\nname = \"clerk\"\nprovider = \"mock\"\nmodel = \"mock-1\"\ntools = [\"pay\"]\nmemory = true\n";
    TestHost::new().config(&format!("{KEYS}{model}")).tool("pay", PAY).filter("approval", APPROVAL)
}

#[tokio::test]
async fn users_decide_only_on_their_own_runs() {
    let host = clerk().start().await;
    host.upstream.script(|request| {
        let messages = request.json()["messages"].as_array().cloned().unwrap_or_default();
        if messages.last().is_some_and(|last| last["role"] == "tool") {
            return Reply::fitting(request, "thanks");
        }
        let call = json!({"id": "call_1", "type": "function", "function": {"name": "pay", "arguments": "{\"amount\":10}"}});
        Reply::json(&json!({"id": "c", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [
            {"index": 0, "finish_reason": "tool_calls",
             "message": {"role": "assistant", "content": null, "tool_calls": [call]}}]}))
    });
    let body = json!({"model": "clerk", "chat_id": "c1", "messages": [{"role": "user", "content": "pay"}]});
    let begun = post(&host, "/v1/chat/completions", "sk-ann", &body.to_string()).await;
    let run = begun.header("x-valvehouse-run").unwrap_or_else(|| panic!("{}", begun.body())).to_owned();
    let path = format!("/api/v1/agents/runs/{run}");
    let approve = json!({"decision": "approve"}).to_string();
    post(&host, &format!("{path}/resume"), "sk-bob", &approve).await.refused(404, "unknown run");
    post(&host, &format!("{path}/resume"), "sk-any", &approve).await.refused(401, "[admin]");
    let look = async |path: &str, key: &str| {
        with(host.request("GET", path), &[("authorization", &bearer(key))]).await
    };
    look(&format!("{path}/pending"), "sk-bob").await.refused(404, "unknown run");
    assert_eq!(look(&format!("{path}/pending"), "sk-ann").await.json()["status"], "paused");
    look(&path, "sk-ann").await.refused(401, "[admin]");
    let ended = post(&host, &format!("{path}/resume"), "sk-ann", &approve).await;
    assert_eq!((ended.status, &ended.json()["status"]), (200, &json!("done")), "{}", ended.body());
    assert_eq!(look(&path, "sk-operator").await.status, 200);
}

#[tokio::test]
async fn key_guessing_behind_a_trusted_proxy_blocks_only_that_client() {
    let trusting = KEYS.replace("[admin]", "trusted_proxies = [\"127.0.0.1\", \"10.0.0.0/8\"]\n[admin]");
    let host = TestHost::new().config(&trusting).start().await;
    let from = async |address: &str, key: &str| {
        chat_with(&host, &[("x-forwarded-for", address), ("authorization", &bearer(key))]).await
    };
    for guess in 0..10 {
        from("203.0.113.5, 10.0.0.1", &format!("guess-{guess}")).await.refused(401, "expected one of");
    }
    from("203.0.113.5, 10.0.0.1", "guess-x").await.refused(429, "too many wrong keys");
    from("203.0.113.5", "guess-y").await.refused(429, "too many wrong keys");
    from("198.51.100.7, 10.0.0.1", "guess-x").await.refused(401, "expected one of");
    from("203.0.113.5, 198.51.100.7", "guess-y").await.refused(401, "expected one of");
    assert_eq!(from("203.0.113.5", "sk-ann").await.status, 200, "a right key never waits");
    // An untrusted proxy has no effect: all of these are one address.
    let host = TestHost::new().config(KEYS).start().await;
    for guess in 0..10 {
        let headers =
            [("x-forwarded-for", format!("203.0.113.{guess}")), ("x-api-key", format!("guess-{guess}"))];
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        chat_with(&host, &headers).await.refused(401, "expected one of");
    }
    let headers = [("x-forwarded-for", "198.51.100.9"), ("x-api-key", "guess-x")];
    chat_with(&host, &headers).await.refused(429, "too many wrong keys");
}

#[tokio::test]
async fn scripts_see_the_client_behind_a_trusted_proxy_and_none_of_its_credentials() {
    let echo = "fn inlet(body, __request__) { throw json::stringify(__request__); }";
    let config = "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n";
    let host = TestHost::new().config(config).filter("echo", echo).start().await;
    let headers = [
        ("x-forwarded-for", "203.0.113.5"),
        ("x-goog-api-key", "canary-1"),
        ("x-auth-token", "canary-2"),
        ("x-forwarded-access-token", "canary-3"),
        ("x-upstream", "Bearer canary-4"),
        ("x-request-id", "shown"),
    ];
    let text = chat_with(&host, &headers).await.message();
    assert!(text.contains("203.0.113.5") && text.contains("shown") && !text.contains("canary"), "{text}");
}

#[tokio::test]
async fn clients_do_not_see_the_address_of_a_provider() {
    let config = "[[providers]]\nname = \"away\"\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/secret-path/v1\"\napi_key = \"sk\"\nmodels = \"*\"\n\
        retry = { max_attempts = 1 }\nbreaker = { failure_threshold = 2 }\n";
    let host = TestHost::new().config(config).start().await;
    for _ in 0..3 {
        for path in ["/v1/chat/completions", "/v1/messages"] {
            let body =
                json!({"model": "away/m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]});
            let answer = Answer::of(host.request("POST", path).body(body.to_string())).await;
            assert!([502, 503].contains(&answer.status), "{}", answer.body());
            let text = answer.body();
            assert!(text.contains("provider away"), "{text}");
            assert!(
                !text.contains("127.0.0.1") && !text.contains("secret-path") && !text.contains(":9"),
                "{text}"
            );
        }
    }
}

#[tokio::test]
async fn an_invalid_plugin_id_is_rejected_before_any_write() {
    let host = TestHost::new().start().await;
    for id in ["_x", "__proto__", "_"] {
        let body = json!({"id": id, "content": "fn inlet(body) { body }"}).to_string();
        let answer = Answer::of(host.request("POST", "/api/v1/functions/create").body(body)).await;
        assert_eq!(answer.status, 400, "{}", answer.body());
        assert!(!host.path_of(id).exists(), "{id}");
    }
}
