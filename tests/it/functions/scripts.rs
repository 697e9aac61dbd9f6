//! Functions that are created, read, changed, toggled and deleted.

use super::{BROKEN, SHOUTS, filter_with_answer, new};
use crate::host::TestHost;
use serde_json::{Value, json};

#[tokio::test]
async fn a_created_function_is_live_when_the_response_arrives() {
    let host = TestHost::new().start().await;
    let made = host.api_post("/create", &new("shouts", SHOUTS)).await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream hi");
    assert_eq!(std::fs::read_to_string(host.path_of("shouts")).unwrap(), SHOUTS);
    let function = host.api_get("/id/shouts").await;
    assert_eq!(function, made);
    for (key, value) in [
        ("id", json!("shouts")),
        ("user_id", json!("")),
        ("name", json!("Shouts")),
        ("type", json!("filter")),
        ("kind", json!("filter")),
        ("content", json!(SHOUTS)),
        ("is_active", json!(true)),
        ("is_global", json!(true)),
        ("state", json!("live")),
        ("problems", json!([])),
    ] {
        assert_eq!(function[key], value, "{key}");
    }
    assert_eq!(function["meta"]["description"], "Puts a word behind each answer.");
    assert_eq!(function["meta"]["manifest"]["author"], "Ann");
    assert_eq!(function["meta"]["toggle"], false);
    assert!(function["created_at"].as_i64().unwrap() > 1_700_000_000 && function["updated_at"].is_i64());
}

#[tokio::test]
async fn all_functions_are_listed_and_exported_without_their_secrets() {
    let tool = "fn handler(args) { 1 }";
    let host = TestHost::new().filter("shouts", SHOUTS).tool("counts", tool).start().await;
    host.api_post("/id/shouts/valves/update", &json!({"token": "canary-1", "times": 2})).await;
    for path in ["", "/", "/list"] {
        let all = host.api_get(path).await;
        let ids: Vec<&Value> = all.as_array().unwrap().iter().map(|one| &one["id"]).collect();
        assert_eq!(ids, [&json!("counts"), &json!("shouts")]);
        assert_eq!((&all[0]["type"], &all[0]["content"]), (&json!("tool"), &Value::Null));
    }
    let all = host.api_get("/export").await;
    assert_eq!((&all[0]["content"], &all[1]["valves"]), (&json!(tool), &Value::Null));
    let all = host.api_get("/export?include_valves=true").await;
    assert_eq!(all[1]["valves"], json!({"token": "********", "times": 2}));
}

