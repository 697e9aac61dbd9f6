//! `/mcp` as a protected resource: access tokens of an authorization server in addition to the host's own
//! keys.

use crate::host::{TIMEOUT, TestHost};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};
use valvehouse_testkit::loopback::{Server, ok};

const RESOURCE: &str = "https://house.example/mcp";
const TOOL: &str = "/*\ndescription: Names the user\n*/\nfn handler(args, __user__) { __user__.id }";

/// An authorization server with one key.
struct Issuer {
    server: Server,
    key: Ed25519KeyPair,
}

impl Issuer {
    async fn start() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let key = Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap();
        let x = URL_SAFE_NO_PAD.encode(key.public_key());
        let server = Server::start(move |request| {
            let host = request.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
            let body = match request.split(' ').nth(1) {
                Some("/keys") => json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x }] }),
                _ => json!({ "issuer": format!("http://{host}"), "jwks_uri": format!("http://{host}/keys") }),
            };
            let body = body.to_string();
            let length = body.len();
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
            )
            .into_bytes()
        })
        .await;
        Self { server, key }
    }

    fn token(&self, user: &str, scope: &str, life: i64) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed();
        let claims = json!({ "iss": self.server.url(""), "sub": user, "aud": RESOURCE, "exp": now + life, "scope": scope });
        let header = json!({ "alg": "EdDSA", "kid": "k" });
        let message = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(message.as_bytes()));
        format!("{message}.{signature}")
    }
}

async fn call(host: &TestHost, key: Option<&str>) -> reqwest::Response {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": "me", "arguments": {}, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let mut request = host
        .request("POST", "/mcp")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "me")
        .body(body.to_string());
    if let Some(key) = key {
        request = request.header("authorization", format!("Bearer {key}"));
    }
    request.send().await.unwrap()
}

