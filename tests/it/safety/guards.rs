//! The rules for guards: the keys that make a file a guard, the changes that weaken one, and their
//! confirmation.

use super::with;
use crate::host::{Answer, TestHost, chat_body, until};
use crate::upstream::{MODEL, Reply};
use serde_json::json;
use valvehouse::script::Severity;

const GUARD: &str = "/*\nsecurity: true\n*/\nfn inlet(body) { if body.messages[-1].text == \"bad\" { deny(\"guarded\", 403); } body }\nfn pre_invocation(ctx) { ctx }";

#[tokio::test]
async fn a_misspelled_guard_rejects_until_it_is_corrected() {
    for head in ["security: yes", "security: tru", "Security: true", "secuirty: true", "security = true"] {
        let host = TestHost::new().start().await;
        host.save("guard", GUARD.replace("security: true", head));
        host.stands("guard", "broken").await;
        host.ask("good").await.refused(503, "the guard `guard` does not load");
        let problems = host.problems("guard").iter().map(ToString::to_string).collect::<String>();
        assert!(problems.contains("security"), "{problems}");
        host.save("guard", GUARD);
        host.stands("guard", "live").await;
        assert_eq!(host.ask("good").await.text(), "hello from upstream");
        host.ask("bad").await.refused(403, "guarded");
    }
}

#[tokio::test]
async fn a_broken_file_that_becomes_a_guard_rejects_requests() {
    let host = TestHost::new().start().await;
    let broken = |key: &str| format!("/*\n{key}: 1\n*/\nfn inlet(body) {{ this ( is never closed");
    host.save("guard", broken("tag"));
    host.stands("guard", "broken").await;
    assert_eq!(host.ask("good").await.text(), "hello from upstream");
    host.save("guard", broken("security").replace(": 1", ": true"));
    until("it refuses", || async { host.ask("good").await.status == 503 }).await;
}

#[tokio::test]
async fn a_guard_that_never_loaded_is_reported_missing_when_deleted() {
    for source in [
        "/*\nsecurity: true\n*/\nfn inlet(body) {",
        "/*\nsecurity: true\nrequirements: shell\n*/\nfn inlet(body) { shell::run([\"x\"]); body }",
    ] {
        let mut host = TestHost::new().filter("guard", source).start().await;
        host.ask("good").await.refused(503, "does not load");
        host.delete("guard");
        host.stands("guard", "missing").await;
        host.save("other", "fn inlet(body) { body }");
        host.stands("other", "live").await;
        host.ask("good").await.refused(503, "confirm guard");
        host.restart().await;
        host.ask("good").await.refused(503, "confirm guard");
        host.store().confirm_removal("guard", "test").await.unwrap();
        host.stands("guard", "gone").await;
        assert_eq!(host.ask("good").await.text(), "hello from upstream");
    }
}

#[tokio::test]
async fn a_guard_with_an_invalid_name_rejects_until_it_is_renamed() {
    let host = TestHost::new().filter("Guard", GUARD).start().await;
    host.ask("good").await.refused(503, "the guard `Guard` does not load");
    std::fs::rename(host.path_of("Guard"), host.path_of("guard")).unwrap();
    host.stands("guard", "live").await;
    host.stands("Guard", "gone").await;
    host.ask("bad").await.refused(403, "guarded");
    assert_eq!(host.ask("good").await.text(), "hello from upstream");
}

