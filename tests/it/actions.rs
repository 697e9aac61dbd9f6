//! Buttons under messages: presses over HTTP, lists, reloads and refusals.

use crate::host::{Answer, Setup, TestHost, until};
use crate::well_formed::lines_of;
use serde_json::{Value, json};
use std::time::Duration;

trait Actions {
    fn action(self, id: &str, source: &str) -> Self;
}

impl Actions for Setup {
    /// Adds a file to `actions/` before the start.
    fn action(self, id: &str, source: &str) -> Self {
        self.script("actions", id, source)
    }
}

const SHOUT: &str = "/*
title: Shout
description: Writes the answer in capitals.
*/
fn action(body) { body.messages[-1].text.to_upper() }";

fn body_of(text: &str) -> Value {
    json!({
        "model": "demo", "chat_id": "c1", "session_id": "s1", "id": "m2",
        "messages": [{"role": "user", "content": "hi"}, {"id": "m2", "role": "assistant", "content": text}],
    })
}

async fn press_with(host: &TestHost, button: &str, body: &Value) -> Answer {
    Answer::of(host.request("POST", &format!("/api/chat/actions/{button}")).body(body.to_string())).await
}

async fn press(host: &TestHost, button: &str) -> Answer {
    press_with(host, button, &body_of("an answer")).await
}

fn save(host: &TestHost, id: &str, source: &str) {
    let folder = host.folder().join("actions");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{id}.rhai")), source).unwrap();
}

