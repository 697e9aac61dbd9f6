//! Resource subscriptions of clients at mounted servers, in both protocol eras on either side.

use super::mounts::until;
use super::same::rpc;
use crate::host::{TIMEOUT, TestHost};
use crate::python::python;
use serde_json::{Value, json};
use std::path::Path;

const UPDATED: &str = "notifications/resources/updated";

/// A stream of messages to a client.
struct Messages {
    response: reqwest::Response,
    text: String,
}

impl Messages {
    /// Waits for `count` updates of a resource since the stream began.
    async fn updates(&mut self, uri: &str, count: usize) {
        let so_far = |text: &str| {
            let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
            let messages = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
            messages.filter(|it| it["method"] == UPDATED && it["params"]["uri"] == uri).count()
        };
        let waiting = async {
            while so_far(&self.text) < count {
                let chunk = self.response.chunk().await.unwrap().expect("the stream ended");
                self.text.push_str(&String::from_utf8_lossy(&chunk));
            }
        };
        let done = tokio::time::timeout(TIMEOUT, waiting).await.is_ok();
        assert!(done, "in vain for {count} updates of {uri}: {}", self.text);
    }
}

/// A client with a session and its stream of messages.
struct Session<'a> {
    host: &'a TestHost,
    id: String,
}

impl<'a> Session<'a> {
    async fn begin(host: &'a TestHost) -> Self {
        let mut session = Self { host, id: String::new() };
        let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
        let begun = session.send("POST", Some(hello)).await;
        session.id = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        begun.text().await.unwrap();
        session.send("POST", Some(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))).await;
        session
    }

    async fn send(&self, method: &str, body: Option<Value>) -> reqwest::Response {
        let mut request = self
            .host
            .request(method, "/mcp")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if !self.id.is_empty() {
            request = request.header("mcp-session-id", &self.id).header("mcp-protocol-version", "2025-11-25");
        }
        request.body(body.map_or_else(String::new, |body| body.to_string())).send().await.unwrap()
    }

    async fn messages(&self) -> Messages {
        Messages { response: self.send("GET", None).await, text: String::new() }
    }

    async fn ask(&self, method: &str, uri: &str) -> String {
        let body = json!({ "jsonrpc": "2.0", "id": 2, "method": method, "params": { "uri": uri } });
        self.send("POST", Some(body)).await.text().await.unwrap()
    }
}

/// Subscribes to resources as a client without a session.
async fn listen(host: &TestHost, uris: &[&str]) -> Messages {
    let params = json!({ "notifications": { "resourceSubscriptions": uris }, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    } });
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": params });
    let request = host
        .request("POST", "/mcp")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "subscriptions/listen")
        .body(body.to_string());
    Messages { response: request.send().await.unwrap(), text: String::new() }
}