#[tokio::test]
async fn a_change_that_weakens_a_guard_waits_for_confirmation() {
    let weaker = [
        (GUARD.replace("fn pre_invocation", "fn other"), "the hook `pre_invocation`"),
        (GUARD.replace("security: true\n", "title: x\n"), "`security: true`"),
        (GUARD.replace("security: true", "security: true\nglobal: false"), "`global: false`"),
        (format!("{GUARD}\nconst toggle = true;"), "`toggle`"),
        (GUARD.replace("security: true", "security: true\nmode: audit"), "`mode: audit`"),
        (
            format!(
                "{}\nconst Valves = #{{ words: \"\" }};",
                GUARD.replace("security: true", "security: true\nneeds: words")
            ),
            "no valve of `needs` has a value",
        ),
    ];
    for (source, lost) in weaker {
        let mut host = TestHost::new().filter("guard", GUARD).start().await;
        host.save("guard", &source);
        host.stands("guard", "stale").await;
        let problem = host.problems("guard").remove(0);
        assert!(problem.message.contains(lost), "{problem}");
        assert!(
            problem.help.as_deref().is_some_and(|help| help.contains("valvehouse confirm guard")),
            "{problem}"
        );
        host.ask("bad").await.refused(403, "guarded");
        host.restart().await;
        host.stands("guard", "stale").await;
        host.ask("bad").await.refused(403, "guarded");

        // A change that differs from the confirmed one waits, too.
        let confirm = host.request("POST", "/api/v1/functions/id/guard/confirm");
        assert_eq!(with(confirm, &[]).await.status, 200);
        host.stands("guard", "live").await;
        assert!(host.problems("guard").iter().all(|problem| !problem.message.contains("would lose")));
        host.restart().await;
        host.stands("guard", "live").await;
        host.update("guard", GUARD).await;
        host.ask("bad").await.refused(403, "guarded");
        host.save("guard", &source);
        host.stands("guard", "stale").await;
        host.ask("bad").await.refused(403, "guarded");
    }
}

#[tokio::test]
async fn settings_disable_a_guard_only_on_confirmation() {
    let mut host = TestHost::new().filter("guard", GUARD).start().await;
    let off = format!("{}\n[filters.guard]\nenabled = false\n", host.settings());
    host.reconfigure(&off).await;
    host.ask("bad").await.refused(403, "guarded");
    assert!(host.problems("guard").iter().any(|problem| problem.message.contains("switched off")));
    let confirm = host.request("POST", "/api/v1/functions/id/guard/confirm");
    assert_eq!(with(confirm, &[]).await.status, 200);
    assert_eq!(host.ask("bad").await.text(), "hello from upstream");
    host.restart().await;
    assert_eq!(host.ask("bad").await.text(), "hello from upstream");
}

#[tokio::test]
async fn a_verdict_that_is_not_returned_fails_the_request() {
    for body in [
        "if bad { error(\"no\"); } body",
        "if bad { skip(\"no\"); } body",
        "verify(bad); body",
        "try { verify(bad); } catch (e) { return error(e.message); } body",
        "let verdict = (|| error(\"no\")).call(); if bad { verdict; } body",
        "let answer = error(\"no\"); body",
    ] {
        let source = format!(
            "fn verify(bad) {{ if bad {{ return error(\"no\"); }} }}\nfn inlet(body) {{ let bad = body.messages[-1].text == \"bad\"; {body} }}"
        );
        let host = TestHost::new().filter("guard", source).start().await;
        let answer = host.ask("bad").await;
        assert_ne!(answer.status, 200, "{body}: {}", answer.body());
        assert!(host.upstream.requests().is_empty(), "{body}");
    }
    // The returned error counts, whatever was created before.
    let source =
        "fn inlet(body) { let answer = error(\"first\"); if true { return error(\"second\"); } answer }";
    let host = TestHost::new().filter("guard", source).start().await;
    host.ask("x").await.refused(400, "second");
}

#[tokio::test]
async fn a_model_that_lists_a_missing_filter_rejects_requests() {
    let model =
        format!("[[models]]\nname = \"m\"\nprovider = \"mock\"\nmodel = \"{MODEL}\"\nfilters = [\"gaurd\"]");
    let host = TestHost::new().filter("guard", GUARD).config(&model).start().await;
    host.chat(&chat_body("m", "good")).await.refused(503, "lists the filter `gaurd`, which does not exist");
    assert_eq!(host.ask("good").await.text(), "hello from upstream", "other models go on");
    let problems: Vec<String> = host.snapshot().problems.iter().map(ToString::to_string).collect();
    assert!(problems.iter().any(|problem| problem.contains("did you mean `guard`?")), "{problems:?}");
}

