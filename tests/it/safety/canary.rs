//! Puts a unique secret into every place that takes one, sends every request, and checks that no output
//! contains a secret.

use crate::cli::Project;
use crate::host::{TIMEOUT, client};
use crate::upstream::{Reply, Upstream, UpstreamRequest};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

/// The secrets by place; no output may contain them.
const ADMIN: &str = "canary-admin-3f9a1c";
const CHAT: &str = "canary-chat-77e0b2";
const CHAT_IN_FILE: &str = "canary-chatfile-a81d55";
const CHAT_IN_ENV: &str = "canary-chatenv-1b2c3d";
const PROVIDER: &str = "canary-provider-c09e41";
const PROVIDER_IN_FILE: &str = "canary-providerfile-5d2277";
const PROVIDER_IN_ENV: &str = "canary-providerenv-e6f8a9";
const STORE: &str = "canary-store-0a1b2c3d4e5f60718293a4b5";
const VALVE_IN_TOML: &str = "canary-valvetoml-90cc12";
const VALVE_IN_ENV: &str = "canary-valveenv-41aa07";
const VALVE_STORED: &str = "canary-valvestored-d3b7f1";
const VALVE_OF_USER: &str = "canary-valveuser-8e5c60";
const GRANTED: &str = "canary-granted-2f4e6d";
/// An invalid key.
const WRONG: &str = "canary-wrong-6b6b6b";

const ALL: [&str; 14] = [
    ADMIN,
    CHAT,
    CHAT_IN_FILE,
    CHAT_IN_ENV,
    PROVIDER,
    PROVIDER_IN_FILE,
    PROVIDER_IN_ENV,
    STORE,
    VALVE_IN_TOML,
    VALVE_IN_ENV,
    VALVE_STORED,
    VALVE_OF_USER,
    GRANTED,
    WRONG,
];

/// Fails in every way on request.
const WATCHER: &str = r#"/*
title: Watcher
requirements: env, kv
*/
const Valves = #{
    stored: #{ value: "", secret: true, description: "A token" },
    configured: #{ value: "", secret: true },
    from_env: #{ value: "", secret: true },
    limit: #{ value: 3, minimum: 1 },
};
const UserValves = #{ own: #{ value: "", secret: true } };

