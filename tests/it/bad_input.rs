//! Bad input of any kind: a clear message in the right place, and everything else keeps working.

use crate::host::{Answer, TestHost, chat_body};
use crate::upstream::{MODEL, Reply};
use serde_json::json;

/// A filter that must keep working next to all bad input.
const GOOD: &str = r#"fn outlet(body) { body.messages[-1].text += " (good)"; body }"#;

async fn undisturbed(host: &TestHost) {
    assert_eq!(host.ask("hi").await.text(), "hello from upstream (good)");
    assert_eq!(host.ready().await["plugins"]["good"], "live");
}

/// Returns the problems of a plugin as an operator reads them: message, place and help.
fn problem_text(host: &TestHost, id: &str) -> String {
    host.problems(id).iter().map(|problem| format!("{problem}\n")).collect()
}

#[tokio::test]
async fn a_wrong_body_for_operators_names_every_wrong_field_with_a_near_miss() {
    let host = TestHost::new().filter("good", GOOD).start().await;
    let cases = [
        (
            "PUT",
            "/api/v1/traces/contents/good",
            json!({"kepe": true}),
            "missing `keep`; unknown field `kepe`; did you mean `keep`?",
            json!("keep"),
        ),
        (
            "POST",
            "/api/v1/agents/prune",
            json!({"whole_run": 1, "runs": "x"}),
            "unknown field `whole_run`; did you mean `whole_runs`?; `runs` must be a whole number, not a string",
            json!("runs"),
        ),
        (
            "POST",
            "/api/v1/agents/clerk/runs",
            json!({"input": 1, "variables": [], "more": {}}),
            "`input` must be a string, not a number; `variables` must be an object, not an array",
            json!("input"),
        ),
        (
            "POST",
            "/api/v1/try",
            json!("x"),
            "invalid request body: must be a JSON object, not a string",
            json!(null),
        ),
        (
            "GET",
            "/api/v1/traces?limit=-1&failed=perhaps",
            json!(null),
            "`limit` must be a whole number from 0; `failed` must be true or false, not a string",
            json!("limit"),
        ),
    ];
    for (method, path, body, message, param) in cases {
        let answer = Answer::of(host.request(method, path).body(body.to_string())).await;
        answer.refused(400, message);
        assert_eq!(answer.json()["error"]["param"], param, "{path}");
    }
    // The other fields of Open WebUI are ignored, and the misspelled field gets a suggestion.
    let update = json!({"contnet": "x", "meta": {}});
    let answer = host.request("POST", "/api/v1/functions/id/good/update").body(update.to_string());
    Answer::of(answer).await.denied(400, "missing `content`; did you mean it by `contnet`?");
    undisturbed(&host).await;
}