#[tokio::test]
async fn settings_for_unknown_plugins_are_problems() {
    let settings = "[filters.gaurd]\nenabled = false\n[grants.nobody]\nhttp = [\"example.com\"]\n[filters.guard]\nvalves = { wrod = 1 }";
    let host = TestHost::new().filter("guard", GUARD).config(settings).start().await;
    let problems: Vec<String> = host.snapshot().problems.iter().map(ToString::to_string).collect();
    for part in ["`[filters.gaurd]` has no effect", "`[grants.nobody]` has no effect"] {
        assert!(problems.iter().any(|problem| problem.contains(part)), "{part}: {problems:?}");
    }
    assert!(host.problems("guard").iter().any(|problem| problem.message.contains("`wrod`")));
}

#[tokio::test]
async fn a_typo_in_the_settings_of_a_guard_is_an_error_and_requests_continue() {
    let slip = "[filters.gaurd]\nvalves = { word = \"bad\" }\n";
    let host = TestHost::new().filter("guard", GUARD).config(slip).start().await;
    let problem = |host: &TestHost| {
        let problems = host.snapshot().problems.clone();
        problems.into_iter().find(|problem| problem.message.contains("filters.gaurd")).unwrap()
    };
    let found = problem(&host);
    assert_eq!(found.severity, Severity::Error, "{found}");
    assert!(found.message.contains("did you mean `guard`?"), "{found}");
    assert!(found.message.contains("the guard `guard` runs without these settings"), "{found}");
    host.ask("bad").await.refused(403, "guarded");
    assert_eq!(host.ask("good").await.status, 200, "the script of that name may still come");
    // With a section of its own, the guard lacks nothing; a filter is not a guard.
    let both = format!("{slip}[filters.guard]\n");
    let host = TestHost::new().filter("guard", GUARD).config(&both).start().await;
    assert_eq!(problem(&host).severity, Severity::Warning);
    let unguarded = GUARD.replace("security: true", "author: Ann");
    let host = TestHost::new().filter("guard", &unguarded).config(slip).start().await;
    assert_eq!(problem(&host).severity, Severity::Warning);
}

#[tokio::test]
async fn variables_of_the_configuration_cannot_be_changed_by_a_request() {
    let source = "fn inlet(body) { body }\nfn pre_chat(ctx) { let c = ctx.context; throw `${c.get(\"permissions\")} ${c.get(\"locale\")} ${c.get(\"tier\")} ${c.client.permissions} ${c.client.other}`; }";
    let settings = format!(
        "[server]\nclient_variables = [\"locale\", \"tier\"]\nkeys = [{{ key = \"k\", user = {{ id = \"ann\", variables = {{ permissions = \"chat\" }} }} }}]\n\
         [[models]]\nname = \"m\"\nprovider = \"mock\"\nmodel = \"{MODEL}\"\nvariables = {{ permissions = \"none\", tier = \"basic\" }}"
    );
    let host = TestHost::new().filter("shows", source).config(&settings).start().await;
    let mut body = chat_body("m", "x");
    let sent = json!({"permissions": "all", "locale": "de", "tier": "gold", "other": 1});
    body["metadata"] = json!({ "variables": sent });
    let answer = with(host.posting(body.to_string()).bearer_auth("k"), &[]).await;
    answer.refused(400, "chat de basic all 1");
    // The caller is distinct from the values that are set for them.
    let host = TestHost::new()
        .filter("shows", "fn inlet(body, __user__) { throw `${__user__}`; }")
        .config(&settings)
        .start()
        .await;
    let answer = with(host.posting(body.to_string()).bearer_auth("k"), &[]).await;
    answer.refused(400, "ann");
    assert!(!answer.message().contains("variables"), "{}", answer.body());
    // The `user` field of the body sets no variables.
    let host = TestHost::new().filter("shows", source).start().await;
    let mut body = chat_body(MODEL, "x");
    body["user"] = json!({"id": "eve", "variables": {"permissions": "all"}});
    body["metadata"] = json!({ "variables": sent });
    host.chat(&body).await.refused(400, "   all 1");
}