#[tokio::test]
async fn an_update_is_live_at_its_response_and_keeps_path_and_mode_of_the_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let host = TestHost::new().filter("shouts", filter_with_answer("one")).start().await;
    let deep = host.folder().join("filters/team/deep.rhai");
    std::fs::create_dir_all(deep.parent().unwrap()).unwrap();
    std::fs::write(&deep, filter_with_answer("deep")).unwrap();
    host.stands("deep", "live").await;
    std::fs::set_permissions(&deep, std::fs::Permissions::from_mode(0o640)).unwrap();
    host.api_post("/id/deep/update", &json!({"content": "fn inlet(body) { body }"})).await;
    assert_eq!(std::fs::read_to_string(&deep).unwrap(), "fn inlet(body) { body }");
    assert_eq!(std::fs::metadata(&deep).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(!host.path_of("deep").exists());
    let function = host.api_post("/id/shouts/update", &json!({"content": filter_with_answer("two")})).await;
    assert_eq!(function["content"], filter_with_answer("two"));
    assert_eq!(host.ask("x").await.text(), "two");
    let left: Vec<_> = std::fs::read_dir(deep.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing is left beside it");
}

#[tokio::test]
async fn an_invalid_function_is_rejected_with_all_problems_and_positions() {
    let host = TestHost::new().filter("shouts", filter_with_answer("one")).start().await;
    let refusal = host.api("POST", "/id/shouts/update", &json!({"content": BROKEN})).await;
    let refusal = refusal.denied(422, "filters/shouts.rhai:2:14");
    assert!(refusal["detail"].as_str().unwrap().contains("^"), "with a caret: {refusal}");
    let problem = &refusal["problems"][0];
    assert_eq!((&problem["line"], &problem["column"]), (&json!(2), &json!(14)), "{refusal}");
    assert_eq!(
        (&problem["place"], &problem["excerpt"]),
        (&json!("filters/shouts.rhai:2:14"), &json!("    body.x = ;"))
    );
    let grants = "/*\nrequirements: shell\n*/\nfn inlet(body) { shell::run([\"ls\"]); body }";
    let refusal =
        host.api("POST", "/create", &new("lists", grants)).await.denied(422, "valvehouse grant lists");
    assert_eq!(refusal["problems"].as_array().unwrap().len(), 1, "{refusal}");
    let two = "/*\nglobal: perhaps\nrequirements: magic\n*/\nfn inlet(body) { body }";
    let refusal = host.api("POST", "/create", &new("two", two)).await.denied(422, "nothing was changed");
    assert_eq!(refusal["problems"].as_array().unwrap().len(), 2, "{refusal}");
    assert_eq!(host.ask("x").await.text(), "one");
    assert_eq!(std::fs::read_to_string(host.path_of("shouts")).unwrap(), filter_with_answer("one"));
    assert!(!host.path_of("lists").exists() && !host.path_of("two").exists());
    assert_eq!(host.api_history("shouts").await.len(), 1);
}

#[tokio::test]
async fn a_draft_is_checked_with_fixes_and_completed_without_being_stored() {
    let host = TestHost::new().filter("shouts", SHOUTS).script(
        "filters",
        "lib/words",
        "/// Greets.\nfn greet(name) { name }",
    );
    let host = host.start().await;
    let checked = host
        .api_post("/check", &json!({"content": "fn inlet(body) {\n    text::truncat(body, 1);\n    body\n}"}))
        .await;
    let problem = &checked[0];
    assert_eq!(
        (&problem["line"], &problem["column"], &problem["severity"]),
        (&json!(2), &json!(11), &json!("error"))
    );
    assert_eq!(problem["fix"]["edits"], json!([{"from": 27, "to": 34, "text": "truncate"}]), "{checked}");
    let good = json!({"content": filter_with_answer("one"), "id": "shouts"});
    assert_eq!(host.api_post("/check", &good).await, json!([]));
    host.api("POST", "/check", &json!({"content": "", "id": "none"})).await.denied(404, "unknown plugin");
    assert!(!host.path_of("draft").exists());

    let complete = async |content: &str| {
        let at = content.chars().count();
        host.api_post("/complete", &json!({"content": content, "at": at, "type": "filter"})).await
    };
    let found = complete("// für ä\nfn inlet(body) {\n    text::trun").await;
    assert_eq!(found[0]["label"], "truncate", "{found}");
    assert!(found[0]["detail"].as_str().unwrap().contains("truncate(") && found[0]["doc"] != "", "{found}");
    let found = complete("import \"lib/words\" as words;\nfn inlet(body) {\n    words::").await;
    assert_eq!((&found[0]["label"], &found[0]["doc"]), (&json!("greet"), &json!("Greets.")), "{found}");
    assert!(complete("fn inlet(body) {\n    ").await.as_array().unwrap().len() <= 60);
    let long = json!({"content": " ".repeat(300 * 1024), "at": 0});
    host.api("POST", "/complete", &long).await.denied(400, "256 KiB");
}

#[tokio::test]
async fn an_update_that_conflicts_with_stored_valves_is_rejected() {
    let host = TestHost::new().filter("shouts", SHOUTS).start().await;
    host.api_post("/id/shouts/valves/update", &json!({"times": 3, "token": "canary-2"})).await;
    let less = SHOUTS.replace("maximum: 3", "maximum: 2");
    let refusal = host.api("POST", "/id/shouts/update", &json!({"content": less})).await;
    let refusal = refusal.denied(422, "valves reset shouts times");
    assert_eq!(refusal["problems"][0]["line"], 9, "{refusal}");
    host.api_post("/id/shouts/valves/update", &json!({"times": 2})).await;
    host.api_post("/id/shouts/update", &json!({"content": less})).await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream hi hi");
}

#[tokio::test]
async fn invalid_requests_are_refused_with_the_reason() {
    let host =
        TestHost::new().filter("shouts", SHOUTS).tool("counts", "fn handler(args) { 1 }").start().await;
    for id in ["", "Shouts", "../shouts", "a b", "ü", "a.b", "_a\n"] {
        host.api("POST", "/create", &new(id, SHOUTS)).await.denied(400, "invalid id");
    }
    host.api("POST", "/create", &new("shouts", SHOUTS)).await.denied(409, "is taken");
    host.api("POST", "/create", &new("counts", SHOUTS)).await.denied(409, "share one set of ids");
    host.api("POST", "/create", &json!({"id": "a"})).await.denied(400, "missing `content`");
    host.api("POST", "/create", &json!({"content": "x"})).await.denied(400, "missing `id`");
    host.api("POST", "/create", &json!({"id": 1, "content": "x"})).await.denied(400, "must be a string");
    host.api("POST", "/create", &json!([1])).await.denied(400, "a JSON object");
    let pipe = json!({"id": "a", "content": SHOUTS, "type": "pipe"});
    host.api("POST", "/create", &pipe).await.denied(400, "`type` must be `filter`, `tool` or `action`");
    host.api("POST", "/id/shouts/update", &json!({})).await.denied(400, "missing `content`");
    host.api("POST", "/create", &new("empty", " \n")).await.denied(422, "the file is empty");
    let long = format!("{}\n{SHOUTS}", "// long\n".repeat(40_000));
    host.api("POST", "/create", &new("long", &long)).await.denied(422, "its limit of 256 KB");
    for (method, path, body) in [
        ("GET", "/id/shout", Value::Null),
        ("POST", "/id/shout/update", json!({"content": SHOUTS})),
        ("DELETE", "/id/shout/delete", Value::Null),
        ("POST", "/id/shout/toggle", Value::Null),
        ("POST", "/id/shout/toggle/global", Value::Null),
        ("GET", "/id/shout/valves", Value::Null),
        ("GET", "/id/shout/valves/spec", Value::Null),
        ("GET", "/id/shout/valves/effective", Value::Null),
        ("POST", "/id/shout/valves/update", json!({})),
        ("GET", "/id/shout/valves/user?user=ann", Value::Null),
        ("GET", "/id/shout/valves/user/spec", Value::Null),
        ("POST", "/id/shout/valves/user/update?user=ann", json!({})),
        ("GET", "/id/shout/history", Value::Null),
        ("GET", "/id/shout/history/1", Value::Null),
        ("POST", "/id/shout/rollback", json!({"version": 1})),
    ] {
        host.api(method, path, &body).await.denied(404, "shout");
    }
    host.api("GET", "/id/shout", &Value::Null).await.denied(404, "did you mean `shouts`?");
    host.api("GET", "/id/%2e%2e%2fx/valves", &Value::Null).await.denied(404, "unknown plugin `../x`");
    let no_json = host.request("POST", "/api/v1/functions/create").body("{");
    crate::host::Answer::of(no_json).await.denied(400, "not valid JSON");
}

#[tokio::test]
async fn an_update_based_on_an_old_version_is_rejected() {
    let host = TestHost::new().filter("shouts", filter_with_answer("one")).start().await;
    let seen = host.api_get("/id/shouts").await["hash"].as_str().unwrap().to_owned();
    let update = |word: &str, hash: &str| json!({"content": filter_with_answer(word), "expected_hash": hash});
    host.api_post("/id/shouts/update", &update("two", &seen)).await;
    host.api("POST", "/id/shouts/update", &update("three", &seen))
        .await
        .denied(409, "changed since it was read");
    // This includes a change on disk that the host has not noticed yet.
    let seen = host.api_get("/id/shouts").await["hash"].as_str().unwrap().to_owned();
    host.save("shouts", filter_with_answer("by hand"));
    host.api("POST", "/id/shouts/update", &update("four", &seen))
        .await
        .denied(409, "changed since it was read");
    assert_eq!(std::fs::read_to_string(host.path_of("shouts")).unwrap(), filter_with_answer("by hand"));
}

#[tokio::test]
async fn a_manual_save_just_before_an_update_is_not_lost() {
    let host = TestHost::new().filter("shouts", filter_with_answer("one")).start().await;
    host.save("shouts", BROKEN);
    host.api_post("/id/shouts/update", &json!({"content": filter_with_answer("two")})).await;
    assert_eq!(host.api_get("/id/shouts/history/2").await["content"], BROKEN);
    let by = |number: u64, by: &str, action: &str| (number, by.to_owned(), action.to_owned());
    assert_eq!(
        host.api_history("shouts").await,
        [by(3, "local", "update"), by(2, "file", "file"), by(1, "file", "file")]
    );
    host.api("POST", "/id/shouts/rollback", &json!({"version": 2})).await.denied(422, "does not load");
}

#[cfg(unix)]
#[tokio::test]
async fn links_are_written_through_within_the_folder_and_never_out_of_it() {
    use std::os::unix::fs::symlink;
    let host = TestHost::new().filter("plain", filter_with_answer("one")).start().await;
    let outside = tempfile::tempdir().unwrap();
    let (secret, filters) = (outside.path().join("out.rhai"), host.folder().join("filters"));
    std::fs::write(&secret, filter_with_answer("out")).unwrap();
    symlink(&secret, filters.join("leads_out.rhai")).unwrap();
    std::fs::create_dir(filters.join(".kept")).unwrap();
    std::fs::write(filters.join(".kept/real"), filter_with_answer("in")).unwrap();
    symlink(".kept/real", filters.join("linked.rhai")).unwrap();
    symlink(outside.path(), filters.join("folder")).unwrap();
    for id in ["leads_out", "linked", "out"] {
        host.stands(id, "live").await;
    }
    for id in ["leads_out", "out"] {
        let answer = host
            .api("POST", &format!("/id/{id}/update"), &json!({"content": filter_with_answer("two")}))
            .await;
        answer.denied(409, "leads outside");
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), filter_with_answer("out"), "{id}");
    }
    host.api("DELETE", "/id/out/delete", &Value::Null).await.denied(409, "leads outside");
    assert!(secret.exists());
    host.api_post("/id/linked/update", &json!({"content": filter_with_answer("two")})).await;
    assert_eq!(std::fs::read_to_string(filters.join(".kept/real")).unwrap(), filter_with_answer("two"));
    assert!(filters.join("linked.rhai").is_symlink());
    host.api("DELETE", "/id/linked/delete", &Value::Null).await.ok();
    assert!(!filters.join("linked.rhai").is_symlink() && filters.join(".kept/real").exists());
}