fn inlet(body, valves, __user__) {
    let granted = env::get("CANARY_GRANTED");
    kv::incr("seen");
    let prompt = body.messages[-1].text;
    if prompt == "prints" { print(`with ${valves.stored}`); log::error(valves.configured); debug(valves); }
    if prompt == "parses" { json::parse(valves.stored); }
    if prompt == "counts" { parse_int(valves.configured); }
    if prompt == "matches" { regex::is_match("x", "(" + valves.from_env); }
    if prompt == "indexes" { body[valves.stored].x.y = 1; }
    if prompt == "throws" { throw `no ${valves.stored}`; }
    if prompt == "bugs" { throw #{ message: valves.configured, status: "none" }; }
    emit(#{ type: "status", data: #{ description: "seen" } });
    body
}
fn stream(event) { event }
fn outlet(body) { body }
"#;

const ACTS: [&str; 7] = ["prints", "parses", "counts", "matches", "indexes", "throws", "bugs"];
/// The service's responses that repeat the received key.
const ECHOES: [&str; 6] = ["json error", "text error", "no json", "stream error", "cut stream", "header"];

fn upstream_says(request: &UpstreamRequest) -> Reply {
    let key =
        ["authorization", "x-api-key"].iter().find_map(|name| request.headers.get(*name)?.to_str().ok());
    let key = key.unwrap_or("no key").to_owned();
    let error = json!({"error": {"message": format!("wrong key: {key}"), "type": "x", "code": key}});
    match request.last_text().as_str() {
        "json error" => Reply::json(&error).status(401),
        "text error" => Reply::raw("text/plain", format!("what is {key}?")).status(500),
        "no json" => Reply::raw("application/json", format!("<html>{key}</html>")),
        "stream error" => Reply::raw("text/event-stream", format!("data: {error}\n\ndata: [DONE]\n\n")),
        "cut stream" => Reply::begun(["well"]).then(format!("data: {key} is not json\n\n")).then_cut(),
        "header" => Reply::json(&error).status(429).header("retry-after", &key),
        _ => Reply::fitting(request, "hello from upstream"),
    }
}

fn project(url: &str) -> Project {
    let provider = |name: &str, key: &str| {
        format!(
            "[[providers]]\nname = \"{name}\"\nkind = \"openai\"\nbase_url = \"{url}\"\napi_key = \"{key}\"\n\
             models = \"*\"\nretry = {{ max_attempts = 1 }}\nbreaker = {{ failure_threshold = 0 }}\n"
        )
    };
    let toml = format!(
        "[server]\nkeys = [{{ key = \"{CHAT}\", user = {{ id = \"ann\" }} }}, \"file:chat.key\", \"env:CANARY_CHAT\"]\n\
         [admin]\nkey = \"{ADMIN}\"\n[store]\nkey = \"file:store.key\"\n\
         {}{}{}\
         [[providers]]\nname = \"demo\"\nkind = \"demo\"\n[[models]]\nname = \"demo\"\nprovider = \"demo\"\n\
         [filters.watcher]\nvalves = {{ configured = \"{VALVE_IN_TOML}\" }}\n\
         [grants.watcher]\nenv = [\"CANARY_GRANTED\"]\n[trace]\ncontents = [\"watcher\"]\n\
         [breaker]\nfailure_threshold = 0\n",
        provider("written", PROVIDER),
        provider("filed", "file:provider.key"),
        provider("named", "env:CANARY_PROVIDER"),
    );
    Project::new()
        .with("valvehouse.toml", &toml)
        .with("chat.key", CHAT_IN_FILE)
        .with("provider.key", PROVIDER_IN_FILE)
        .with("store.key", STORE)
        .filter("watcher", WATCHER)
        .variable("CANARY_CHAT", CHAT_IN_ENV)
        .variable("CANARY_PROVIDER", PROVIDER_IN_ENV)
        .variable("CANARY_GRANTED", GRANTED)
        .variable("VALVEHOUSE__FILTERS__WATCHER__VALVES__FROM_ENV", VALVE_IN_ENV)
        .variable("VALVEHOUSE_LOG", "trace")
}

/// All outputs, with their sources.
#[derive(Default)]
struct Sightings(Vec<(String, Vec<u8>)>);

impl Sightings {
    fn see(&mut self, what: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.push((what.into(), bytes.into()));
    }

    fn command(&mut self, project: &Project, words: &str) {
        let ran = project.run(words);
        self.see(format!("stdout of {words}"), ran.out);
        self.see(format!("stderr of {words}"), ran.talk);
    }

    /// Sends a request and records every part of the response.
    async fn ask(&mut self, request: reqwest::RequestBuilder, what: &str) -> (u16, HeaderMap, Value) {
        let answer =
            request.timeout(TIMEOUT).send().await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let bytes = answer.bytes().await.map(|bytes| bytes.to_vec()).unwrap_or_default();
        for (name, value) in headers.iter().filter(|(name, _)| *name != "set-cookie") {
            self.see(format!("header {name} of {what}"), value.as_bytes());
        }
        self.see(format!("{status} of {what}"), bytes.clone());
        (status, headers, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Returns the outputs that contain a secret.
    fn leaks(&self, secrets: &[&str]) -> Vec<String> {
        let mut leaks = Vec::new();
        for secret in secrets {
            for (what, bytes) in &self.0 {
                if let Some(at) = bytes.windows(secret.len()).position(|window| window == secret.as_bytes()) {
                    let around = &bytes[at.saturating_sub(80)..(at + 80).min(bytes.len())];
                    leaks.push(format!("{secret} in {what}: …{}…", String::from_utf8_lossy(around)));
                }
            }
        }
        leaks
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn secrets_appear_only_where_they_are_stored() {
    let upstream = Upstream::start().await;
    upstream.script(upstream_says);
    let project = project(&upstream.url());
    let mut seen = Sightings::default();
    seen.command(&project, &format!("valves set watcher stored={VALVE_STORED}"));
    seen.command(&project, &format!("valves set watcher own={VALVE_OF_USER} --user ann"));
    let server = project.serve("");
    let (client, url) = (client(), server.url());
    let get = |path: &str| client.get(format!("{url}{path}"));
    let post = |path: &str, body: Value| client.post(format!("{url}{path}")).body(body.to_string());

    let (mut traces, mut responses) = (Vec::new(), Vec::new());
    for prompt in ACTS.iter().chain(&ECHOES).chain(&["hello"]) {
        for (provider, key) in [("written", CHAT), ("filed", CHAT_IN_FILE), ("named", CHAT_IN_ENV)] {
            for stream in [false, true] {
                let body = json!({"model": format!("{provider}/m"), "stream": stream, "max_tokens": 9,
                    "messages": [{"role": "user", "content": prompt}]});
                for path in ["/v1/chat/completions", "/v1/messages"] {
                    let request = post(path, body.clone()).header("x-api-key", key);
                    let what = format!("{path} {prompt} {provider} stream {stream}");
                    let (_, headers, _) =
                        seen.ask(request.header("x-valvehouse-trace", "content"), &what).await;
                    traces.extend(
                        headers.get("x-valvehouse-trace").and_then(|id| id.to_str().ok()).map(str::to_owned),
                    );
                }
                let body = json!({"model": format!("{provider}/m"), "stream": stream, "input": prompt,
                    "include": ["reasoning.encrypted_content"]});
                let request = post("/v1/responses", body).bearer_auth(key);
                let what = format!("/v1/responses {prompt} {provider} stream {stream}");
                let request = request.header("x-valvehouse-trace", "content");
                let (_, headers, answer) = seen.ask(request, &what).await;
                traces.extend(
                    headers.get("x-valvehouse-trace").and_then(|id| id.to_str().ok()).map(str::to_owned),
                );
                responses.extend(answer["id"].as_str().map(|id| (key, id.to_owned())));
            }
        }
    }
    let reached = upstream.requests().iter().filter(|request| request.last_text() == "hello").count();
    assert_eq!(reached, 18, "everything was reached");
    assert!(responses.len() > 2, "responses are stored");
    for (key, id) in responses {
        for path in [format!("/v1/responses/{id}"), format!("/v1/responses/{id}/input_items")] {
            let (status, ..) = seen.ask(get(&path).bearer_auth(key), &path).await;
            assert_eq!(status, 200, "{path}");
        }
        let next = json!({"model": "written/m", "input": "throws", "previous_response_id": id});
        seen.ask(post("/v1/responses", next).bearer_auth(key), "the next response").await;
        let gone = client.delete(format!("{url}/v1/responses/{id}")).bearer_auth(WRONG);
        seen.ask(gone, "the deletion of a response").await;
    }
    for wrong in [post("/v1/chat/completions", json!({})), get("/api/v1/traces"), get("/metrics")] {
        let (status, ..) = seen.ask(wrong.bearer_auth(WRONG), "a wrong key").await;
        assert_eq!(status, 401);
    }

    // Without filters, responses are forwarded unread; none of them contains the key either.
    let bare = self::project(&upstream.url());
    std::fs::remove_file(bare.path("filters/watcher.rhai")).unwrap();
    let unread = bare.serve("");
    for prompt in ECHOES {
        for stream in [false, true] {
            let body = json!({"model": "written/m", "stream": stream, "messages": [{"role": "user", "content": prompt}]});
            let request = client.post(format!("{}/v1/chat/completions", unread.url())).bearer_auth(CHAT);
            seen.ask(request.body(body.to_string()), &format!("unread {prompt} stream {stream}")).await;
        }
    }
    seen.see("the log of unread answers", unread.last_words());

    let (status, headers, session) =
        seen.ask(post("/api/v1/session", json!({"key": ADMIN})), "signing in").await;
    assert_eq!(status, 200);
    let cookie = headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let token = cookie.split_once('=').unwrap().1.to_owned();
    let csrf = session["csrf"].as_str().unwrap().to_owned();
    seen.ask(post("/api/v1/session", json!({"key": WRONG})), "signing in wrongly").await;

    let id = "/api/v1/functions/id/watcher";
    for path in [
        "/",
        "/livez",
        "/readyz",
        "/readyz?verbose",
        "/metrics",
        "/openapi.json",
        "/v1/models",
        "/models",
        "/pipelines",
        "/watcher/valves",
        "/watcher/valves/spec",
        "/v1/watcher/valves",
        "/api/v1/overview",
        "/api/v1/models/demo/chain?user=ann",
        "/api/v1/functions/",
        "/api/v1/functions/list",
        "/api/v1/functions/export",
        "/api/v1/traces",
        "/api/v1/traces/contents",
        "/api/v1/agents",
        "/api/v1/agents/conversations",
        "/api/v1/session",
        "/nowhere",
    ] {
        seen.ask(get(path).header("cookie", &cookie), path).await;
        seen.ask(get(path).bearer_auth(ADMIN), path).await;
    }
    for of in [
        "",
        "/valves",
        "/valves/spec",
        "/valves/effective",
        "/valves/user?user=ann",
        "/valves/user/spec?user=ann",
        "/history",
        "/history/1",
        "/history/2",
        "/history/1?against=current",
    ] {
        seen.ask(get(&format!("{id}{of}")).bearer_auth(ADMIN), of).await;
    }
    for (of, body) in [
        ("/valves/update", json!({"limit": "none"})),
        ("/valves/update", json!({"limit": 2, "stored": VALVE_STORED})),
        ("/valves/update", json!({"limit": 2, "stored": [VALVE_STORED]})),
        ("/valves/user/update?user=ann", json!({"own": {"x": VALVE_OF_USER}})),
        ("/rollback", json!({"version": 1})),
    ] {
        seen.ask(post(&format!("{id}{of}"), body).bearer_auth(ADMIN), of).await;
    }
    for trace in &traces {
        seen.ask(get(&format!("/api/v1/traces/{trace}")).bearer_auth(ADMIN), "a trace").await;
    }
    let tried = json!({"model": "written/m", "text": "json error"});
    seen.ask(post("/api/v1/try", tried).bearer_auth(ADMIN), "a try").await;

    project.write("filters/broken.rhai", "fn inlet(body) { body.x = ; }");
    for words in [
        "list",
        "list --stats",
        "list --format json",
        "valves get watcher",
        "valves get watcher --format json",
        "valves get watcher stored",
        "valves get watcher --user ann",
        "valves spec watcher",
        "valves set watcher limit=none",
        "explain --model demo --user ann",
        "check",
        "grant watcher",
        "runs",
        "trace",
        "history watcher",
        "history watcher 1",
        "chat --model demo hello -v -v",
        "chat --model demo throws -v -v",
        "chat --model written/m json\u{a0}error",
        "list -v -v",
        "--version",
    ] {
        seen.command(&project, words);
    }
    let log = server.last_words();
    assert!(log.contains("with ***"), "the script did print, and what it printed was hidden");
    seen.see("the log", log);
    let mut folders = vec![project.path(".valvehouse")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                seen.see(format!("{}", path.display()), std::fs::read(&path).unwrap());
            }
        }
    }
    let mut leaks = seen.leaks(&ALL);
    leaks.extend(seen.leaks(&[&token]));
    let answers_with_csrf = ["signing in", "/api/v1/session"];
    seen.0.retain(|(what, _)| !answers_with_csrf.iter().any(|of| what.ends_with(of)));
    leaks.extend(seen.leaks(&[&csrf]));
    assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks.join("\n"));
}

#[test]
fn errors_in_settings_do_not_show_their_secrets() {
    for toml in [
        format!("[admin]\nkey = \"{ADMIN}\n"),
        format!("[admin]\nkey = {ADMIN}\n"),
        format!("[admin]\nkey = [\"{ADMIN}\"]\n"),
        format!("[admin]\nkee = \"{ADMIN}\"\n"),
        format!("[admin]\nkey = \"{ADMIN}\" x\n"),
        format!("[server]\nkeys = \"{ADMIN}\"\n"),
        format!("[server]\nkeys = [{{ kee = \"{ADMIN}\" }}]\n"),
        format!("[server]\nkeys = [\"{ADMIN}\", \"{ADMIN}\"]\n"),
        format!("[server]\nkeys = [\"sha256:{ADMIN}\"]\n"),
        format!("[store]\nurl = \"mysql://root:{ADMIN}@db\"\n"),
        format!("[[providers]]\nname = \"x\"\nkind = \"openai\"\napi_key = {{ k = \"{ADMIN}\" }}\n"),
        format!("[[providers]]\nname = \"x\"\nkind = \"openai\"\nbase_url = \"https://u:{ADMIN}@x/v1\"\n"),
        format!("[filters.watcher.valves]\nlimit = \"{ADMIN}\n"),
    ] {
        let project = Project::new().with("valvehouse.toml", &toml);
        for format in ["human", "json"] {
            let ran = project.run(&format!("list -v -v --format {format}")).ends(78);
            assert!(!ran.talk.contains(ADMIN) && !ran.out.contains(ADMIN), "{toml}\n{}", ran.talk);
        }
    }
}