#[tokio::test]
async fn removing_a_guard_from_a_model_waits_for_confirmation() {
    let model = |name: &str, filters: &str| {
        format!(
            "[[models]]\nname = \"{name}\"\nprovider = \"mock\"\nmodel = \"{MODEL}\"\nfilters = [{filters}]\n"
        )
    };
    let source = GUARD.replace("security: true", "security: true\nglobal: false");
    let both = format!("{}{}", model("one", "\"guard\""), model("two", "\"guard\""));
    let mut host = TestHost::new().filter("guard", source).config(&both).start().await;
    let settings = host.settings();
    let asks = async |host: &TestHost, name: &str| host.chat(&chat_body(name, "bad")).await.status;
    assert_eq!((asks(&host, "one").await, asks(&host, "two").await), (403, 403));
    assert_eq!(
        host.chat(&chat_body("mock/other", "bad")).await.status,
        200,
        "it runs for those that list it"
    );
    for restarts in [false, true] {
        // An empty list, a list without the guard, a typo in its name, the whole key removed.
        for (filters, rest) in [("filters = []", 403), ("", 403), ("filters = [\"gaurd\"]", 503)] {
            let changed = settings.replacen("filters = [\"guard\"]", filters, 1);
            host.reconfigure(&changed).await;
            if restarts {
                host.restart().await;
            }
            assert_eq!((asks(&host, "one").await, asks(&host, "two").await), (rest, 403), "{filters}");
            host.stands("guard", "stale").await;
            let problem = host.problems("guard").remove(0);
            assert!(problem.message.contains("no longer list it or are gone: `one`"), "{problem}");
            host.reconfigure(&settings).await;
            host.stands("guard", "live").await;
        }
    }
    host.reconfigure(&settings.replacen("filters = [\"guard\"]", "filters = []", 1)).await;
    let confirm = host.request("POST", "/api/v1/functions/id/guard/confirm");
    assert_eq!(with(confirm, &[]).await.status, 200);
    host.stands("guard", "live").await;
    assert_eq!((asks(&host, "one").await, asks(&host, "two").await), (200, 403));
    host.restart().await;
    assert_eq!((asks(&host, "one").await, asks(&host, "two").await), (200, 403));
    // A confirmation applies once: the same change later needs another one.
    host.reconfigure(&settings).await;
    assert_eq!(asks(&host, "one").await, 403);
    host.reconfigure(&settings.replacen("filters = [\"guard\"]", "filters = []", 1)).await;
    assert_eq!(asks(&host, "one").await, 403);
    host.stands("guard", "stale").await;
    // Clients can reach the provider's model of a removed model under another name.
    host.reconfigure(&settings.replace(&model("one", "\"guard\""), "")).await;
    host.stands("guard", "stale").await;
    assert_eq!(asks(&host, &format!("mock/{MODEL}")).await, 403);
    assert_eq!(asks(&host, "mock/other").await, 403, "it runs for every model until the change is confirmed");
    let is_global = async |host: &TestHost| {
        let shown = with(host.request("GET", "/api/v1/functions/id/guard"), &[]).await.ok();
        shown["is_global"].as_bool().unwrap()
    };
    assert!(is_global(&host).await, "and is shown like that");
    host.restart().await;
    assert_eq!(asks(&host, "mock/other").await, 403, "after a restart as well");
    let confirm = host.request("POST", "/api/v1/functions/id/guard/confirm");
    assert_eq!(with(confirm, &[]).await.status, 200);
    host.stands("guard", "live").await;
    assert!(!is_global(&host).await);
    assert_eq!(asks(&host, "mock/other").await, 200);
    assert_eq!(asks(&host, "two").await, 403);
}