fn log(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn order(folder: &Path, line: &str) {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("orders")).unwrap();
    writeln!(file, "{line}").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_of_a_server_with_sessions_is_subscribed_once_and_again_after_an_outage() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/mcp_watched.py");
    let command = json!([python, script, folder]);
    let toml = format!("[[mcp]]\nname = \"watched\"\ncommand = {command}\ntrust = \"always\"\n");
    let host = TestHost::new().config(&toml).start().await;
    until("its resources are offered", || !host.snapshot().offered.resources.is_empty()).await;

    let (one, two) = (Session::begin(&host).await, Session::begin(&host).await);
    let (mut to_one, mut to_two) = (one.messages().await, two.messages().await);
    assert!(one.ask("resources/subscribe", "notes://9").await.contains("unknown resource"));
    for session in [&one, &two] {
        let answer = session.ask("resources/subscribe", "notes://1").await;
        assert!(answer.contains("\"result\""), "{answer}");
    }
    let mut listener = listen(&host, &["notes://1", "notes://9"]).await;
    until("the server is called", || !log(folder).is_empty()).await;
    // The first update tells that earlier changes may have been missed.
    for client in [&mut to_one, &mut to_two] {
        client.updates("notes://1", 1).await;
    }
    let clients = || host.app().subscriptions.subscribed("watched");
    until("all follow", || clients().len() == 1).await;
    // A resource without subscribers sends no updates.
    order(folder, "touch notes://2");
    order(folder, "touch notes://1");
    to_one.updates("notes://1", 2).await;
    to_two.updates("notes://1", 2).await;
    listener.updates("notes://1", 1).await;
    for client in [&to_one, &to_two, &listener] {
        assert!(!client.text.contains("notes://2"), "{}", client.text);
    }
    assert_eq!(log(folder), ["subscribe notes://1"]);

    // The remaining client still receives updates; when the last one leaves, the subscription ends.
    one.send("DELETE", None).await;
    drop(listener);
    order(folder, "touch notes://1");
    to_two.updates("notes://1", 3).await;
    assert_eq!(log(folder), ["subscribe notes://1"]);
    two.ask("resources/unsubscribe", "notes://1").await;
    until("nobody follows", || log(folder).len() == 2).await;
    assert_eq!(log(folder)[1], "unsubscribe notes://1");

    // A session or a listener that ends leaves no subscription behind.
    two.ask("resources/subscribe", "notes://2").await;
    until("the server is called again", || log(folder).len() == 3).await;
    to_two.updates("notes://2", 1).await;
    order(folder, "die");
    until("the new process is called again", || log(folder).len() == 4).await;
    assert_eq!(log(folder)[3], "subscribe notes://2");
    to_two.updates("notes://2", 2).await;
    order(folder, "touch notes://2");
    to_two.updates("notes://2", 3).await;
    two.send("DELETE", None).await;
    until("the session is over", || log(folder).len() == 5).await;
    assert_eq!(log(folder)[4], "unsubscribe notes://2");
    let mut listener = listen(&host, &["notes://2"]).await;
    listener.updates("notes://2", 1).await;
    drop(listener);
    until("the listener is gone", || log(folder).len() == 7).await;
    assert!(clients().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_of_a_server_without_sessions_is_followed_by_one_shared_stream() {
    let notes = "fn resources() { [#{ uri: \"notes://all\", name: \"All\" }, #{ uriTemplate: \"notes://{id}\", name: \"One\" }] }\n\
                 fn resource(uri) { uri }";
    let touch = "/*\ndescription: Touches a note\n*/\n\
                 fn handler(args) { emit(#{ type: \"resource_updated\", data: #{ uri: args.uri } }); \"done\" }";
    let far = TestHost::new().tool("notes", notes).tool("touch", touch).start().await;
    let toml = format!("[[mcp]]\nname = \"far\"\nurl = \"{}\"\ntrust = \"always\"\n", far.url("/mcp"));
    // A script of this host offers one of the URIs too and takes precedence over the server.
    let own = "fn resources() { [#{ uri: \"notes://own\", name: \"Own\" }] }\nfn resource(uri) { \"own\" }";
    let host = TestHost::new().config(&toml).tool("own", own).start().await;
    until("its resources are offered", || host.snapshot().offered.resources.len() == 2).await;

    let session = Session::begin(&host).await;
    let mut to_session = session.messages().await;
    session.ask("resources/subscribe", "notes://all").await;
    to_session.updates("notes://all", 1).await;
    let mut listener = listen(&host, &["notes://all", "notes://7", "notes://own"]).await;
    listener.updates("notes://7", 1).await;
    let wanted = || host.app().subscriptions.subscribed("far");
    assert_eq!(Vec::from_iter(wanted()), ["notes://7", "notes://all"]);

    for uri in ["notes://own", "notes://7", "notes://all"] {
        let touched =
            rpc(&host, "tools/call", json!({ "name": "far_touch", "arguments": { "uri": uri } })).await;
        assert_eq!(touched["result"]["content"][0]["text"], "done", "{touched}");
    }
    to_session.updates("notes://all", 2).await;
    listener.updates("notes://all", 1).await;
    listener.updates("notes://7", 2).await;
    assert!(!listener.text.contains("\"notes://own\"}") && !to_session.text.contains("notes://7"));

    // A script takes over the URI: the host ends its subscription at the server.
    host.save_tool(
        "taken",
        "fn resources() { [#{ uri: \"notes://7\", name: \"Own\" }] }\nfn resource(uri) { \"own\" }",
    );
    until("the script's is followed", || wanted().len() == 1).await;
    drop(listener);
    session.send("DELETE", None).await;
    until("nobody follows", || wanted().is_empty()).await;
}
