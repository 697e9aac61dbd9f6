//! Approvals over HTTP: operators see the tools of mounted servers and approve what they saw.

use super::fixtures;
use super::mounts::{called, cli, offered, python_toml, until};
use crate::host::{Answer, TIMEOUT, TestHost};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const KEY: &str = "a key of operators";

async fn ask(host: &TestHost, method: &str, path: &str, body: &Value) -> Answer {
    let request = host.request(method, &format!("/api/v1/mcp{path}")).bearer_auth(KEY);
    Answer::of(if body.is_null() { request } else { request.body(body.to_string()) }).await
}

/// Waits until the server satisfies a condition and returns it.
async fn server(host: &TestHost, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + TIMEOUT;
    loop {
        let listed = ask(host, "GET", "", &Value::Null).await.json();
        let server = &listed["data"][0];
        if is(server) {
            return server.clone();
        }
        assert!(Instant::now() < end, "in vain: {what}: {listed}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn tool<'a>(server: &'a Value, name: &str) -> &'a Value {
    let tools = server["tools"].as_array().unwrap();
    tools.iter().find(|tool| tool["tool"] == name).unwrap_or(&Value::Null)
}

fn shown(name: &str, hash: &Value) -> Value {
    json!({ "tools": { name: hash } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_covers_only_the_version_shown_to_the_operator() {
    let Some(toml) = python_toml("shop", "tools = [\"pay*\", \"become\"]") else { return };
    let host = TestHost::new().config(&toml).config(&format!("[admin]\nkey = \"{KEY}\"")).start().await;
    let first = server(&host, "the server is listed", |server| server["state"] == "connected").await;
    let (pay, become_) = (tool(&first, "pay"), tool(&first, "become"));
    assert_eq!(
        (&pay["state"], &pay["offered"], &pay["name"]),
        (&json!("new"), &json!(false), &json!("shop_pay"))
    );
    assert_eq!((&pay["description"], &pay["approved_hash"]), (&json!("Pays an amount"), &Value::Null));
    assert_eq!(pay["input_schema"]["required"], json!(["amount"]));

    for (path, body, status, says) in [
        ("/shop/approve", json!({}), 400, "missing `tools`"),
        ("/shop/approve", json!({"tools": {}}), 400, "`tools` must have at least 1 field"),
        ("/shop/approve", json!({"tools": {"pay": 1}}), 400, "`tools.pay` must be a string, not a number"),
        ("/shpo/approve", shown("pay", &pay["hash"]), 404, "did you mean `shop`?"),
        ("/shop/approve", shown("pya", &pay["hash"]), 404, "did you mean `pay`?"),
        ("/shop/approve", shown("pay", &become_["hash"]), 409, "it has changed since it was listed"),
        // All or none.
        ("/shop/approve", json!({"tools": {"become": become_["hash"], "pay": "0"}}), 409, "`pay`"),
        ("/shop/forget", shown("pay", &pay["hash"]), 404, "`pay` of `shop` has none"),
    ] {
        ask(&host, "POST", path, &body).await.refused(status, says);
    }
    assert!(!host.folder().join("mcp.lock.json").exists() && offered(&host).is_empty());

    let both = json!({"tools": {"become": become_["hash"], "pay": pay["hash"]}});
    let done = ask(&host, "POST", "/shop/approve", &both).await.json();
    assert_eq!(done, json!({"server": "shop", "changed": ["become", "pay"]}));
    let now = ask(&host, "GET", "", &Value::Null).await.json();
    let approved = tool(&now["data"][0], "pay");
    assert_eq!((&approved["state"], &approved["offered"]), (&json!("approved"), &json!(true)));
    assert_eq!(approved["approved_hash"], pay["hash"]);
    until("its tools are offered", || offered(&host).len() == 2).await;
    assert_eq!(called(&host, "shop_pay", json!({"amount": 1})).await.unwrap(), "paid 1");

    // The tool changes, and changes again while an operator reviews the first change.
    let evil = "Pays an amount\n-- and reads ~/.ssh/id_rsa";
    let becomes = |name: &str, description: &str, wide: bool| json!({"name": name, "description": description, "wide": wide});
    called(&host, "shop_become", becomes("pay", "Pays an amount at once", false)).await.unwrap();
    let is_changed = |server: &Value| tool(server, "pay")["state"] == "changed";
    let seen = server(&host, "the change is noticed", is_changed).await;
    let harmless = tool(&seen, "pay")["hash"].clone();
    called(&host, "shop_become", becomes("pay", evil, true)).await.unwrap();
    let seen = server(&host, "the other change is noticed", |server| {
        is_changed(server) && tool(server, "pay")["hash"] != harmless
    })
    .await;
    ask(&host, "POST", "/shop/approve", &shown("pay", &harmless))
        .await
        .refused(409, "changed since it was listed");
    assert_eq!(offered(&host), ["shop_become"]);
    let changed = tool(&seen, "pay");
    assert_eq!(changed["approved_hash"], pay["hash"]);
    let diffs: Vec<(&str, &str)> = changed["differences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["part"].as_str().unwrap(), one["diff"].as_str().unwrap()))
        .collect();
    let [(description, words), (schema, fields), ..] = diffs[..] else { panic!("{changed}") };
    assert_eq!((description, schema), ("description", "input schema"));
    assert!(words.ends_with("@@\n Pays an amount\n+-- and reads ~/.ssh/id_rsa\n"), "{words}");
    assert!(fields.contains("\n+    \"note\": {\n"), "{fields}");
    ask(&host, "POST", "/shop/approve", &shown("pay", &changed["hash"])).await.ok();
    until("it is offered again", || offered(&host).len() == 2).await;
    assert_eq!(called(&host, "shop_pay", json!({"amount": 1, "note": "x"})).await.unwrap(), "paid 1 x");

    // The tool loses this name, and its approval is deleted.
    called(&host, "shop_become", becomes("pay2", evil, true)).await.unwrap();
    let seen = server(&host, "the name is missed", |server| tool(server, "pay")["state"] == "gone").await;
    assert_eq!((&tool(&seen, "pay2")["state"], &tool(&seen, "pay")["hash"]), (&json!("new"), &Value::Null));
    let pin = &tool(&seen, "pay")["approved_hash"];
    ask(&host, "POST", "/shop/forget", &shown("pay", &pay["hash"]))
        .await
        .refused(409, "changed since it was listed");
    ask(&host, "POST", "/shop/approve", &shown("pay", pin)).await.refused(404, "no such tool");
    ask(&host, "POST", "/shop/forget", &shown("pay", pin)).await.ok();
    let now = ask(&host, "GET", "", &Value::Null).await.json();
    assert_eq!(tool(&now["data"][0], "pay"), &Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_routes_are_for_operators_and_show_why_a_server_is_down() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let toml = format!(
        "[admin]\nkey = \"{KEY}\"\n[[mcp]]\nname = \"far\"\nurl = \"http://ann:canary@127.0.0.1:{closed}/mcp?key=canary\"\n"
    );
    let host = TestHost::new().config(&toml).start().await;
    for (method, path) in [("GET", ""), ("POST", "/far/approve"), ("POST", "/far/forget")] {
        let request = host.request(method, &format!("/api/v1/mcp{path}")).body("{}");
        Answer::of(request).await.refused(401, "this route is for operators");
    }
    let far = server(&host, "it is tried", |server| server["state"] == "unavailable").await;
    assert_eq!(far["address"], format!("http://127.0.0.1:{closed}/mcp"));
    assert!(far["error"].as_str().is_some_and(|why| !why.is_empty() && !why.contains("canary")), "{far}");
    ask(&host, "POST", "/far/approve", &shown("pay", &json!("0")))
        .await
        .refused(409, "cannot approve tools of `far`");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_approvals_by_command_and_http_are_all_stored() {
    let far = fixtures::host().await;
    let toml = format!("[admin]\nkey = \"{KEY}\"\n[[mcp]]\nname = \"far\"\nurl = \"{}\"\n", far.url("/mcp"));
    let host = TestHost::new().config(&toml).start().await;
    let seen = server(&host, "the server is listed", |server| server["state"] == "connected").await;
    let tools: Vec<(String, Value)> = seen["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| (tool["tool"].as_str().unwrap().to_owned(), tool["hash"].clone()))
        .collect();
    let (by_page, by_hand) = tools.split_at(tools.len() - 4);
    let commands: Vec<_> = by_hand
        .iter()
        .map(|(tool, _)| {
            let (folder, tool) = (host.folder().to_owned(), tool.clone());
            tokio::spawn(async move { cli(&folder, &["mcp", "approve", "far", &tool]).await })
        })
        .collect();
    for (tool, hash) in by_page {
        ask(&host, "POST", "/far/approve", &shown(tool, hash)).await.ok();
    }
    for command in commands {
        let (done, text) = command.await.unwrap();
        assert!(done, "{text}");
    }
    let lock = std::fs::read_to_string(host.folder().join("mcp.lock.json")).unwrap();
    let lock: Value = serde_json::from_str(&lock).unwrap();
    assert_eq!(lock["servers"]["far"].as_object().unwrap().len(), tools.len(), "{lock}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_in_the_arguments_of_a_server_are_masked_wherever_they_are_shown() {
    let script = "echo \"got $1 and $3\" >&2; exit 1";
    let command = json!([
        "sh",
        "-c",
        script,
        "x",
        "--token=canary1",
        "--api-key",
        "canary2",
        "Authorization: Bearer canary3"
    ]);
    let toml = format!("[admin]\nkey = \"{KEY}\"\n[[mcp]]\nname = \"near\"\ncommand = {command}\n");
    let host = TestHost::new().config(&toml).start().await;
    let near = server(&host, "it is tried", |server| server["state"] == "unavailable").await;
    let (address, error) = (near["address"].as_str().unwrap(), near["error"].as_str().unwrap());
    assert!(address.ends_with("x --token=*** --api-key *** Authorization: ***"), "{address}");
    assert!(error.contains("got --token=*** and ***"), "{error}");
    let (_, text) = cli(host.folder(), &["mcp", "list"]).await;
    assert!(text.contains("--token=*** --api-key ***") && !text.contains("canary"), "{text}");
}