/// Returns the settings after each single edit of the models: a line less, or another value of a line.
fn edits(models: &str) -> Vec<String> {
    let values = [
        "\"one\"",
        "\"new\"",
        "\"small-1\"",
        "\"big-1\"",
        "\"mock\"",
        "\"more\"",
        "[]",
        "[\"mock/big-2\"]",
        "[\"other\"]",
    ];
    let lines: Vec<&str> = models.lines().collect();
    let mut all = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((key, own)) = line.split_once(" = ") else { continue };
        let with = |line: String| {
            let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            lines[at] = line;
            lines.join("\n")
        };
        let is_list = |value: &str| value.starts_with('[');
        let others = values.iter().filter(|value| **value != own && is_list(value) == is_list(own));
        all.extend(others.map(|value| with(format!("{key} = {value}"))).chain([with(String::new())]));
    }
    // A whole entry less.
    let entries: Vec<&str> = models.split("[[models]]").filter(|entry| !entry.trim().is_empty()).collect();
    for left_out in 0..entries.len() {
        let rest = entries.iter().enumerate().filter(|(at, _)| *at != left_out);
        all.push(rest.map(|(_, entry)| format!("[[models]]{entry}")).collect());
    }
    all
}

/// Every name by which clients reach a model keeps its guard, whatever line of the settings changes, until an operator
/// confirms the change.
#[tokio::test]
async fn no_edit_of_the_models_takes_a_guard_from_a_name_before_its_confirmation() {
    let models = "[[models]]\nname = \"one\"\nprovider = \"mock\"\nmodel = \"big-1\"\nfallbacks = [\"mock/small-1\"]\nfilters = [\"guard\"]\n\
                  [[models]]\nname = \"two\"\nprovider = \"mock\"\nmodel = \"other-9\"\nfallbacks = []\nfilters = []\n";
    let source = GUARD.replace("security: true", "security: true\nglobal: false");
    let mut host = TestHost::new().filter("guard", source).config(models).start().await;
    host.upstream.script(|request| Reply::fitting(request, "hi"));
    let settings = host.settings();
    assert!(settings.contains(models), "{settings}");
    let names = [
        "one",
        "two",
        "new",
        "mock/big-1",
        "mock/big-2",
        "mock/small-1",
        "mock/other-9",
        "big-1",
        "mock/x/big-1:a",
    ];
    // The status, and the model of the service that a request reached.
    let reached = async |host: &TestHost| {
        let mut all = Vec::new();
        for name in names {
            let status = host.chat(&chat_body(name, "bad")).await.status;
            let upstream = host.upstream.requests().last().map(|request| request.json()["model"].to_string());
            all.push((status, upstream.filter(|_| status == 200).unwrap_or_default()));
        }
        all
    };
    let statuses =
        async |host: &TestHost| reached(host).await.into_iter().map(|(status, _)| status).collect::<Vec<_>>();
    let before = statuses(&host).await;
    assert_eq!(before, [403, 200, 200, 403, 200, 403, 200, 403, 403]);
    let mut held = 0;
    for edit in edits(models) {
        if host.try_reconfigure(&settings.replace(models, &edit)).await.is_err() {
            continue;
        }
        let after = reached(&host).await;
        held += usize::from(!host.problems("guard").is_empty());
        for (name, (before, (after, upstream))) in names.iter().zip(before.iter().zip(&after)) {
            // A name may be given to another model.
            let is_same = ["big-1", "small-1"].iter().any(|model| upstream.contains(model));
            assert!(*before != 403 || *after != 200 || !is_same, "{name} after {edit}");
        }
        host.reconfigure(&settings).await;
        host.stands("guard", "live").await;
        assert_eq!(statuses(&host).await, before, "{edit}");
    }
    assert!(held >= 8, "{held}");
    // A confirmation lets it go, once.
    let edit = settings.replace("model = \"big-1\"", "model = \"big-3\"");
    host.reconfigure(&edit).await;
    let problem = host.problems("guard").remove(0);
    assert!(problem.message.contains("no longer list it or are gone: `mock/big-1`"), "{problem}");
    let confirm = host.request("POST", "/api/v1/functions/id/guard/confirm");
    assert_eq!(with(confirm, &[]).await.status, 200);
    host.stands("guard", "live").await;
    let after =
        [host.chat(&chat_body("mock/big-1", "bad")).await, host.chat(&chat_body("mock/big-3", "bad")).await];
    assert_eq!(after.map(|answer| answer.status), [200, 403]);
}