#[tokio::test]
async fn a_file_that_is_not_a_script_is_reported_with_the_reason() {
    let two_lines = "fn inlet(body) { body }\nfn outlet(body) { body ";
    let bad: [(&str, &[u8], &str); 14] = [
        ("empty", b"", "the file is empty"),
        ("blank", b" \n\t\n", "the file is empty"),
        ("binary", b"\x7fELF\x00\x01\x02", "NUL bytes"),
        ("latin1", b"fn inlet(body) { // gr\xfc\xdf\n body }", "not UTF-8 text: invalid byte at offset 22"),
        ("huge", &vec![b'/'; 10 * 1024 * 1024], "the file has 10240 KB; it exceeded its limit of 256 KB"),
        ("half", two_lines.as_bytes(), "half.rhai:2:"),
        ("python", b"class Filter:\n    pass", "cannot read Python"),
        ("parameter", b"fn inlet(body, __usr__) { body }", "unknown parameter `__usr__`"),
        ("near", b"fn inlet(body, __usr__) { body }", "did you mean `__user__`"),
        ("requirement", b"/*\nrequirements: htttp\n*/\nfn inlet(body) { body }", "did you mean `http`"),
        (
            "newer",
            b"/*\nrequired_host_version: 99.0.0\n*/\nfn inlet(body) { body }",
            "needs host version 99.0.0",
        ),
        ("computed", b"const Valves = #{ n: 1 + time::unix() };\nfn inlet(body) { body }", "computed"),
        ("valves", b"const Valves = #{ n: #{ value: 1, minimum: 5 } };\nfn inlet(body) { body }", "minimum"),
        ("Wrong Name", b"fn inlet(body) { body }", "invalid plugin id `Wrong Name`"),
    ];
    let mut setup = TestHost::new().filter("good", GOOD);
    for (id, source, _) in bad.iter().filter(|(id, ..)| *id != "half") {
        setup = setup.filter(id, source);
    }
    let host = setup.start().await;
    // One of the bad files is saved while the host runs.
    host.save("half", two_lines);
    host.stands("half", "broken").await;
    for (id, _, expected) in bad {
        let text = problem_text(&host, id);
        assert!(text.contains(expected), "{id}: {expected:?} is not in\n{text}");
        assert!(text.contains(&format!("{id}.rhai")), "the file is named: {text}");
        if id != "Wrong Name" {
            host.stands(id, "broken").await;
        }
    }
    undisturbed(&host).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_unreadable_file_does_not_block_others() {
    let host = TestHost::new().filter("good", GOOD).start().await;
    let path = |id: &str| host.path_of(id);
    // The permissions allow it, even for root, but a read fails.
    std::os::unix::fs::symlink("/proc/self/mem", path("unreadable")).unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all", path("dangling")).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    // The pipe has no writer, so opening it would block forever.
    let made = std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap();
    assert!(made.success());
    std::fs::create_dir(path("folder")).unwrap();
    for id in ["unreadable", "socket", "pipe"] {
        host.stands(id, "broken").await;
    }
    assert!(
        problem_text(&host, "unreadable").contains("cannot read this file"),
        "{}",
        problem_text(&host, "unreadable")
    );
    for id in ["socket", "pipe"] {
        assert!(problem_text(&host, id).contains("not a regular file"), "{}", problem_text(&host, id));
    }
    undisturbed(&host).await;
    drop(socket);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_unlistable_folder_removes_no_filter() {
    let host = TestHost::new().filter("good", GOOD).start().await;
    let generation = host.generation().await;
    let (filters, aside) = (host.folder().join("filters"), host.folder().join("aside"));
    std::fs::rename(&filters, aside).unwrap();
    std::fs::write(&filters, "a file in the folder's place").unwrap();
    crate::host::until("the folder's problem is reported", || async {
        host.app().host.reload().await;
        host.snapshot().problems.iter().any(|problem| problem.message.contains("cannot list this folder"))
    })
    .await;
    assert!(host.generation().await > generation);
    undisturbed(&host).await;
}

#[tokio::test]
async fn two_files_with_one_id_are_reported_and_the_later_path_runs() {
    let host = TestHost::new()
        .filter("good", GOOD)
        .filter("twin", r#"fn inlet(body) { throw "first"; }"#)
        .start()
        .await;
    host.ask("hi").await.refused(400, "first");
    host.save("zz/twin", r#"fn inlet(body) { body.twin = "second"; body }"#);
    crate::host::until("both are reported", || async { host.problems("twin").len() == 2 }).await;
    let text = problem_text(&host, "twin");
    assert!(text.contains("duplicate plugin id `twin`: this file is not used"), "{text}");
    assert!(text.contains("duplicate plugin id `twin`: this file is used"), "{text}");
    undisturbed(&host).await;
    assert_eq!(host.upstream.last().json()["twin"], "second");

    std::fs::remove_file(host.path_of("zz/twin")).unwrap();
    crate::host::until("the first one runs again", || async { host.problems("twin").is_empty() }).await;
    host.ask("hi").await.refused(400, "first");
}

#[tokio::test]
async fn a_valve_of_the_wrong_type_uses_the_default_and_is_reported() {
    let limit = r#"
const Valves = #{ max: #{ value: 4, minimum: 1 }, word: "w" };
const UserValves = #{ bonus: 0 };
fn inlet(body, valves, __user__) { body.seen = [valves.max, valves.word, __user__.valves.bonus]; body }
"#;
    let host = TestHost::new()
        .filter("good", GOOD)
        .filter("limit", limit)
        .config("[filters.limit]\nvalves = { max = \"many\", word = 5, unknown = 1 }")
        .start()
        .await;
    undisturbed(&host).await;
    assert_eq!(host.upstream.last().json()["seen"], json!([4, "w", 0]));
    let text = problem_text(&host, "limit");
    assert!(text.contains("warning") && text.contains("valve `max` must be"), "{text}");
    assert!(text.contains("valve `word` must be a string, not 5; \"w\" is used instead"), "{text}");
    assert!(text.contains("correct it in `[filters.limit] valves` of valvehouse.toml"), "{text}");
    assert!(text.contains("limit.rhai:2:"), "it stands where the valve is declared: {text}");

    host.set_valves("limit", None, json!({"max": 0, "word": ["x"]})).await;
    host.set_valves("limit", Some("ann"), json!({"bonus": "lots"})).await;
    let mut body = chat_body(MODEL, "hi");
    body["user"] = json!("ann");
    assert_eq!(host.chat(&body).await.text(), "hello from upstream (good)");
    assert_eq!(host.upstream.last().json()["seen"], json!([4, "w", 0]));
    assert!(problem_text(&host, "limit").contains("or more, not 0"), "{}", problem_text(&host, "limit"));
}

#[tokio::test]
async fn an_invalid_request_is_rejected_with_the_position() {
    let long = "x".repeat(300);
    let user = r#"[{"role":"user","content":"hi"}]"#;
    let bad: [(String, &str, Option<&str>); 14] = [
        ("".into(), "the request body is not valid JSON", None),
        ("hello".into(), "the request body is not valid JSON", None),
        ("{\"model\":\"mock-1\",".into(), "the request body is not valid JSON", None),
        ("[1,2]".into(), "expected a JSON object, got an array", None),
        ("\"text\"".into(), "expected a JSON object, got a string", None),
        ("{}".into(), "missing model", Some("model")),
        (format!("{{\"messages\":{user}}}"), "missing model", Some("model")),
        (
            format!("{{\"model\":7,\"messages\":{user}}}"),
            "invalid model: expected the name of a model, got a number",
            Some("model"),
        ),
        ("{\"model\":\"mock-1\"}".into(), "missing messages", Some("messages")),
        (
            "{\"model\":\"mock-1\",\"messages\":\"hi\"}".into(),
            "expected an array of messages, got a string",
            Some("messages"),
        ),
        (
            "{\"model\":\"mock-1\",\"messages\":{}}".into(),
            "invalid messages: expected an array of messages, got an object",
            Some("messages"),
        ),
        (
            "{\"model\":\"mock-1\",\"messages\":[]}".into(),
            "invalid messages: expected at least one message",
            Some("messages"),
        ),
        (
            "{\"model\":\"mock-1\",\"messages\":[{\"content\":1}]}".into(),
            "messages[0].role",
            Some("messages"),
        ),
        (format!("{}{}", "[".repeat(100_000), long), "not valid JSON", None),
    ];
    let host = TestHost::new().filter("good", GOOD).start().await;
    for (body, expected, param) in bad {
        let answer = host.post(body.clone()).await;
        answer.refused(400, expected);
        assert_eq!(answer.error()["type"], "invalid_request_error");
        assert_eq!(answer.error()["param"].as_str(), param, "{}", answer.body());
    }
    assert!(host.upstream.requests().is_empty());
    undisturbed(&host).await;
}

#[tokio::test]
async fn a_request_that_is_not_utf_8_is_rejected() {
    let host = TestHost::new().filter("good", GOOD).start().await;
    host.post(b"{\"model\":\"mock-1\",\"messages\":\"\xff\xfe\"}".to_vec())
        .await
        .refused(400, "not valid JSON");
    host.post(vec![0_u8; 1000]).await.refused(400, "not valid JSON");
    undisturbed(&host).await;
}

#[tokio::test]
async fn a_body_over_the_size_limit_is_rejected() {
    let host = TestHost::new().filter("good", GOOD).start().await;
    let answer = host.chat(&chat_body(MODEL, &"x".repeat(50 << 20))).await;
    answer.refused(413, "the request body exceeded its limit of 32 MB");
    assert_eq!(answer.error()["code"], "request_too_large");
    // The limit applies without a declared length as well.
    let pieces = (0..50).map(|_| Ok::<_, std::io::Error>(vec![b' '; 1 << 20]));
    let endless = reqwest::Body::wrap_stream(futures::stream::iter(pieces));
    host.post(endless).await.refused(413, "limit of 32 MB");

    let large = "y".repeat(8 << 20);
    assert_eq!(host.ask(&large).await.text(), "hello from upstream (good)");
    assert_eq!(host.upstream.last().last_text().len(), large.len());
    undisturbed(&host).await;
}

#[tokio::test]
async fn an_unknown_model_is_a_404_with_the_nearest_name() {
    let host = TestHost::new()
        .config("[[models]]\nname = \"assistant\"\nprovider = \"mock\"")
        .config("[[providers]]\nname = \"second\"\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\nmodels = \"*\"")
        .start()
        .await;
    for (name, expected) in
        [("asistant", "did you mean `assistant`?"), ("zzz", "the models are demo, assistant")]
    {
        let answer = host.chat(&chat_body(name, "hi")).await;
        answer.refused(404, &format!("the model `{name}` does not exist"));
        answer.refused(404, expected);
        let error = answer.error();
        assert_eq!((&error["code"], &error["param"]), (&json!("model_not_found"), &json!("model")));
    }
    host.get("/v1/models/asistant").await.refused(404, "did you mean `assistant`?");
    assert_eq!(host.chat(&chat_body("mock/anything", "hi")).await.text(), "hello from upstream");
}

#[tokio::test]
async fn wrong_methods_and_routes_are_reported() {
    let host = TestHost::new().start().await;
    host.get("/v1/chat/completions").await.refused(405, "/v1/chat/completions does not support GET");
    let deleted = Answer::of(host.request("DELETE", "/v1/models")).await;
    deleted.refused(405, "/v1/models does not support DELETE");
    host.get("/v1/chat/completion").await.refused(404, "unknown route GET /v1/chat/completion");
    let posted = Answer::of(host.request("POST", "/v2/nowhere").body("x")).await;
    posted.refused(404, "unknown route POST /v2/nowhere");
}

#[tokio::test]
async fn a_wrong_question_id_and_a_wrong_answer_are_distinguished() {
    let host = TestHost::new().start().await;
    let answer = |body: &'static str| Answer::of(host.request("POST", "/api/v1/questions/none").body(body));
    answer("true").await.refused(404, "unknown question");
    answer("{").await.refused(400, "the answer is not valid JSON");
}

#[tokio::test]
async fn a_forbidden_hook_operation_fails_only_its_request() {
    let bad = r#"
fn inlet(body) {
    switch body.messages[-1].text {
        "number" => 5,
        "messages" => { body.messages = "gone"; body }
        "loop" => { while true {} }
        "deep" => { [1][9] }
        "self" => { body.own = body; body }
        _ => body
    }
}
"#;
    // Each error keeps its own message, after the fifth failure too.
    let config = "[breaker]\nfailure_threshold = 0\n";
    let host = TestHost::new().config(config).filter("good", GOOD).filter("bad", bad).start().await;
    for text in ["number", "messages", "loop", "deep", "self"] {
        let answer = host.ask(text).await;
        answer.refused(500, "the plugin `bad` failed in its inlet");
        assert_eq!(answer.error()["code"], "plugin_failed");
    }
    assert!(host.upstream.requests().is_empty());
    undisturbed(&host).await;
}

#[tokio::test]
async fn a_filter_with_on_error_continue_is_skipped_on_failure() {
    let bad = "/*\non_error: continue\n*/\nfn inlet(body) { body.messages = []; body.x = 1; let y = 1; y.none(); }\nfn outlet(body) { throw \"no\"; }";
    let host = TestHost::new().filter("good", GOOD).filter("bad", bad).start().await;
    undisturbed(&host).await;
    assert_eq!(host.upstream.last().text(), chat_body(MODEL, "hi").to_string(), "as it was before the hook");
}

#[tokio::test]
async fn an_invalid_service_response_is_a_502() {
    let host = TestHost::new().filter("good", GOOD).start().await;
    for (reply, expected) in [
        (Reply::raw("text/html", "<html>hello</html>"), "check base_url"),
        (Reply::raw("application/json", "[]"), "without `choices`"),
        (Reply::raw("application/json", "nope"), "not valid JSON"),
        (Reply::raw("text/event-stream", "data: nope\n\n"), "not valid JSON"),
    ] {
        host.upstream.reply(reply);
        for answer in [host.ask("hi").await, host.stream("hi").await] {
            answer.refused(502, expected);
        }
    }
}

#[tokio::test]
async fn an_event_that_is_not_an_object_ends_its_answer() {
    let host = TestHost::new().filter("good", GOOD).start().await;
    for event in [
        "5",
        "null",
        "\"secret\"",
        "[\"secret\"]",
        "[{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"secret\"}}]}]",
    ] {
        host.upstream
            .reply(Reply::begun(["fine"]).then(format!("data: {event}\n\n")).then("data: [DONE]\n\n"));
        let streamed = host.stream("hi").await;
        assert!(
            streamed.body().contains("an event that is not a JSON object"),
            "{event}: {}",
            streamed.body()
        );
        for answer in [streamed, host.ask("hi").await] {
            assert!(!answer.body().contains("secret"), "{event}: {}", answer.body());
        }
    }
}
