//! Sessions of `/mcp` with several hosts on one database: each request of a client goes to another host.

use super::serve::{Project, Server};
use crate::host::{TIMEOUT, client};
use crate::upstream::Upstream;
use serde_json::{Value, json};
use valvehouse_testkit::postgres::Postgres;

fn project(upstream: &Upstream, url: &str) -> Project {
    let project = Project::new(&upstream.url());
    project.configure(&format!(
        "[server]\nkeys = [\"sk-one-00000001\", \"sk-two-00000002\"]\n\
         [store]\nurl = \"{url}\"\nkey = \"the same key on every host of this test\"\n"
    ));
    project
}

/// A client with its key and, once it has started, its session.
struct Client {
    key: &'static str,
    session: Option<String>,
}

impl Client {
    async fn sends(&mut self, server: &Server, method: &str, message: &Value) -> (u16, String) {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let request = client().request(method, format!("{}/mcp", server.url())).timeout(TIMEOUT);
        let request = request.header("authorization", format!("Bearer {}", self.key));
        let mut request = request.header("content-type", "application/json").body(message.to_string());
        request = request.header("accept", "application/json, text/event-stream");
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-11-25");
        }
        let response = request.send().await.unwrap();
        if let Some(session) = response.headers().get("mcp-session-id") {
            self.session = Some(session.to_str().unwrap().to_owned());
        }
        (response.status().as_u16(), response.text().await.unwrap())
    }

    async fn begins(&mut self, server: &Server) {
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
        let (status, answer) = self.sends(server, "POST", &hello).await;
        assert_eq!(status, 200, "{answer}");
    }

    /// Calls the note tool at a host. Returns the status and the response.
    async fn notes(&mut self, server: &Server, what: &str) -> (u16, String) {
        // Concurrent calls of a session have different ids.
        let call = json!({"jsonrpc": "2.0", "id": format!("call {what}"), "method": "tools/call",
            "params": {"name": "note", "arguments": {"what": what}}});
        self.sends(server, "POST", &call).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_mcp_session_continues_at_any_host_for_its_key() {
    let Some(database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    let url = database.database();
    let projects = [0; 3].map(|_| project(&upstream, &url));
    let mut servers = futures::future::join_all(projects.iter().map(Project::serve)).await;
    let mut one = Client { key: "sk-one-00000001", session: None };
    one.begins(&servers[0]).await;
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let (status, answer) = one.sends(&servers[1], "POST", &ready).await;
    assert_eq!(status, 202, "{answer}");
    for (number, server) in servers.iter().enumerate() {
        let (status, answer) = one.notes(server, &format!("{number}")).await;
        assert!(status == 200 && answer.contains(&format!("noted {number}")), "{status} {answer}");
    }
    // No other key can use the session, and the database has no plain text of it.
    let mut two = Client { key: "sk-two-00000002", session: one.session.clone() };
    for server in &servers {
        let (status, answer) = two.notes(server, "foreign").await;
        assert!(status == 404 && answer.contains("belongs to another key"), "{status} {answer}");
    }
    let stored = database.ask(&url, "SELECT content FROM client_sessions");
    assert!(stored.starts_with("sealed:") && !stored.contains("sk-one"), "{stored}");

    // The session's host stops and starts again.
    servers[0].kill();
    assert_eq!(one.notes(&servers[1], "still").await.0, 200);
    servers[0] = projects[0].serve().await;
    let all = futures::future::join_all((0..4).map(|number| {
        let mut same = Client { key: one.key, session: one.session.clone() };
        let server = &servers[0];
        async move { same.notes(server, &format!("at once {number}")).await }
    }));
    for (number, (status, answer)) in all.await.into_iter().enumerate() {
        assert!(status == 200 && answer.contains(&format!("noted at once {number}")), "{status} {answer}");
    }
    let (status, answer) = two.notes(&servers[0], "foreign").await;
    assert!(status == 404 && answer.contains("belongs to another key"), "{status} {answer}");

    let (status, answer) = one.sends(&servers[1], "DELETE", &Value::Null).await;
    assert!(status < 300, "{status} {answer}");
    assert_eq!(one.notes(&servers[1], "late").await.0, 404);
    servers[2].kill();
    servers[2] = projects[2].serve().await;
    assert_eq!(one.notes(&servers[2], "late").await.0, 404, "nor at a host that did not know it");
    for (project, lines) in
        [(&projects[0], vec!["0"]), (&projects[1], vec!["1", "still"]), (&projects[2], vec!["2"])]
    {
        let noted = project.lines("noted");
        assert!(lines.iter().all(|line| noted.iter().any(|one| one == line)), "{noted:?}");
        assert!(!noted.iter().any(|line| ["foreign", "late"].contains(&line.as_str())), "{noted:?}");
    }
}