#[tokio::test]
async fn a_typo_in_guard_valves_does_not_fall_back_to_script_defaults() {
    let source = "/*\nsecurity: true\n*/\nconst Valves = #{ word: \"bomb\", most: 3, on: true };\nfn inlet(body, valves) { if valves.on && body.messages[-1].text.contains(valves.word) { deny(\"guarded\", 403); } body }";
    let valves = |text: &str| format!("[filters.guard]\nvalves = {{ {text} }}\n");
    let mut host =
        TestHost::new().filter("guard", source).config(&valves("word = \"topsecret\"")).start().await;
    let settings = host.settings();
    host.ask("topsecret").await.refused(403, "guarded");
    for slip in [
        "wrod = \"topsecret\"",
        "word = [\"topsecret\"]",
        "word = 5",
        "word = \"topsecret\", most = \"many\"",
        "word = \"topsecret\", most = \"3\"",
        "word = \"topsecret\", on = \"no\"",
        "word = \"topsecret\", on = 0",
    ] {
        host.reconfigure(&settings.replace("word = \"topsecret\"", slip)).await;
        assert_ne!(host.ask("topsecret").await.status, 200, "{slip}");
        host.restart().await;
        assert_ne!(host.ask("topsecret").await.status, 200, "{slip}, after a restart");
        host.reconfigure(&settings).await;
        host.ask("topsecret").await.refused(403, "guarded");
        assert_eq!(host.ask("good").await.status, 200);
    }
}

#[tokio::test]
async fn a_guard_ignores_toggles_that_no_operator_set() {
    let mut host = TestHost::new().filter("guard", GUARD).start().await;
    // As an operator does: it takes effect at once and survives a restart.
    let toggle = async |host: &TestHost| {
        let toggled = with(host.request("POST", "/api/v1/functions/id/guard/toggle"), &[]).await;
        assert_eq!(toggled.status, 200, "{}", toggled.body());
    };
    for passes in [200, 403] {
        toggle(&host).await;
        assert_eq!(host.ask("bad").await.status, passes);
        host.restart().await;
        assert_eq!(host.ask("bad").await.status, passes);
    }
    host.stands("guard", "live").await;
    let global = with(host.request("POST", "/api/v1/functions/id/guard/toggle/global"), &[]).await;
    assert_eq!(global.status, 200);
    assert_eq!(host.ask("bad").await.status, 200);
    host.update("guard", &format!("{GUARD}\n// next")).await;
    assert_eq!(host.ask("bad").await.status, 200, "as it was switched");
    host.stands("guard", "live").await;
}

#[tokio::test]
async fn a_guard_without_a_required_value_rejects_requests() {
    let source = "/*\nsecurity: true\nneeds: word\n*/\nconst Valves = #{ word: \"\", tone: \"\" };\nfn inlet(body, valves) { if body.messages[-1].text == valves.word { deny(\"guarded\", 403); } body }";
    let mut host = TestHost::new().filter("guard", source).start().await;
    assert_eq!(host.ask("good").await.status, 200, "nobody has configured it");
    for values in [json!({"tone": "stern"}), json!({"tone": "stern", "word": ""}), json!({"word": " "})] {
        host.set_valves("guard", None, values).await;
        assert_eq!(host.ask("good").await.status, 200, "no value that it needs was ever set");
        host.restart().await;
        assert_eq!(host.ask("good").await.status, 200);
    }
    host.set_valves("guard", None, json!({"word": "bad", "tone": "stern"})).await;
    host.ask("bad").await.refused(403, "guarded");
    assert_eq!(host.ask("good").await.status, 200);
    host.restart().await;
    host.ask("bad").await.refused(403, "guarded");
    host.set_valves("guard", None, json!({"tone": "stern"})).await;
    host.ask("good").await.refused(503, "valvehouse valves set guard word=");
    host.restart().await;
    host.ask("good").await.refused(503, "has no effect until word is set again");
    // A guard that is switched off refuses nothing.
    let toggled = with(host.request("POST", "/api/v1/functions/id/guard/toggle"), &[]).await;
    assert_eq!(toggled.status, 200);
    assert_eq!(host.ask("good").await.status, 200);
}