/// Returns the ids of the buttons under the responses of a model.
async fn buttons(host: &TestHost, model: &str) -> Vec<String> {
    let list = host.get("/v1/models").await.ok();
    let models = list["data"].as_array().unwrap();
    let model =
        models.iter().find(|one| one["id"] == model).unwrap_or_else(|| panic!("no {model} in {list}"));
    let listed = model["actions"].as_array().into_iter().flatten();
    listed.map(|button| button["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_result_replaces_only_the_message() {
    let host = TestHost::new()
        .action("shout", SHOUT)
        .action("silent", "fn action(body) { body.messages[-1].text = \"changed, not returned\"; }")
        .action("own", "fn action(body) { #{ content: \"x\", messages: [], files: [1] } }")
        .start()
        .await;
    let message = json!([{"id": "m2", "role": "assistant", "content": "AN ANSWER"}]);
    let replaced = json!({"content": "AN ANSWER", "messages": message});
    assert_eq!(press(&host, "shout").await.ok(), replaced);
    let versioned = host.request("POST", "/v1/api/chat/actions/shout").body(body_of("an answer").to_string());
    assert_eq!(Answer::of(versioned).await.ok(), replaced);
    assert_eq!(press(&host, "silent").await.ok(), Value::Null);
    assert_eq!(press(&host, "own").await.ok(), json!({"content": "x", "messages": [], "files": [1]}));
    let mut nameless = body_of("a");
    nameless.as_object_mut().unwrap().remove("id");
    assert_eq!(press_with(&host, "shout", &nameless).await.ok(), json!({"content": "A"}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn models_list_their_action_buttons_in_order() {
    let several = "/*
global: false
icon_url: https://example.com/i.svg
*/
const Valves = #{ priority: -5 };
const actions = [#{ id: \"short\", name: \"Shorten\" }, #{ id: \"long\", icon_url: \"https://example.com/l.svg\" }];
fn action(body, __action_id__, __id__) { `${__action_id__} ${__id__}` }";
    let host = TestHost::new()
        .action("shout", SHOUT)
        .action("b", "const Valves = #{ priority: -9 };\nfn action(body) {}")
        .action("edit", several)
        .config("[[models]]\nname = \"other\"\nprovider = \"demo\"\nmodel = \"demo\"\nactions = [\"edit\"]")
        .start()
        .await;
    assert_eq!(buttons(&host, "demo").await, ["b", "shout"]);
    assert_eq!(buttons(&host, "other").await, ["b", "edit.short", "edit.long", "shout"]);
    let one = host.get("/v1/models/other").await.ok()["actions"].clone();
    let described =
        |id: &str, name: &str, icon: &str| json!({"id": id, "name": name, "description": "", "icon": icon});
    assert_eq!(one[1], described("edit.short", "Shorten", "https://example.com/i.svg"));
    assert_eq!(one[2], described("edit.long", "edit (long)", "https://example.com/l.svg"));
    press(&host, "edit.short").await.denied(404, "the model `demo` does not list it");
    let mut body = body_of("x");
    body["model"] = "other".into();
    assert_eq!(press_with(&host, "edit.long", &body).await.ok()["content"], "long long");
    press_with(&host, "edit", &body).await.denied(404, "the buttons of `edit` are edit.short, edit.long");
    let explained = host.snapshot().action_parts("demo");
    let reasons: Vec<(&str, bool)> = explained.iter().map(|part| (&*part.plugin.id, part.shown)).collect();
    assert_eq!(reasons, [("b", true), ("edit", false), ("shout", true)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_without_actions_lists_models_as_before() {
    let host = TestHost::new().start().await;
    let list = host.get("/v1/models").await.ok();
    assert!(list["data"][0].get("actions").is_none(), "{list}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn action_events_arrive_in_a_header_or_live_and_questions_can_be_answered() {
    let asks = "fn action(body, __event_emitter__, __event_call__) {
        __event_emitter__.call(#{ type: \"status\", data: #{ description: \"asking\", done: false } });
        let name = __event_call__.call(#{ type: \"input\", data: #{ title: \"Who?\" }, timeout: 20_000 });
        `hello ${name}`
    }";
    let host = TestHost::new()
        .action("asks", asks)
        .action("tells", "fn action(body) { emit(#{ type: \"status\", data: #{ description: \"done\" } }); }")
        .action("refuses", "fn action(body) { deny(\"not you\", 403); }")
        .start()
        .await;
    let press_answer = press(&host, "tells").await;
    let events: Value = serde_json::from_str(press_answer.header("x-valvehouse-events").unwrap()).unwrap();
    assert_eq!(events, json!([{"type": "status", "data": {"description": "done"}}]));
    // Without a stream, the client cannot answer a question.
    press(&host, "asks").await.denied(400, "send \"stream\": true");
    let mut body = body_of("x");
    body["stream"] = true.into();
    let asking = host.request("POST", "/api/chat/actions/asks").body(body.to_string());
    let mut response = asking.send().await.unwrap();
    let (mut text, mut answered) = (String::new(), false);
    while let Some(bytes) = response.chunk().await.unwrap() {
        text.push_str(std::str::from_utf8(&bytes).unwrap());
        let events =
            text.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
        let question = events.filter_map(|event| event["event"]["id"].as_str().map(str::to_owned)).next();
        if let Some(id) = question.filter(|_| !std::mem::replace(&mut answered, true)) {
            let answer = host.request("POST", &format!("/api/v1/questions/{id}")).body("\"Ann\"");
            assert!(answer.send().await.unwrap().status().is_success());
        }
    }
    let events = lines_of(&text);
    assert_eq!(events[0]["event"]["data"]["description"], "asking");
    assert_eq!(events.last().unwrap()["result"]["content"], "hello Ann");
    // A failure before the first event has an error status.
    let refused = press_with(&host, "refuses", &body).await;
    assert!(!refused.is_stream());
    refused.denied(403, "not you");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_is_a_turn_with_its_own_trace_and_metrics() {
    let host = TestHost::new()
        .action("shout", SHOUT)
        .action("faulty", "fn action(body) { body.messages[7].text }")
        .start()
        .await;
    let answer = press(&host, "shout").await;
    let id = answer.header("x-valvehouse-trace").unwrap();
    let trace = host.get(&format!("/api/v1/traces/{id}")).await.ok();
    assert_eq!(
        (&trace["endpoint"], &trace["model"], &trace["chat_id"]),
        (&json!("actions"), &json!("demo"), &json!("c1"))
    );
    assert_eq!(
        (&trace["steps"][0]["plugin"], &trace["steps"][0]["hook"]),
        (&json!("shout"), &json!("action"))
    );
    let broken = press(&host, "faulty").await;
    broken.denied(500, "the plugin `faulty` failed in its action");
    let id = broken.header("x-valvehouse-trace").unwrap();
    let trace = host.get(&format!("/api/v1/traces/{id}")).await.ok();
    assert_eq!((&trace["status"], &trace["steps"][0]["outcome"]), (&json!(500), &json!("failed")));
    let metrics = host.get("/metrics").await;
    let has = |line: &str| assert!(metrics.body().contains(line), "{line} is not in\n{}", metrics.body());
    has("valvehouse_http_requests_total{endpoint=\"actions\",status=\"2xx\"} 1");
    has("valvehouse_plugins{kind=\"action\",state=\"live\"} 2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_calls_a_model_through_its_filters() {
    let asks = "/*\nrequirements: llm\n*/\nfn action(body) {
        llm::chat(#{ model: body.model, messages: [#{ role: \"user\", content: \"shorter\" }] }).content
    }";
    let host = TestHost::new()
        .action("asks", asks)
        .filter("marks", "fn inlet(body) { body.messages[-1].text += \" (marked)\"; body }")
        .start()
        .await;
    let content = press(&host, "asks").await.ok()["content"].to_string();
    assert!(content.contains("shorter (marked)"), "{content}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_action_file_keeps_its_last_good_version_until_it_is_fixed() {
    let host = TestHost::new().action("shout", SHOUT).start().await;
    save(&host, "shout", "fn action(body) { ");
    host.stands("shout", "stale").await;
    assert_eq!(press(&host, "shout").await.ok()["content"], "AN ANSWER");
    assert_eq!(buttons(&host, "demo").await, ["shout"]);
    let generation = host.generation().await;
    save(&host, "shout", "fn action(body) { \"new\" }");
    host.live_after(generation, "shout").await;
    assert_eq!(press(&host, "shout").await.ok()["content"], "new");
    std::fs::remove_file(host.folder().join("actions/shout.rhai")).unwrap();
    host.stands("shout", "gone").await;
    press(&host, "shout").await.denied(404, "unknown action `shout`");
    assert!(buttons(&host, "demo").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_action_keeps_its_version_during_a_reload() {
    let waits = "fn action(body) {
        emit(#{ type: \"status\", data: #{ description: \"begun\" } });
        ask(#{ type: \"confirmation\", data: #{ title: \"Go on?\" }, timeout: 20_000 });
        \"old\"
    }";
    let host = TestHost::new().action("waits", waits).start().await;
    let mut body = body_of("x");
    body["stream"] = true.into();
    let pressed = host.request("POST", "/api/chat/actions/waits").body(body.to_string());
    let mut response = pressed.send().await.unwrap();
    let mut text = String::new();
    let question = loop {
        text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
        let events =
            text.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
        if let Some(id) = events.filter_map(|event| event["event"]["id"].as_str().map(str::to_owned)).next() {
            break id;
        }
    };
    let generation = host.generation().await;
    save(&host, "waits", "fn action(body) { \"new\" }");
    host.live_after(generation, "waits").await;
    assert_eq!(press(&host, "waits").await.ok()["content"], "new");
    let answer = host.request("POST", &format!("/api/v1/questions/{question}")).body("true");
    assert!(answer.send().await.unwrap().status().is_success());
    while let Some(bytes) = response.chunk().await.unwrap() {
        text.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    assert_eq!(lines_of(&text).last().unwrap()["result"]["content"], "old");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_or_abandoned_action_is_stopped() {
    let host = TestHost::new()
        .action("sleeps", "/*\ntimeout: 300\n*/\nfn action(body) { time::sleep(60_000); }")
        .action("spins", "fn action(body) { loop { body.n = 1; } }")
        .action(
            "left",
            "fn action(body) { emit(#{ type: \"status\", data: #{} }); loop { time::sleep(20); } }",
        )
        .config("[actions.spins]\nbudget = { operations = 100000 }")
        .start()
        .await;
    press(&host, "sleeps").await.denied(500, "failed in its action");
    press(&host, "spins").await.denied(500, "failed in its action");
    let mut body = body_of("x");
    body["stream"] = true.into();
    let pressed = host.request("POST", "/api/chat/actions/left").body(body.to_string());
    let mut response = pressed.send().await.unwrap();
    response.chunk().await.unwrap();
    drop(response);
    until("the press is over", || async {
        let traces = host.get("/api/v1/traces").await.ok();
        traces["live"].as_array().unwrap().is_empty()
    })
    .await;
    // A press that is not streamed ends with its connection.
    let pressed = host.request("POST", "/api/chat/actions/left").body(body_of("x").to_string());
    assert!(pressed.timeout(Duration::from_millis(300)).send().await.is_err());
    until("the press is over", || async {
        let traces = host.get("/api/v1/traces").await.ok();
        traces["live"].as_array().unwrap().is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_action_requests_are_rejected_with_the_reason() {
    let host = TestHost::new()
        .action("shout", SHOUT)
        .action("number", "fn action(body) { 7 }")
        .config("[server]\nmax_body_mb = 1")
        .config("[[providers]]\nname = \"second\"\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\nmodels = \"*\"")
        .start()
        .await;
    press(&host, "shuot").await.denied(404, "did you mean `shout`?");
    press(&host, "shout.loud").await.denied(404, "unknown button `shout.loud`");
    press(&host, "demo").await.denied(404, "unknown action");
    press(&host, "number").await.denied(500, "failed in its action");
    for (body, why) in [
        ("[]", "send {"),
        ("{\"model\": \"demo\"}", "send {"),
        ("{", "not valid JSON"),
        ("{\"messages\": []}", "expected at least one message"),
        ("{\"messages\": [7]}", "invalid messages[0]"),
        ("{\"messages\": [{\"content\": \"x\"}]}", "missing messages[0].role"),
    ] {
        let answer = Answer::of(host.request("POST", "/api/chat/actions/shout").body(body)).await;
        answer.denied(400, why);
    }
    let mut other = body_of("x");
    for (model, near) in [("dmeo", "did you mean `demo`?"), ("zzz", "the model `zzz` does not exist")] {
        other["model"] = model.into();
        press_with(&host, "shout", &other).await.denied(404, near);
    }
    // The answer of a model of another service names none of this host.
    for model in [Value::Null, "".into()] {
        other["model"] = model;
        assert_eq!(press_with(&host, "shout", &other).await.ok()["content"], "X");
    }
    other["model"] = 7.into();
    press_with(&host, "shout", &other).await.denied(400, "`model` must be a text");
    press_with(&host, "shout", &body_of(&"x".repeat(2 << 20))).await.denied(413, "1 MB");
    let get = host.get("/api/chat/actions/shout").await;
    assert_eq!(get.status, 405);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actions_require_a_key_and_use_the_valves_of_the_user() {
    let greets = "const UserValves = #{ greeting: \"hello\" };
        fn action(body, __user__) { `${__user__.valves.greeting} ${__user__.id}` }";
    let host = TestHost::new()
        .action("greets", greets)
        .config(
            "[server]\nkeys = [{ key = \"sk-ann\", user = { id = \"ann\" } }, { key = \"sk-bob\", user = { id = \"bob\" } }]\n\
             [admin]\nkey = \"sk-operator\"",
        )
        .start()
        .await;
    host.set_valves("greets", Some("ann"), json!({"greeting": "good day"})).await;
    let press_as = async |key: &str| {
        let mut body = body_of("x");
        // With keys, the user is that of the key.
        body["user"] = json!({"id": "ann"});
        let request = host.request("POST", "/api/chat/actions/greets").body(body.to_string());
        Answer::of(if key.is_empty() { request } else { request.bearer_auth(key) }).await
    };
    press_as("").await.denied(401, "missing API key");
    press_as("sk-eve").await.denied(401, "invalid API key");
    assert_eq!(press_as("sk-ann").await.ok()["content"], "good day ann");
    assert_eq!(press_as("sk-bob").await.ok()["content"], "hello bob");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_user_cannot_answer_a_question_of_an_action() {
    let asks = "fn action(body) { `${ask(#{ type: \"input\", data: #{}, timeout: 20_000 })}` }";
    let host = TestHost::new()
        .action("asks", asks)
        .config("[server]\nkeys = [{ key = \"sk-ann\", user = { id = \"ann\" } }, { key = \"sk-bob\", user = { id = \"bob\" } }]")
        .start()
        .await;
    let mut body = body_of("x");
    body["stream"] = true.into();
    let pressed = host.request("POST", "/api/chat/actions/asks").bearer_auth("sk-ann").body(body.to_string());
    let mut response = pressed.send().await.unwrap();
    let first = response.chunk().await.unwrap().unwrap();
    let event: Value =
        serde_json::from_str(std::str::from_utf8(&first).unwrap().trim().strip_prefix("data: ").unwrap())
            .unwrap();
    let path = format!("/api/v1/questions/{}", event["event"]["id"].as_str().unwrap());
    let answer = async |key: &str| {
        let request = host.request("POST", &path).bearer_auth(key).body(format!("\"{key}\""));
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(answer("sk-bob").await, 404);
    assert_eq!(answer("sk-ann").await, 200);
    let mut text = String::from_utf8(first.to_vec()).unwrap();
    while let Some(bytes) = response.chunk().await.unwrap() {
        text.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    assert_eq!(lines_of(&text).last().unwrap()["result"]["content"], "sk-ann");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_in_the_wrong_folder_name_the_right_one_and_all_kinds_share_ids() {
    let host = TestHost::new()
        .filter("press", "fn action(body) { \"x\" }")
        .filter("both", "fn inlet(body) { body }\nfn action(body) { \"x\" }")
        .filter("shout", "fn inlet(body) { body }")
        .tool("tool", "fn action(body) { \"x\" }")
        .action("hook", "fn inlet(body) { body }")
        .action("handler", "fn handler(args) { args }")
        .action("shout", SHOUT)
        .action("wrong", "const actions = [#{ id: \"a b\" }];\nfn action(body) {}")
        .action("more", "fn action(body, __action__) {}")
        .config("[[models]]\nname = \"other\"\nprovider = \"demo\"\nmodel = \"demo\"\nactions = [\"shuot\"]")
        .start()
        .await;
    let problem_text = |id: &str| {
        let problems = host.problems(id);
        let problem_text =
            problems.iter().map(|problem| format!("{problem} {}", problem.help.clone().unwrap_or_default()));
        problem_text.collect::<Vec<_>>().join("\n")
    };
    for (id, what) in [
        ("press", "move the file to actions/"),
        ("both", "move the function to a file in actions/"),
        ("tool", "move the file to actions/"),
        ("hook", "move the file to filters/"),
        ("handler", "move the file to tools/"),
        ("wrong", "invalid id \"a b\""),
        ("more", "__action_id__"),
    ] {
        assert!(problem_text(id).contains(what), "{id}: {what:?} is not in {:?}", problem_text(id));
    }
    host.stands("press", "broken").await;
    host.stands("both", "live").await;
    let of_files: Vec<String> = host.snapshot().problems.iter().map(ToString::to_string).collect();
    let of_files = of_files.join("\n");
    assert!(of_files.contains("`shout` is the id of a filter; this action is not used"), "{of_files}");
    assert!(
        of_files.contains("the model `other` lists the action `shuot`, which does not exist"),
        "{of_files}"
    );
    press(&host, "shout").await.denied(404, "unknown action");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_functions_api_creates_toggles_and_deletes_actions() {
    let host = TestHost::new().start().await;
    let new = json!({"id": "shout", "name": "Shout", "type": "action", "content": SHOUT, "meta": {}});
    assert_eq!(host.api_post("/create", &new).await["type"], "action");
    assert!(host.folder().join("actions/shout.rhai").is_file());
    assert_eq!(press(&host, "shout").await.ok()["content"], "AN ANSWER");
    host.api_post("/id/shout/toggle", &Value::Null).await;
    press(&host, "shout").await.denied(404, "is switched off");
    assert!(buttons(&host, "demo").await.is_empty());
    host.api_post("/id/shout/toggle", &Value::Null).await;
    host.api_post("/id/shout/toggle/global", &Value::Null).await;
    press(&host, "shout").await.denied(404, "is not global");
    let guessed = json!({"id": "guessed", "name": "x", "content": "fn action(body) { \"x\" }", "meta": {}});
    assert_eq!(host.api_post("/create", &guessed).await["type"], "action");
    host.api("DELETE", "/id/guessed/delete", &Value::Null).await.ok();
    assert!(!host.folder().join("actions/guessed.rhai").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_dry_runs_an_action_and_sees_every_step() {
    let host = TestHost::new().action("shout", SHOUT).start().await;
    let mut body = body_of("an answer");
    body["action"] = "shout".into();
    let tried = Answer::of(host.request("POST", "/api/v1/try").body(body.to_string())).await.ok();
    assert_eq!((&tried["status"], &tried["answer"]["content"]), (&json!(200), &json!("AN ANSWER")));
    assert_eq!(tried["trace"]["steps"][0]["hook"], "action");
    let overview = host.get("/api/v1/overview").await.ok();
    assert_eq!(overview["plugins"][0]["buttons"], json!(["shout"]));
    assert_eq!(overview["models"][0]["actions"][0]["name"], "Shout");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_errors_do_not_open_the_breaker_of_an_action() {
    let host = TestHost::new()
        .action("asks", "fn action(body) { `${ask(#{ type: \"input\", data: #{}, timeout: 1 })}` }")
        .action("last", "fn action(body) { body.messages[-1].text + \"!\" }")
        .action("faulty", "fn action(body) { body.messages[7].text }")
        .config("[breaker]\nfailure_threshold = 2")
        .start()
        .await;
    let mut streamed = body_of("x");
    streamed["stream"] = true.into();
    let mut empty = body_of("x");
    empty["messages"] = json!([]);
    for _ in 0..4 {
        press(&host, "asks").await.denied(400, "cannot ask a person: nobody can answer");
        press_with(&host, "last", &empty).await.denied(400, "expected at least one message");
        let late = press_with(&host, "asks", &streamed).await;
        assert!(late.body().contains("no answer within 1 ms"), "{}", late.body());
    }
    assert_eq!(press(&host, "last").await.ok()["content"], "an answer!");
    press(&host, "asks").await.denied(400, "cannot ask a person");
    // Faults of the script count for the breaker.
    for _ in 0..2 {
        press(&host, "faulty").await.denied(500, "the plugin `faulty` failed in its action");
    }
    press(&host, "faulty").await.denied(503, "");
}
