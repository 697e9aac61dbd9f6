//! Limits on the state that clients of `/mcp` can create in the host.

use super::same::rpc;
use crate::host::TestHost;
use serde_json::{Value, json};

const NOTES: &str = "fn resources() { [#{ uriTemplate: \"notes://{+path}\", name: \"notes\" }] }\n\
    fn resource(uri) { `the note ${uri}` }";

struct Client<'a> {
    host: &'a TestHost,
    key: &'a str,
    session: String,
}

impl<'a> Client<'a> {
    /// Sends `initialize`. Returns the status and the client with its session, if there is one.
    async fn begin(host: &'a TestHost, key: &'a str, info: &str) -> (u16, Self) {
        let mut client = Self { host, key, session: String::new() };
        let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": info, "version": "1" } } });
        let begun = client.send("POST", hello.to_string()).await;
        let status = begun.status().as_u16();
        if let Some(id) = begun.headers().get("mcp-session-id") {
            client.session = id.to_str().unwrap().to_owned();
        }
        begun.text().await.unwrap();
        (status, client)
    }

    async fn send(&self, method: &str, body: String) -> reqwest::Response {
        let mut request = self
            .host
            .request(method, "/mcp")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("authorization", format!("Bearer {}", self.key));
        if !self.session.is_empty() {
            request =
                request.header("mcp-session-id", &self.session).header("mcp-protocol-version", "2025-11-25");
        }
        request.body(body).send().await.unwrap()
    }

    async fn ask(&self, id: &str, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let text = self.send("POST", body.to_string()).await.text().await.unwrap();
        let data = text
            .lines()
            .filter_map(|line| line.strip_prefix("data: {"))
            .next_back()
            .map(|rest| format!("{{{rest}"));
        serde_json::from_str(&data.unwrap_or(text)).unwrap()
    }
}

fn refusal(answer: &Value) -> &str {
    assert!(answer["error"]["code"].is_i64(), "{answer}");
    let text = answer.to_string();
    assert!(text.len() < 1_000, "the text comes back: {} bytes", text.len());
    answer["error"]["message"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_stored_in_a_session_are_bounded() {
    let host = TestHost::new().tool("notes", NOTES).start().await;
    let (status, client) = Client::begin(&host, "none", "t").await;
    assert_eq!(status, 200);
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    client.send("POST", initialized.to_string()).await;
    let uri = |length: usize| format!("notes://{}", "x".repeat(length - 8));
    let followed = client.ask("1", "resources/subscribe", json!({ "uri": uri(2_048) })).await;
    assert!(followed["result"].is_object(), "{followed}");
    let read = client.ask("1", "resources/read", json!({ "uri": uri(2_048) })).await;
    assert!(read["result"]["contents"].is_array(), "{read}");
    for method in ["resources/subscribe", "resources/unsubscribe", "resources/read"] {
        for length in [2_049, 3_000_000] {
            let answer = client.ask("1", method, json!({ "uri": uri(length) })).await;
            assert!(refusal(&answer).contains("`uri` exceeded its limit of 2048 characters"), "{method}");
        }
    }
    for (reference, what) in [
        (json!({ "type": "ref/resource", "uri": uri(3_000_000) }), "`uri`"),
        (json!({ "type": "ref/prompt", "name": uri(3_000_000) }), "`name`"),
    ] {
        let params = json!({ "ref": reference, "argument": { "name": "a", "value": "b" } });
        assert!(refusal(&client.ask("1", "completion/complete", params).await).contains(what));
    }
    let long = "x".repeat(3_000_000);
    for (method, params, what) in [
        ("tools/call", json!({ "name": long }), "`name`"),
        ("prompts/get", json!({ "name": long }), "`name`"),
        ("tools/list", json!({ "cursor": long }), "`cursor`"),
        ("tools/list", json!({ "_meta": { "progressToken": long } }), "`_meta.progressToken`"),
        (&*long, json!({}), "`method`"),
    ] {
        assert!(refusal(&client.ask("1", method, params).await).contains(what), "{what}");
    }
    assert!(refusal(&client.ask(&long, "ping", json!({})).await).contains("`id`"));
    let (status, nobody) = Client::begin(&host, "none", &long).await;
    assert_eq!((status, &*nobody.session), (400, ""));
    let params = |uri: String| json!({ "notifications": { "resourceSubscriptions": [uri] } });
    let answer = rpc(&host, "subscriptions/listen", params(uri(3_000_000))).await;
    assert!(refusal(&answer).contains("`subscriptions/listen` exceeded its limit of 1024 KiB"), "{answer}");
    let answer = rpc(&host, "subscriptions/listen", params(uri(4_000))).await;
    assert!(refusal(&answer).contains("`uri` exceeded its limit"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_starts_many_sessions_evicts_only_its_own() {
    let keys = "[server]\nkeys = [\"sk-ann\", \"sk-bob\"]";
    let host = TestHost::new().tool("notes", NOTES).config(keys).start().await;
    let (_, ann) = Client::begin(&host, "sk-ann", "t").await;
    let mut of_bob = Vec::new();
    for _ in 0..64 {
        let (status, bob) = Client::begin(&host, "sk-bob", "t").await;
        assert_eq!(status, 200);
        of_bob.push(bob);
    }
    // One more session ends the least recently used one.
    let stream = of_bob[0].send("GET", String::new()).await;
    assert_eq!(stream.status(), 200);
    let (status, last) = Client::begin(&host, "sk-bob", "t").await;
    assert_eq!(status, 200);
    assert!(refusal(&of_bob[1].ask("1", "ping", json!({})).await).contains("cannot use this session"));
    of_bob.remove(1);
    of_bob.push(last);
    for client in of_bob.iter().chain([&ann]) {
        let pong = client.ask("1", "ping", json!({})).await;
        assert!(pong["result"].is_object(), "{pong}");
    }
    // If all sessions are in use, the client receives instructions.
    let mut streams = vec![stream];
    for bob in &of_bob[1..] {
        streams.push(bob.send("GET", String::new()).await);
    }
    let (status, nobody) = Client::begin(&host, "sk-bob", "t").await;
    assert_eq!((status, &*nobody.session), (429, ""));
    assert_eq!(Client::begin(&host, "sk-ann", "t").await.0, 200);
    assert_eq!(of_bob[5].send("DELETE", String::new()).await.status(), 204);
    assert_eq!(Client::begin(&host, "sk-bob", "t").await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_message_is_a_bad_request() {
    let host = TestHost::new().tool("notes", NOTES).start().await;
    let client = Client { host: &host, key: "none", session: String::new() };
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"arguments":{}{}}}}}"#,
        "[".repeat(200_000),
        "]".repeat(200_000)
    );
    for body in ["{", "[]", r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, &deep] {
        let refused = client.send("POST", body.to_owned()).await;
        assert_eq!(refused.status(), 400, "{}", &body[..body.len().min(80)]);
        let error: Value = serde_json::from_str(&refused.text().await.unwrap()).unwrap();
        assert_eq!(error["error"]["code"], -32_700, "{error}");
    }
}