#[tokio::test]
async fn a_guard_of_a_model_also_covers_its_provider_name() {
    const SAFE: &str = "[[models]]\nname = \"safe\"\nprovider = \"mock\"\nmodel = \"big-1\"\nfilters = [\"guard\"]\nfallbacks = [\"mock/spare-1\"]";
    let listed = GUARD.replace("security: true", "security: true\nglobal: false");
    let mut host = TestHost::new()
        .filter("guard", &listed)
        .filter("polite", "/*\nglobal: false\n*/\nfn inlet(body) { deny(\"not for this one\", 418); }")
        .config(SAFE)
        .config("[[models]]\nname = \"plain\"\nprovider = \"mock\"\nmodel = \"small-1\"\nfilters = []")
        .start()
        .await;
    let guarded = [
        "safe",
        "mock/big-1",
        "big-1",
        "mock/BIG-1",
        "mock/ big-1",
        "mock/big-1:latest",
        "mock/models/big-1",
        "mock/spare-1",
        "spare-1",
    ];
    let asks = async |host: &TestHost, model: &str, text: &str| {
        let mut statuses = Vec::new();
        for (path, body) in [
            ("/v1/chat/completions", chat_body(model, text)),
            ("/v1/chat/completions", crate::host::streaming(model, text)),
            (
                "/v1/messages",
                json!({"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": text}]}),
            ),
            ("/v1/responses", json!({"model": model, "input": text})),
        ] {
            let request = host.request("POST", path).header("content-type", "application/json");
            statuses.push(with(request.body(body.to_string()), &[]).await.status);
        }
        statuses
    };
    for round in 0..2 {
        for model in guarded {
            assert_eq!(asks(&host, model, "bad").await, [403; 4], "{model}, {round}");
            assert_eq!(asks(&host, model, "good").await, [200; 4], "{model}, {round}");
        }
        for model in ["mock/small-1", "small-1", "plain", "mock/other", "other"] {
            assert_eq!(asks(&host, model, "bad").await, [200; 4], "{model}, {round}");
        }
        host.restart().await;
    }
    // An operator can see it.
    let parts = host.snapshot().parts("mock/big-1", &[], |_| None);
    let guard = parts.iter().find(|part| &*part.plugin.id == "guard").unwrap();
    assert!(guard.runs() && guard.reason.contains("guards a configured model"), "{}", guard.reason);
    // A guard that does not load refuses here as well, and so does one whose removal is not confirmed.
    host.save("guard", listed.replace("fn pre_invocation", "fn pre_invocation("));
    host.stands("guard", "stale").await;
    assert_eq!(asks(&host, "mock/big-1", "bad").await, [403; 4]);
    host.delete("guard");
    host.stands("guard", "missing").await;
    for model in guarded {
        assert!(asks(&host, model, "bad").await.iter().all(|status| *status != 200), "{model}");
    }
    // The removal is not confirmed.
    let settings = host.settings().replace("[\"guard\"]", "[\"guadr\"]");
    host.reconfigure(&settings).await;
    for model in guarded {
        assert_eq!(asks(&host, model, "bad").await, [503; 4], "{model}");
    }
}