#[tokio::test]
async fn a_deleted_function_and_its_valves_are_gone_at_the_response() {
    let host = TestHost::new().filter("shouts", SHOUTS).start().await;
    host.api_post("/id/shouts/valves/update", &json!({"times": 2})).await;
    host.api_post("/id/shouts/toggle/global", &Value::Null).await;
    host.api_post("/id/shouts/toggle/global", &Value::Null).await;
    assert_eq!(host.api("DELETE", "/id/shouts/delete", &Value::Null).await.ok(), json!(true));
    assert_eq!(host.ask("x").await.text(), "hello from upstream");
    assert!(!host.path_of("shouts").exists());
    host.api("GET", "/id/shouts", &Value::Null).await.denied(404, "unknown plugin `shouts`");
    host.api_post("/create", &new("shouts", SHOUTS)).await;
    assert_eq!(host.api_get("/id/shouts/valves").await, json!({}), "a new one begins anew");
}

#[tokio::test]
async fn a_guard_is_deleted_only_on_confirmation_and_without_a_gap() {
    let guard = "/*\nsecurity: true\n*/\nfn inlet(body) { body }";
    let host = TestHost::new().filter("guard", guard).start().await;
    host.api("DELETE", "/id/guard/delete", &Value::Null).await.denied(409, "?confirm=true");
    assert_eq!(host.ask("x").await.status, 200);
    host.api("DELETE", "/id/guard/delete?confirm=true", &Value::Null).await.ok();
    host.stands("guard", "gone").await;
    assert_eq!(host.ask("x").await.status, 200);
    host.api_post("/create", &new("guard", guard)).await;
    host.delete("guard");
    host.stands("guard", "missing").await;
    assert_eq!(host.ask("x").await.status, 503);
    host.api("DELETE", "/id/guard/delete", &Value::Null).await.denied(409, "?confirm=true");
    host.api("DELETE", "/id/guard/delete?confirm=true", &Value::Null).await.ok();
    assert_eq!(host.ask("x").await.status, 200);
}

