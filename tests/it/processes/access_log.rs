//! The log of a host: a line for each request, and the id that the client saw in all lines of its request.

use crate::cli::{Project, Server};
use crate::host::{TIMEOUT, client};
use crate::upstream::{Gate, MODEL, Reply, Upstream};
use serde_json::{Value, json};

/// Refuses, fails, writes a line and computes for long on request. Its messages contain the text of the user.
const WAYS: &str = r#"
fn inlet(body) {
    let text = body.messages[-1].text;
    if text.contains("refuse") { deny(`no ${text}`, 403); }
    if text.contains("break") { throw [1][9]; }
    if text.contains("slow") { for turn in 0..60_000 {} log::warn("a slow line"); }
    body
}
"#;
const SECRET: &str = "xyzzy-4711";

/// A host, its upstream service, and the requests to it.
struct LoggedHost {
    server: Server,
    upstream: Upstream,
    _project: Project,
}

impl LoggedHost {
    async fn start(words: &str, settings: &str) -> Self {
        let upstream = Upstream::start().await;
        let config = format!(
            "{settings}\n[[providers]]\nname = \"mock\"\nkind = \"openai\"\nbase_url = \"{}\"\napi_key = \"sk\"\n\
             retry = {{ max_attempts = 1 }}\n\
             [[models]]\nname = \"plain\"\nprovider = \"mock\"\nmodel = \"{MODEL}\"\n\
             [[models]]\nname = \"smart\"\nprovider = \"mock\"\nmodel = \"{MODEL}\"\nfilters = [\"ways\"]\n",
            upstream.url()
        );
        let ways = format!("/*\nglobal: false\n*/\n{WAYS}");
        let project = Project::new().with("valvehouse.toml", &config).filter("ways", &ways);
        Self { server: project.serve(words), upstream, _project: project }
    }

    async fn post(&self, model: &str, text: &str, stream: bool) -> reqwest::Response {
        let body = json!({"model": model, "stream": stream, "user": "ann",
            "messages": [{"role": "user", "content": format!("{text} {SECRET}")}]});
        let request = client().post(format!("{}/v1/chat/completions", self.server.url())).timeout(TIMEOUT);
        request.header("content-type", "application/json").body(body.to_string()).send().await.unwrap()
    }

    /// Sends a chat, and returns the id that the client saw and the request's line.
    async fn line(&self, model: &str, text: &str, stream: bool) -> (String, Value) {
        let response = self.post(model, text, stream).await;
        let id = response.headers()["x-valvehouse-trace"].to_str().unwrap().to_owned();
        response.text().await.unwrap();
        (id, self.access())
    }

    fn access(&self) -> Value {
        serde_json::from_str(&self.server.wait_for_line("valvehouse::access")).unwrap()
    }