#[tokio::test]
async fn a_guard_of_a_model_also_covers_names_that_may_mean_it() {
    const SAFE: &str = "[[models]]\nname = \"safe\"\nprovider = \"mock\"\nmodel = \"llama3\"\nfilters = [\"guard\"]\n\
        [[models]]\nname = \"vendor\"\nprovider = \"mock\"\nmodel = \"acme/big-1\"\nfilters = [\"guard\"]\n\
        [[models]]\nname = \"plain\"\nprovider = \"mock\"\nmodel = \"llama3:1b\"";
    let listed = GUARD
        .replace("security: true", "security: true\nglobal: false")
        .replace("*/\n", "*/\nconst endpoints = [\"chat\", \"embeddings\", \"images\"];\n");
    assert!(listed.contains("endpoints"), "{listed}");
    let host = |kind: &'static str, more: &'static str| {
        TestHost::new().provider(kind).filter("guard", &listed).config(SAFE).provider(more).start()
    };
    let meant = [
        "mock/llama3",
        "llama3",
        "mock/library/llama3",
        "mock/registry.ollama.ai/library/llama3:latest",
        "mock/https://registry.ollama.ai/library/llama3",
        "mock/Registry.ollama.ai/Library/LLAMA3",
        "mock//llama3",
        "mock/./llama3",
        "mock/llama3/",
        "mock/ｌlama3",
        "mock/llama3 ",
        "mock/llama3:8b-instruct",
        "mock/acme/llama3@main",
        "mock/big-1",
        "mock/acme/big-1-2026",
    ];
    let others = ["plain", "mock/llama3:1b", "mock/llama31", "mock/xllama3", "mock/big-10", "mock/other"];
    for kind in ["kind = \"openai\"", "kind = \"ollama\""] {
        let host = host(kind, "").await;
        host.upstream.script(|request| match request.path.ends_with("/chat") {
            true => Reply::json(
                &json!({"model": "m", "message": {"role": "assistant", "content": "hi"}, "done": true}),
            ),
            false => Reply::fitting(request, "hi"),
        });
        let statuses = async |model: &str, text: &str| {
            let chat = host.chat(&chat_body(model, text)).await;
            let embed = json!({"model": model, "input": text}).to_string();
            let embed =
                host.request("POST", "/v1/embeddings").header("content-type", "application/json").body(embed);
            [chat.status, Answer::of(embed).await.status]
        };
        for model in meant {
            assert_eq!(statuses(model, "bad").await, [403; 2], "{kind} {model}");
            assert_eq!(statuses(model, "good").await, [200; 2], "{kind} {model}");
        }
        for model in others {
            assert_eq!(statuses(model, "bad").await, [200; 2], "{kind} {model}");
        }
        // Any model of the service may answer a request that names none.
        let unnamed = |text: &str| {
            let body = json!({"input": text}).to_string();
            Answer::of(
                host.request("POST", "/v1/embeddings").header("content-type", "application/json").body(body),
            )
        };
        assert_eq!((unnamed("bad").await.status, unnamed("good").await.status), (403, 200));
        let parts = host.snapshot().parts("mock/library/llama3", &[], |_| None);
        let guard = parts.iter().find(|part| &*part.plugin.id == "guard").unwrap();
        assert!(guard.runs() && guard.reason.contains("that the name may mean: safe;"), "{}", guard.reason);
        // Completions have no guard that covers them.
        let prompt = json!({"model": "mock/library/llama3", "prompt": "bad"}).to_string();
        let prompt =
            host.request("POST", "/v1/completions").header("content-type", "application/json").body(prompt);
        assert_eq!(Answer::of(prompt).await.status, 403);
    }
    // A server with one model.
    let single = host("kind = \"llamacpp\"", "").await;
    assert_eq!(single.chat(&chat_body("mock/anything", "bad")).await.status, 403);
    let closed = host("kind = \"openai\"", "unlisted = \"refuse\"").await;
    for model in ["mock/other", "other", "mock/library/llama3", "mock/LLAMA3", "mock/llama3/"] {
        closed.chat(&chat_body(model, "good")).await.refused(404, "does not exist");
    }
    for model in ["safe", "mock/llama3", "plain"] {
        assert_eq!(closed.chat(&chat_body(model, "good")).await.status, 200, "{model}");
    }
    let unnamed = closed.request("POST", "/v1/embeddings").header("content-type", "application/json");
    Answer::of(unnamed.body(r#"{"input":"good"}"#)).await.refused(400, "serves only configured models");
    assert_eq!(closed.chat(&chat_body("mock/llama3", "bad")).await.status, 403);
}