#[tokio::test]
async fn the_active_and_global_flags_of_a_function_can_be_toggled() {
    let host = TestHost::new().filter("shouts", SHOUTS).start().await;
    let off = host.api_post("/id/shouts/toggle", &Value::Null).await;
    assert_eq!((&off["is_active"], &off["is_global"]), (&json!(false), &json!(true)));
    assert_eq!(host.ask("x").await.text(), "hello from upstream");
    assert_eq!(host.api_post("/id/shouts/toggle", &Value::Null).await["is_active"], true);
    assert_eq!(host.ask("x").await.text(), "hello from upstream hi");
    assert_eq!(host.api_post("/id/shouts/toggle/global", &Value::Null).await["is_global"], false);
    assert_eq!(host.ask("x").await.text(), "hello from upstream");
    let by: Vec<String> = host.api_history("shouts").await.into_iter().map(|(_, _, action)| action).collect();
    assert_eq!(by, ["toggle", "toggle", "toggle", "file"]);
}

#[tokio::test]
async fn a_tool_is_created_updated_and_deleted_like_a_function() {
    let tool = |answer: i64| format!("fn handler(args) {{ {answer} }}");
    let host = TestHost::new().start().await;
    let made = host.api_post("/create", &json!({"id": "counts", "content": tool(1)})).await;
    assert_eq!((&made["type"], &made["meta"]["toggle"]), (&json!("tool"), &json!(false)), "seen by its text");
    assert!(host.folder().join("tools/counts.rhai").exists());
    host.api_post("/id/counts/update", &json!({"content": tool(2)})).await;
    let snapshot = host.snapshot();
    assert_eq!(&*snapshot.plugins["counts"].script.as_ref().unwrap().file.text, tool(2));
    let hook = json!({"content": "fn outlet(body) { body }"});
    host.api("POST", "/id/counts/update", &hook).await.denied(422, "tools/counts.rhai");
    host.api("DELETE", "/id/counts/delete", &Value::Null).await.ok();
    assert!(!host.folder().join("tools/counts.rhai").exists());
}

