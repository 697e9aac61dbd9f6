//! A login at another server: from the command line, through a browser that the test plays, to tokens that a
//! host refreshes.

use super::clients::BINARY;
use crate::host::{TIMEOUT, TestHost};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use valvehouse_testkit::loopback::Server;

/// An MCP server that requires a token, with its authorization server. Access tokens are `access-1`,
/// `access-2` …; only the latest one and its refresh token are valid.
async fn guarded() -> (Server, Arc<AtomicUsize>) {
    let issued = Arc::new(AtomicUsize::new(0));
    let latest = issued.clone();
    let server = Server::start(move |request| answer(request, &latest)).await;
    (server, issued)
}

fn answer(request: &str, issued: &AtomicUsize) -> Vec<u8> {
    let header = |name: &str| request.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    let base = format!("http://{}", header("host").unwrap());
    let body = request.split_once("\r\n\r\n").unwrap().1;
    let path = request.split(' ').nth(1).unwrap();
    let json = |value: Value| reply("200 OK", "content-type: application/json\r\n", &value.to_string());
    let token = || {
        let number = issued.fetch_add(1, Relaxed) + 1;
        let (access, refresh) = (format!("access-{number}"), format!("refresh-{number}"));
        // The first token must be refreshed at once.
        let life = if number == 1 { 0 } else { 3_600 };
        json(
            json!({ "access_token": access, "token_type": "Bearer", "expires_in": life, "refresh_token": refresh }),
        )
    };
    match path.split('?').next().unwrap() {
        "/.well-known/oauth-protected-resource/mcp" => {
            json(json!({ "resource": format!("{base}/mcp"), "authorization_servers": [base] }))
        }
        "/.well-known/oauth-authorization-server" => json(json!({
            "issuer": base, "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
        })),
        "/register" => json(json!({ "client_id": "client", "redirect_uris": [] })),
        "/token" if body.contains("code=the-code") && body.contains("code_verifier=") => token(),
        "/token" if body.contains(&format!("refresh_token=refresh-{}", issued.load(Relaxed))) => token(),
        "/mcp" => {
            let own = format!("Bearer access-{}", issued.load(Relaxed));
            if header("authorization") != Some(own.as_str()) {
                let challenge = format!(
                    "www-authenticate: Bearer resource_metadata=\"{base}/.well-known/oauth-protected-resource/mcp\"\r\n"
                );
                return reply("401 Unauthorized", &challenge, "");
            }
            match serde_json::from_str(body) {
                Ok(message) => message_of(&message),
                Err(_) => reply("405 Method Not Allowed", "", ""),
            }
        }
        _ => reply("400 Bad Request", "", ""),
    }
}

fn message_of(message: &Value) -> Vec<u8> {
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "s", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [{ "name": "ping", "inputSchema": { "type": "object" } }] }),
        "tools/call" => json!({ "content": [{ "type": "text", "text": "pong" }] }),
        method if method.starts_with("notifications/") => return reply("202 Accepted", "", ""),
        _ => {
            let error = json!({ "code": -32601, "message": "no such method" });
            let body = json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
            return reply("200 OK", "content-type: application/json\r\n", &body.to_string());
        }
    };
    let body = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    reply("200 OK", "content-type: application/json\r\n", &body.to_string())
}

fn reply(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Starts a login. Returns the process and the URL that it prints.
fn begin(project: &Path) -> (std::process::Child, url::Url) {
    let mut login = Command::new(BINARY);
    login.arg("--project").arg(project).args(["mcp", "login", "far", "--no-browser"]);
    let mut login = login.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(login.stderr.take().unwrap()).lines();
    let address = lines.find_map(|line| url::Url::parse(line.unwrap().trim()).ok()).unwrap();
    (login, address)
}

fn query(address: &url::Url, name: &str) -> String {
    address.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned()
}

/// Plays the browser's redirect with a code.
async fn come_back(address: &url::Url, state: &str, rest: &str) -> u16 {
    let back = format!("{}?state={state}&{rest}", query(address, "redirect_uri"));
    reqwest::get(back).await.unwrap().status().as_u16()
}

async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !is() {
        assert!(Instant::now() < end, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_logs_in_while_the_host_runs_and_the_host_refreshes_the_token() {
    let (server, issued) = guarded().await;
    let toml = format!(
        "[[mcp]]\nname = \"far\"\nurl = \"{}\"\nauth = \"oauth\"\ntrust = \"always\"",
        server.url("/mcp")
    );
    let mut host = TestHost::new().config(&toml).start().await;
    let problems = |host: &TestHost| {
        let snapshot = host.snapshot();
        snapshot.problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("\n")
    };
    until("the host says that nobody logged in", || problems(&host).contains("valvehouse mcp login far"))
        .await;

    let (mut login, address) = begin(host.folder());
    assert_eq!(query(&address, "code_challenge_method"), "S256");
    assert_eq!(query(&address, "resource"), server.url("/mcp"));
    let state = query(&address, "state");
    // Other programs on this machine do not know the state and cannot end the login.
    assert_eq!(come_back(&address, "guess", "code=stolen").await, 404);
    assert_eq!(come_back(&address, &state, "code=the-code").await, 200);
    until("the login ends", || login.try_wait().unwrap().is_some()).await;
    assert!(login.wait().unwrap().success());

    let offered = |host: &TestHost| host.snapshot().tools.iter().any(|tool| tool.name() == "far_ping");
    until("the running host takes the login up", || offered(&host)).await;
    assert_eq!(issued.load(Relaxed), 2, "the first token was refreshed once");
    let mut call = Command::new(BINARY);
    call.arg("--project").arg(host.folder()).args(["invoke", "far_ping"]);
    let called = tokio::task::spawn_blocking(move || call.output()).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&called.stdout).contains("pong"), "{called:?}");
    // No file contains a token in plain text.
    for file in walk(host.folder()) {
        let bytes = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let found = ["access-2", "refresh-2"]
            .iter()
            .any(|word| memchr::memmem::find(&bytes, word.as_bytes()).is_some());
        assert!(!found, "{}", file.display());
    }

    // A different address is a different server, which gets no token of the first one.
    let moved = host.settings().replace("/mcp\"", "/mcp?tenant=2\"");
    host.reconfigure(&moved).await;
    until("nobody logged in to that one", || problems(&host).contains("not logged in")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejected_login_states_the_reason() {
    let (server, issued) = guarded().await;
    let project = tempfile::tempdir().unwrap();
    let toml = format!("[[mcp]]\nname = \"far\"\nurl = \"{}\"\nauth = \"oauth\"", server.url("/mcp"));
    std::fs::write(project.path().join("valvehouse.toml"), toml).unwrap();
    let (mut login, address) = begin(project.path());
    let state = query(&address, "state");
    assert_eq!(come_back(&address, &state, "error=access_denied&error_description=not+today").await, 200);
    until("the login ends", || login.try_wait().unwrap().is_some()).await;
    assert!(!login.wait().unwrap().success());
    assert_eq!(issued.load(Relaxed), 0);
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] })
        .filter(|path| path.is_file())
        .collect()
}