    fn wait_for(&self, text: &str) -> Value {
        serde_json::from_str(&self.server.wait_for_line(text)).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_one_line_with_its_names_and_numbers() {
    let host = LoggedHost::start("--format json", "").await;
    for model in ["plain", "smart"] {
        host.upstream.reply(Reply::text("hello"));
        let (id, line) = host.line(model, "hi", false).await;
        let expected = json!({"level": "INFO", "message": "request", "target": "valvehouse::access",
            "request": id, "method": "POST", "path": "/v1/chat/completions", "status": 200, "user": "ann",
            "model": model, "provider": "mock", "tokens_in": 1, "tokens_out": 1});
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(line[name], *value, "{name} in {line}");
        }
        assert!(line["ms"].is_u64() && line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
        assert!(line.get("ended_by").is_none() && line.get("disconnected").is_none(), "{line}");

        host.upstream.reply(Reply::words(["hel", "lo"]));
        let (id, line) = host.line(model, "hi", true).await;
        assert_eq!((&line["request"], &line["status"]), (&json!(id), &json!(200)));
        assert!(line["first_ms"].as_u64().unwrap() <= line["ms"].as_u64().unwrap(), "{line}");
    }
    for (text, status, outcome) in [("refuse", 403, "refused"), ("break", 500, "failed")] {
        let (id, line) = host.line("smart", text, false).await;
        let facts = [&line["request"], &line["status"], &line["ended_by"], &line["outcome"]];
        assert_eq!(facts, [&json!(id), &json!(status), &json!("ways"), &json!(outcome)]);
    }
    // A request that no turn serves has no id.
    client().get(format!("{}/v1/nothing", host.server.url())).send().await.unwrap();
    let line = host.access();
    assert_eq!((&line["status"], line.get("request")), (&json!(404), None));
    let words = host.server.last_words();
    assert!(!words.contains(SECRET), "{words}");
    for line in words.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["timestamp"].is_string() && line["level"].is_string(), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_refused_before_their_turn_name_their_key_in_the_log_and_the_usage() {
    let settings = "[admin]\nkey = \"sk-operator\"\n[server]\nmax_body_mb = 1\n";
    let host = LoggedHost::start("--format json", settings).await;
    host.upstream.reply(Reply::text("hello"));
    // Returns the answer and the request's line.
    let send = async |method: &str, path: &str, key: &str, body: String| {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let request = client().request(method, format!("{}{path}", host.server.url())).bearer_auth(key);
        let request = request.timeout(TIMEOUT).header("content-type", "application/json");
        let response = request.body(body).send().await.unwrap();
        let answer: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        (answer, host.access())
    };
    let key = async |name: &str, rights: Value| {
        let body = json!({"name": name, "rights": rights}).to_string();
        let (made, _) = send("POST", "/api/v1/keys", "sk-operator", body).await;
        made["key"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    };
    let often = key("often", json!({"requests_per_minute": 1})).await;
    let narrow = key("narrow", json!({"models": ["plain"]})).await;
    let revoked = key("revoked", json!({})).await;
    send("DELETE", "/api/v1/keys/revoked", "sk-operator", String::new()).await;
    let chat = |model: &str| json!({"model": model, "messages": [{"role": "user", "content": "hi"}]});
    let mut filtered = chat("plain");
    filtered["filter_ids"] = json!(["none"]);
    let none = &Value::Null;
    for (key, body, expected) in [
        (&often, chat("plain").to_string(), [&json!(200), &json!("often"), &json!("plain")]),
        (&often, chat("plain").to_string(), [&json!(429), &json!("often"), none]),
        (&narrow, chat("smart").to_string(), [&json!(404), &json!("narrow"), &json!("smart")]),
        (&narrow, chat("unheard-of").to_string(), [&json!(404), &json!("narrow"), none]),
        (&narrow, filtered.to_string(), [&json!(400), &json!("narrow"), &json!("plain")]),
        (&narrow, "{".to_owned(), [&json!(400), &json!("narrow"), none]),
        (&narrow, "x".repeat(2 << 20), [&json!(413), &json!("narrow"), none]),
        (&revoked, chat("plain").to_string(), [&json!(401), &json!("revoked"), none]),
    ] {
        let (answer, line) = send("POST", "/v1/chat/completions", key, body).await;
        assert_eq!([&line["status"], &line["key"], &line["model"]], expected, "{line} {answer}");
    }
    let (usage, _) = send("GET", "/api/v1/usage?by=key,model,endpoint", "sk-operator", String::new()).await;
    let rows = usage["data"].as_array().unwrap().iter().map(|row| {
        let by = ["key", "model", "endpoint"].map(|name| row["by"][name].as_str().unwrap());
        format!("{}: {} {} {}", by.join("/"), row["requests"], row["client_errors"], row["server_errors"])
    });
    let mut rows: Vec<String> = rows.collect();
    rows.sort();
    let expected = [
        "narrow//chat: 3 3 0",
        "narrow/plain/chat: 1 1 0",
        "narrow/smart/chat: 1 1 0",
        "often//chat: 1 1 0",
        "often/plain/chat: 1 0 0",
        "revoked//chat: 1 1 0",
    ];
    assert_eq!(rows, expected, "{usage}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_logged_at_its_end_also_if_the_client_disconnects() {
    let host = LoggedHost::start("--format json", "").await;
    let gate = Gate::closed();
    host.upstream.reply(Reply::begun(["hel"]).then_gate(&gate));
    let mut response = host.post("smart", "hi", true).await;
    response.chunk().await.unwrap();
    host.upstream.reply(Reply::text("hello"));
    let (id, line) = host.line("smart", "hi", false).await;
    assert_eq!(line["request"], json!(id), "the stream has not ended");
    let id = response.headers()["x-valvehouse-trace"].to_str().unwrap().to_owned();
    drop(response);
    let line = host.access();
    assert_eq!((&line["request"], &line["disconnected"]), (&json!(id), &json!(true)), "{line}");
    assert_eq!((&line["status"], &line["provider"]), (&json!(200), &json!("mock")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lines_of_a_request_have_the_id_that_its_client_saw() {
    let host = LoggedHost::start("--format json", "").await;
    host.upstream.reply(Reply::text("hello"));
    for (text, logged) in [("break", "array index 9 out of bounds"), ("slow", "a slow line")] {
        // The second call of a slow function runs on a thread of its own.
        for _ in 0..2 {
            let response = host.post("smart", text, false).await;
            assert_eq!(
                host.wait_for(logged)["request"],
                response.headers()["x-valvehouse-trace"].to_str().unwrap()
            );
        }
    }
    for (model, stream) in [("plain", false), ("plain", true), ("smart", false), ("smart", true)] {
        host.upstream.reply(Reply::raw("text/plain", "").then_cut());
        let response = host.post(model, "hi", stream).await;
        let id = response.headers()["x-valvehouse-trace"].to_str().unwrap().to_owned();
        response.text().await.unwrap();
        let line = host.wait_for("\"level\":\"WARN\"");
        assert_eq!(line["request"], json!(id), "{line}");
        assert_eq!(host.access()["request"], json!(id));
    }
    for (status, logged) in [(500, "provider mock answered 500"), (401, "it refuses this host's key")] {
        host.upstream.reply(Reply::json(&json!({"error": {"message": "no"}})).status(status));
        for model in ["plain", "smart"] {
            let response = host.post(model, "hi", false).await;
            let id = response.headers()["x-valvehouse-trace"].to_str().unwrap();
            assert_eq!(host.wait_for(logged)["request"], json!(id));
        }
    }
    host.upstream.reply(Reply::begun(["hel"]).then_cut());
    for model in ["plain", "smart"] {
        let response = host.post(model, "hi", true).await;
        let id = response.headers()["x-valvehouse-trace"].to_str().unwrap().to_owned();
        let _ = response.text().await;
        let line = host.wait_for("a stream ended with an error");
        assert_eq!(line["request"], json!(id), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_and_reads_of_the_page_are_logged_only_for_debugging() {
    let host = LoggedHost::start("", "").await;
    let of_page = async |path: &str| {
        let request = client().get(format!("{}/api/v1/{path}", host.server.url()));
        request.header("sec-fetch-site", "same-origin").send().await.unwrap().status()
    };
    assert_eq!(of_page("usage").await, 200);
    assert_eq!(of_page("usage?step=1s").await, 400);
    assert!(host.server.wait_for_line("/api/v1/usage").contains(" INFO  GET /api/v1/usage 400 "));
    for path in ["/livez", "/readyz", "/metrics", "/"] {
        client().get(format!("{}{path}", host.server.url())).send().await.unwrap();
    }
    client().get(format!("{}/v1/models", host.server.url())).send().await.unwrap();
    let line = host.server.wait_for_line("GET /");
    let (time, rest) = line.split_once(' ').unwrap();
    assert!(time.len() == 24 && rest.starts_with("INFO  GET /v1/models 200 (ms="), "{line}");
    client().get(format!("{}/v1/{}", host.server.url(), "x".repeat(5_000))).send().await.unwrap();
    let line = host.server.wait_for_line("GET /v1/xxx");
    assert!(line.len() < 500, "{line}");
    let debugged = LoggedHost::start("-v", "").await;
    client().get(format!("{}/livez", debugged.server.url())).send().await.unwrap();
    assert!(debugged.server.wait_for_line("GET /livez 200").contains(" DEBUG "));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_logged_for_a_request_if_its_target_is_off() {
    let upstream = Upstream::start().await;
    let config = format!(
        "[[providers]]\nname = \"mock\"\nkind = \"openai\"\nbase_url = \"{}\"\napi_key = \"sk\"\nmodels = [\"{MODEL}\"]\n",
        upstream.url()
    );
    let project = Project::new()
        .with("valvehouse.toml", &config)
        .variable("VALVEHOUSE_LOG", "info,valvehouse::access=off");
    let server = project.serve("");
    client().get(format!("{}/v1/models", server.url())).send().await.unwrap();
    let words = server.last_words();
    assert!(!words.contains("/v1/models 200"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_says_when_all_requests_to_a_model_are_refused_and_when_no_more() {
    let model =
        "[[models]]\nname = \"smart\"\nprovider = \"demo\"\nmodel = \"demo\"\nfilters = [\"redact\"]\n";
    let project = Project::new()
        .with("valvehouse.toml", &format!("[[providers]]\nname = \"demo\"\nkind = \"demo\"\n{model}"))
        .filter("redact", "/*\nsecurity: true\nglobal: false\n*/\nfn inlet(");
    let server = project.serve("");
    let line = server.wait_for_line("All requests to `smart` are refused: guard `redact` does not load");
    assert!(line.contains(" ERROR "), "{line}");
    let ready = project.run_with(&["health", "--ready", "--at", &server.url()], "");
    ready.ends(69).stderr_has("All requests to `smart` are refused: guard `redact` does not load");
    let unknown = client().get(format!("{}/readyz?model=smurt", server.url())).send().await.unwrap();
    assert_eq!(unknown.status(), 503);
    let unknown = unknown.text().await.unwrap();
    assert!(unknown.contains("the model `smurt` does not exist; did you mean `smart`?"), "{unknown}");
    project.write("filters/redact.rhai", "/*\nsecurity: true\nglobal: false\n*/\nfn inlet(body) { body }");
    server.wait_for_line("requests to all models are accepted again");
    std::fs::remove_file(project.path("filters/redact.rhai")).unwrap();
    server.wait_for_line("All requests to `smart` are refused: guard `redact` is missing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_of_a_client_is_cut_in_lines_and_headers() {
    let host = LoggedHost::start("--format json", "").await;
    let kind = format!("ünknown{}", "a".repeat(100_000));
    let body = json!({"model": "plain", "input": "hi", "store": false, "tools": [{"type": kind}]});
    let request = client().post(format!("{}/v1/responses", host.server.url())).timeout(TIMEOUT);
    let response = request.header("content-type", "application/json").body(body.to_string()).send().await;
    let response = response.unwrap();
    let left_out = response.headers()["x-valvehouse-left-out"].to_str().unwrap();
    assert!(left_out.starts_with("\\u00fcnknowna") && left_out.ends_with("a..."), "{left_out}");
    assert_eq!(left_out.len(), 2_000);
    let line = host.wait_for("left out of a request");
    let message = line["message"].as_str().unwrap();
    assert!(message.contains("ünknowna") && message.len() < 20_000, "{} bytes", message.len());
}