#[tokio::test]
async fn a_broken_file_is_shown_with_its_text_and_can_be_fixed() {
    let host =
        TestHost::new().filter("shouts", filter_with_answer("one")).filter("never", BROKEN).start().await;
    host.save("shouts", BROKEN);
    host.stands("shouts", "stale").await;
    for (id, state) in [("shouts", "stale"), ("never", "broken")] {
        let function = host.api_get(&format!("/id/{id}")).await;
        assert_eq!((&function["state"], &function["content"]), (&json!(state), &json!(BROKEN)));
        assert_eq!(
            (&function["problems"][0]["line"], &function["problems"][0]["severity"]),
            (&json!(2), &json!("error"))
        );
        host.api_post(&format!("/id/{id}/update"), &json!({"content": filter_with_answer("mended")})).await;
        assert_eq!(host.api_get(&format!("/id/{id}")).await["state"], "live");
    }
    host.save("never", BROKEN);
    host.stands("never", "stale").await;
    host.api("DELETE", "/id/never/delete", &Value::Null).await.ok();
    host.api("GET", "/id/never", &Value::Null).await.denied(404, "never");
}

#[tokio::test]
async fn a_quarantined_version_is_released() {
    let host = TestHost::new().filter("says", filter_with_answer("hi")).start().await;
    host.api("POST", "/id/says/release", &Value::Null)
        .await
        .denied(409, "none of its versions is quarantined");
    host.api("POST", "/id/sais/release", &Value::Null).await.denied(404, "did you mean `says`?");

    let hash = valvehouse::store::hash(&filter_with_answer("hi"));
    let why = "the process crashed with SIGABRT while the plugin ran";
    let list = json!({"quarantined": [{"id": "says", "hash": hash, "at": 0, "why": why}]});
    let state = host.folder().join(".valvehouse");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::write(state.join("quarantine.json"), list.to_string()).unwrap();
    host.api_post("/id/says/toggle/global", &Value::Null).await;
    let function = host.api_get("/id/says").await;
    assert_eq!(function["problems"][0]["code"], "V010", "{function}");

    assert_eq!(host.api_post("/id/says/release", &Value::Null).await, json!(true));
    let function = host.api_get("/id/says").await;
    assert_eq!((&function["state"], &function["problems"]), (&json!("live"), &json!([])), "{function}");
}

#[tokio::test]
async fn no_script_has_the_id_of_a_native_tool_and_uses_its_grants() {
    let text = "/*\nrequirements: files\n*/\nfn inlet(body) { return skip(files::read(\"canary.txt\")); }\n";
    let host = TestHost::new()
        .config("[grants.file_read]\nfiles = [\".\"]\n")
        .filter("file_read", text)
        .tool("shell_exec", "fn handler(args) { 1 }")
        .script("actions", "file_list", "fn action(body) { }")
        .start()
        .await;
    std::fs::write(host.folder().join("canary.txt"), "canary").unwrap();
    assert_eq!(host.ask("x").await.text(), "hello from upstream");
    assert!(host.snapshot().plugins.is_empty());
    let problems: Vec<String> = host.snapshot().problems.iter().map(|one| one.message.clone()).collect();
    for id in ["file_read", "shell_exec", "file_list"] {
        let what = format!("`{id}` is the id of a tool of the host");
        assert!(problems.iter().any(|problem| problem.starts_with(&what)), "{problems:?}");
        for kind in ["filter", "tool", "action"] {
            let new = json!({"id": id, "type": kind, "content": text});
            host.api("POST", "/create", &new).await.denied(409, "is taken by a tool of the host");
        }
    }
}