fn challenge(response: &reqwest::Response) -> String {
    response.headers()["www-authenticate"].to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_an_authorization_server_names_the_user_and_keys_still_work() {
    let issuer = Issuer::start().await;
    let oauth = format!(
        "[oauth]\nauthorization_servers = [\"{}\"]\nresource = \"{RESOURCE}\"\nscopes = [\"tools\"]",
        issuer.server.url("")
    );
    let keys = "[server]\nkeys = [{ key = \"sk-ann\", user = { id = \"ann\" } }]";
    let host = TestHost::new().tool("me", TOOL).config(keys).config(&oauth).start().await;

    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        let metadata = host.request("GET", path).send().await.unwrap();
        assert_eq!(metadata.status(), 200);
        let metadata: Value = serde_json::from_str(&metadata.text().await.unwrap()).unwrap();
        assert_eq!(metadata["resource"], RESOURCE);
        assert_eq!(metadata["authorization_servers"], json!([issuer.server.url("")]));
        assert_eq!(metadata["scopes_supported"], json!(["tools"]));
    }

    let leads = "resource_metadata=\"https://house.example/.well-known/oauth-protected-resource/mcp\"";
    let nobody = call(&host, None).await;
    assert_eq!(nobody.status(), 401);
    assert!(challenge(&nobody).contains(leads) && challenge(&nobody).contains("scope=\"tools\""));
    assert!(!challenge(&nobody).contains("error="), "{}", challenge(&nobody));
    for bad in [
        issuer.token("bob", "tools", -120),
        "sk-wrong".into(),
        format!("{}x", issuer.token("bob", "tools", 60)),
    ] {
        let refused = call(&host, Some(&bad)).await;
        assert_eq!(refused.status(), 401, "{bad}");
        assert!(
            challenge(&refused).contains(leads) && challenge(&refused).contains("error=\"invalid_token\"")
        );
    }
    let few = call(&host, Some(&issuer.token("bob", "other", 60))).await;
    assert_eq!(few.status(), 403);
    assert!(challenge(&few).contains("error=\"insufficient_scope\""), "{}", challenge(&few));

    let own = call(&host, Some("sk-ann")).await.text().await.unwrap();
    assert!(own.contains("\"ann\""), "{own}");
    let token = call(&host, Some(&issuer.token("bob", "tools", 60))).await.text().await.unwrap();
    assert!(token.contains("\"bob\""), "{token}");
    // A token is valid for this endpoint only.
    let body = json!({ "model": "mock-1", "messages": [{ "role": "user", "content": "hi" }] });
    let chat = host.request("POST", "/v1/chat/completions").header("content-type", "application/json");
    let chat = chat.header("authorization", format!("Bearer {}", issuer.token("bob", "tools", 60)));
    assert_eq!(chat.body(body.to_string()).send().await.unwrap().status(), 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_opaque_token_is_checked_at_its_authorization_server() {
    let is_away = Arc::new(AtomicBool::new(false));
    let away = is_away.clone();
    let endpoint = Server::start(move |request| {
        let is_ours = request.contains("authorization: Basic aG91c2U6c2VjcmV0LW9mLWhvdXNl\r\n");
        let about = |user: &str, aud: &str, scope: &str| {
            ok(json!({ "active": true, "sub": user, "aud": aud, "scope": scope }).to_string())
        };
        match request.rsplit("\r\n").next().unwrap().split('&').next().unwrap() {
            _ if !is_ours => b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n".to_vec(),
            _ if away.load(Relaxed) => b"HTTP/1.1 503 Away\r\ncontent-length: 0\r\n\r\n".to_vec(),
            "token=of-bob" | "token=of-bob-later" => about("bob", RESOURCE, "tools"),
            "token=few" => about("bob", RESOURCE, "other"),
            "token=elsewhere" => about("bob", "https://other.example/mcp", "tools"),
            _ => ok(json!({ "active": false }).to_string()),
        }
    })
    .await;
    let oauth = format!(
        "[oauth]\nauthorization_servers = [\"https://login.example.com\"]\nresource = \"{RESOURCE}\"\nscopes = [\"tools\"]\n\
         introspection_url = \"{}\"\nclient_id = \"house\"\nclient_secret = \"file:introspection.key\"",
        endpoint.url("/introspect")
    );
    let host = TestHost::new().tool("me", TOOL).config(&oauth).start().await;
    let unread = call(&host, Some("of-bob")).await;
    assert_eq!(unread.status(), 503);
    std::fs::write(host.folder().join("introspection.key"), "secret-of-house\n").unwrap();

    let bob = call(&host, Some("of-bob")).await.text().await.unwrap();
    assert!(bob.contains("\"bob\""), "{bob}");
    for bad in ["elsewhere", "guess"] {
        let refused = call(&host, Some(bad)).await;
        assert_eq!(refused.status(), 401, "{bad}");
        assert!(challenge(&refused).contains("error=\"invalid_token\""));
    }
    let few = call(&host, Some("few")).await;
    assert_eq!(few.status(), 403);
    assert!(challenge(&few).contains("error=\"insufficient_scope\""), "{}", challenge(&few));

    is_away.store(true, Relaxed);
    assert_eq!(call(&host, Some("of-bob-later")).await.status(), 503);
    // The host caches the result for some time.
    assert_eq!(call(&host, Some("of-bob")).await.status(), 200);
    is_away.store(false, Relaxed);
    assert_eq!(call(&host, Some("of-bob-later")).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_stream_ends_with_its_token_and_others_continue() {
    let issuer = Issuer::start().await;
    let oauth = format!(
        "[oauth]\nauthorization_servers = [\"{}\"]\nresource = \"{RESOURCE}\"",
        issuer.server.url("")
    );
    let host = TestHost::new().tool("me", TOOL).config(&oauth).start().await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let listen = json!({ "jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen",
        "params": { "notifications": { "toolsListChanged": true }, "_meta": meta } });
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    let send = async |method: &str, token: &str, session: Option<&str>, body: &Value| {
        let mut request = host
            .request(method, "/mcp")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("authorization", format!("Bearer {token}"));
        match session {
            Some(id) => {
                request = request.header("mcp-session-id", id).header("mcp-protocol-version", "2025-11-25");
            }
            None if body["method"] == "subscriptions/listen" => {
                request = request
                    .header("mcp-protocol-version", "2026-07-28")
                    .header("mcp-method", "subscriptions/listen");
            }
            None => {}
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        request.body(body).send().await.unwrap()
    };
    let streams = async |token: &str| {
        let begun = send("POST", token, None, &hello).await;
        let id = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        begun.text().await.unwrap();
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        send("POST", token, Some(&id), &initialized).await;
        let streams =
            [send("GET", token, Some(&id), &Value::Null).await, send("POST", token, None, &listen).await];
        for stream in &streams {
            assert_eq!(stream.status(), 200);
        }
        streams
    };
    // Clocks may differ by 30 seconds, so the token is valid for four more seconds.
    let ending = streams(&issuer.token("bob", "", -26)).await;
    let lasting = streams(&issuer.token("ann", "", 600)).await;
    for mut stream in ending {
        let end = async { while stream.chunk().await.unwrap().is_some() {} };
        tokio::time::timeout(TIMEOUT, end).await.expect("the stream goes on without its token");
    }
    host.save_tool("me", &TOOL.replace("Names the user", "Names whoever asks"));
    for mut stream in lasting {
        let mut text = String::new();
        let next_event = async {
            while !text.contains("notifications/tools/list_changed") {
                let chunk = stream.chunk().await.unwrap().expect("the stream ended");
                text.push_str(&String::from_utf8_lossy(&chunk));
            }
        };
        tokio::time::timeout(TIMEOUT, next_event).await.expect("in vain for news");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_guesses_are_limited_where_tokens_are_accepted() {
    let oauth = format!(
        "[oauth]\nauthorization_servers = [\"http://127.0.0.1:9\"]\nresource = \"{RESOURCE}\"\n[server]\nkeys = [\"sk-own\"]"
    );
    let host = TestHost::new().tool("me", TOOL).config(&oauth).start().await;
    let mut waits = false;
    for guess in 0..100 {
        waits |= call(&host, Some(&format!("sk-{guess}"))).await.status() == 429;
    }
    assert!(waits);
    assert_eq!(call(&host, Some("sk-own")).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_without_tokens_returns_404_for_their_metadata() {
    let host = TestHost::new().tool("me", TOOL).start().await;
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        crate::host::Answer::of(host.request("GET", path))
            .await
            .refused(404, "does not accept access tokens");
        assert_eq!(host.request("POST", path).send().await.unwrap().status(), 405);
    }
}
