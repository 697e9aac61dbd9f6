//! Files that change under load: what goes live, when, and what never does.

use crate::host::{Answer, TestHost, chat_body, until};
use crate::upstream::{Gate, MODEL, Reply};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Appends a word to every response.
fn filter_adding(word: &str) -> String {
    format!("fn outlet(body) {{ body.messages[-1].text += \" {word}\"; body }}")
}

const BROKEN: &str = "fn outlet(body) {\n    let x = ;\n}";
/// Loads, and has a warning: the variable is not used.
const WARNS: &str = "fn outlet(body) { let unused = 4; body.messages[-1].text += \" warns\"; body }";

#[tokio::test]
async fn a_strict_host_loads_no_script_with_warnings() {
    let strict = "[folders]\nstrict = true";
    let mut host = TestHost::new().filter("word", WARNS).config(strict).start().await;
    host.stands("word", "broken").await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream");
    host.save("word", filter_adding("good"));
    host.stands("word", "live").await;
    host.save("word", WARNS);
    host.stands("word", "stale").await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream good");
    assert!(host.problems("word").iter().any(|problem| problem.to_string().contains("V606")));
    host.restart().await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream good");

    let lenient = TestHost::new().filter("word", WARNS).start().await;
    assert_eq!(lenient.ask("x").await.text(), "hello from upstream warns");
    let project = crate::cli::Project::new().filter("word", WARNS);
    let server = project.serve("--strict");
    assert!(server.get("/readyz?verbose").contains("broken"));
    assert!(server.last_words().contains("V606"));
}

#[tokio::test]
async fn files_are_added_edited_renamed_over_and_deleted() {
    let host = TestHost::new().start().await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream");
    // The folder does not exist yet.
    host.save("word", filter_adding("one"));
    host.stands("word", "live").await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream one");

    let first = host.generation().await;
    host.save("word", filter_adding("two"));
    host.live_after(first, "word").await;
    assert_eq!(host.stream("x").await.text(), "hello from upstream two");

    let second = host.generation().await;
    host.save_by_rename("word", &filter_adding("three"));
    host.live_after(second, "word").await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream three");

    host.save("deep/er/nested", filter_adding("four"));
    host.save("lib/module", "fn helper() { 1 }");
    host.save("_module", "fn helper() { 1 }");
    host.stands("nested", "live").await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream four three");
    let ready = host.ready().await;
    let ids: Vec<&String> = ready["plugins"].as_object().unwrap().keys().collect();
    assert_eq!(ids, ["nested", "word"]);

    host.delete("word");
    std::fs::remove_dir_all(host.folder().join("filters/deep")).unwrap();
    host.stands("word", "gone").await;
    host.stands("nested", "gone").await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream");
}

#[tokio::test]
async fn a_renamed_file_never_runs_twice() {
    let host = TestHost::new().filter("before", filter_adding("word")).start().await;
    for (from, to) in [("before", "after"), ("after", "before"), ("before", "after")] {
        std::fs::rename(host.path_of(from), host.path_of(to)).unwrap();
        until("it runs under its new name", || async {
            assert_eq!(host.ask("x").await.text(), "hello from upstream word");
            host.ready().await["plugins"].get(from).is_none()
        })
        .await;
    }
}

#[tokio::test]
async fn a_broken_file_keeps_its_last_good_version_until_it_is_fixed() {
    let mut host = TestHost::new().filter("word", filter_adding("good")).start().await;
    host.save("word", BROKEN);
    host.stands("word", "stale").await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream good");
    let problem = host.problems("word").remove(0);
    assert_eq!((problem.line, problem.column), (Some(2), Some(13)), "{problem}");
    let message = problem.to_string();
    assert!(
        message.contains("word.rhai:2:13: error[V101]:")
            && message.contains("2 |     let x = ;\n   |             ^"),
        "{message}"
    );

    // After a different error, the newest reason is shown.
    host.save("word", "fn outlet(body, bodi) { body }");
    until("the new reason is shown", || async { host.problems("word")[0].to_string().contains("bodi") })
        .await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream good");

    // This survives a restart.
    host.restart().await;
    host.stands("word", "stale").await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream good");

    host.save("word", filter_adding("better"));
    host.stands("word", "live").await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream better");
    assert!(host.problems("word").is_empty());

    // A plugin that never loaded does not run at all.
    host.save("never", BROKEN);
    host.stands("never", "broken").await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream better");
    host.delete("never");
    host.stands("never", "gone").await;
}

/// Statements that fail whenever they run, each with the code of its problem.
const CERTAIN: [(&str, &str); 8] = [
    ("text::fixd(body.model);", "V502"),
    ("text::trim(body.model, 2, 3);", "V503"),
    ("helpr(body.model);", "V502"),
    ("helper(body.model, 2);", "V503"),
    ("[1].map(|x| helpr(x));", "V502"),
    ("if body.model == \"rare\" { nothing(); }", "V502"),
    ("words::shou(body.model);", "V502"),
    ("bad::shout(body.model);", "V502"),
];

#[tokio::test]
async fn a_call_that_certainly_fails_prevents_a_file_from_loading() {
    let host = TestHost::new().filter("word", filter_adding("good")).start().await;
    let module = |text: &str| format!("fn shout(word) {{ {text} }}");
    host.save("lib/words", module("word.to_upper()"));
    host.save("lib/bad", module("text::fixd(word)"));
    for (statement, code) in CERTAIN {
        let imports = ["words", "bad"].map(|name| match statement.starts_with(name) {
            true => format!("import \"lib/{name}\" as {name};\n"),
            false => String::new(),
        });
        let source = format!(
            "{}fn helper(x) {{ x }}\nfn outlet(body) {{ helper(1); {statement} body }}",
            imports.concat()
        );
        host.save("word", source);
        until(statement, async || host.problems("word").iter().any(|one| one.to_string().contains(code)))
            .await;
        host.stands("word", "stale").await;
        assert_eq!(host.ask("x").await.text(), "hello from upstream good", "{statement}");
        host.save("word", filter_adding("good"));
        host.stands("word", "live").await;
    }

    // A map may hold the function.
    let held = "fn outlet(body) { let m = #{}; m[\"add\"] = |x| x + \" held\"; \
                body.messages[-1].text = m.add(body.messages[-1].text); body }";
    host.save("word", held);
    until("the function of a map is called", async || host.ask("x").await.text().ends_with("held")).await;
}

#[tokio::test]
async fn an_unreadable_file_keeps_its_last_good_version() {
    let host = TestHost::new().filter("word", filter_adding("good")).start().await;
    for bad in [&b""[..], &[0xff, 0xfe][..], &vec![b' '; 300 * 1024][..]] {
        host.save("word", bad);
        host.stands("word", "stale").await;
        assert_eq!(host.ask("x").await.text(), "hello from upstream good");
    }
}

/// Returns one half of a pair that refuses requests if the versions of both halves differ.
fn half(name: &str, version: usize) -> String {
    match name {
        "left" => format!("fn inlet(body, __metadata__) {{ __metadata__.left = {version}; body }}"),
        _ => format!(
            "const Valves = #{{ priority: 1 }};\nfn inlet(body, __metadata__) {{ \
             if __metadata__.left != {version} {{ throw `mixed ${{__metadata__.left}} and {version}`; }} body }}"
        ),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_saved_together_go_live_together() {
    let host =
        TestHost::new().filter("left", half("left", 0)).filter("right", half("right", 0)).start().await;
    let host = Arc::new(host);
    let done = Arc::new(AtomicBool::new(false));
    let asking: Vec<_> = (0..2)
        .map(|_| {
            let (host, done) = (host.clone(), done.clone());
            tokio::spawn(async move {
                let mut mixed = Vec::new();
                while !done.load(Relaxed) {
                    let answer = host.ask("x").await;
                    match mixed_versions(answer.body()) {
                        Some(versions) => mixed.push(versions),
                        None => assert_eq!(answer.text(), "hello from upstream"),
                    }
                }
                mixed
            })
        })
        .collect();
    let mut apart = Vec::new();
    for version in 1..=60 {
        let generation = host.generation().await;
        let began = Instant::now();
        if version % 3 == 0 {
            host.save_by_rename("right", &half("right", version));
            host.save_by_rename("left", &half("left", version));
        } else {
            host.save("left", half("left", version));
            host.save("right", half("right", version));
        }
        // If the machine stalled in between, they were not saved together.
        if began.elapsed() > Duration::from_millis(20) {
            apart.push(version);
        }
        // Other changes at the same time must not separate the pair.
        if version % 4 == 0 {
            let values = valvehouse::json::Json::parse(format!("{{\"n\":{version}}}").as_bytes()).unwrap();
            host.store().replace_valves("left", None, &values, "test").await.unwrap();
        }
        host.live_after(generation, "right").await;
    }
    done.store(true, Relaxed);
    assert!(apart.len() < 50, "this machine is too busy to save two files: {apart:?}");
    for task in asking {
        for (left, right) in task.await.expect("answers") {
            assert!(apart.contains(&left.max(right)), "mixed {left} and {right}; apart are {apart:?}");
        }
    }
}

/// Returns the versions of a mixed pair from the error of the right half.
fn mixed_versions(body: &str) -> Option<(usize, usize)> {
    let (left, right) = body.split_once("mixed ")?.1.split_once(" and ")?;
    let digits = right.find(|c: char| !c.is_ascii_digit())?;
    Some((left.parse().ok()?, right[..digits].parse().ok()?))
}

const GUARD: &str = "/*\nsecurity: true\n*/\nfn inlet(body) { if body.messages[-1].text == \"bad\" { deny(\"guarded\", 403); } body }";

#[tokio::test]
async fn a_deleted_guard_rejects_until_its_removal_is_confirmed() {
    let mut host = TestHost::new().filter("guard", GUARD).start().await;
    assert_eq!(host.ask("good").await.text(), "hello from upstream");
    host.ask("bad").await.refused(403, "guarded");

    host.delete("guard");
    host.stands("guard", "missing").await;
    let refused = host.ask("good").await;
    refused.refused(
        503,
        "the guard `guard` is missing; an operator has to restore its file, or run: valvehouse confirm guard",
    );
    assert_eq!(refused.error()["code"], "guard");
    host.stream("good").await.refused(503, "confirm guard");

    // A restart does not reset this.
    host.restart().await;
    host.stands("guard", "missing").await;
    host.ask("good").await.refused(503, "confirm guard");

    // The guard is restored and refuses again.
    host.save("guard", GUARD);
    host.stands("guard", "live").await;
    host.ask("bad").await.refused(403, "guarded");
    host.delete("guard");
    host.stands("guard", "missing").await;

    host.store().confirm_removal("guard", "test").await.unwrap();
    host.stands("guard", "gone").await;
    assert_eq!(host.ask("bad").await.text(), "hello from upstream");
    host.restart().await;
    assert_eq!(host.ask("bad").await.text(), "hello from upstream");
}

#[tokio::test]
async fn a_guard_that_never_loaded_rejects_until_it_loads() {
    let broken = format!("{GUARD}\nfn outlet(");
    let unreadable = [GUARD.as_bytes(), b" // \xff"].concat();
    for source in [broken.as_bytes(), &unreadable] {
        let host = TestHost::new().filter("guard", source).start().await;
        host.stands("guard", "broken").await;
        host.ask("good").await.refused(503, "the guard `guard` does not load");
        host.save("guard", GUARD);
        host.stands("guard", "live").await;
        assert_eq!(host.ask("good").await.text(), "hello from upstream");
        host.ask("bad").await.refused(403, "guarded");
        // A guard that breaks later still refuses, with its last good version.
        host.save("guard", BROKEN);
        host.stands("guard", "stale").await;
        host.ask("bad").await.refused(403, "guarded");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_folder_link_is_followed_to_its_new_target() {
    use std::os::unix::fs::symlink;
    let host = TestHost::new().start().await;
    // The layout of Kubernetes: the file is a link through a link that is swapped.
    let folder = |name: &str| host.folder().join(name);
    for (name, word) in [("v1", "one"), ("v2", "two")] {
        std::fs::create_dir(folder(name)).unwrap();
        std::fs::write(folder(name).join("word.rhai"), filter_adding(word)).unwrap();
    }
    std::fs::create_dir(folder("filters")).unwrap();
    symlink(folder("v1"), folder("..data")).unwrap();
    symlink("../..data/word.rhai", folder("filters/word.rhai")).unwrap();
    host.stands("word", "live").await;
    assert_eq!(host.ask("x").await.text(), "hello from upstream one");

    // This change causes no file event.
    symlink(folder("v2"), folder("..next")).unwrap();
    std::fs::rename(folder("..next"), folder("..data")).unwrap();
    until("the second version runs", || async {
        let text = host.ask("x").await.text();
        assert!(text.ends_with("one") || text.ends_with("two"), "{text}");
        text.ends_with("two")
    })
    .await;
}

#[tokio::test]
async fn a_folder_may_be_created_deleted_and_created_again() {
    let host = TestHost::new().start().await;
    for word in ["one", "two"] {
        host.save("word", filter_adding(word));
        host.stands("word", "live").await;
        assert_eq!(host.ask("x").await.text(), format!("hello from upstream {word}"));
        // Changes in the new folder are noticed as well.
        host.update("word", &filter_adding("edited")).await;
        std::fs::remove_dir_all(host.folder().join("filters")).unwrap();
        host.stands("word", "gone").await;
    }
}

#[tokio::test]
async fn a_change_with_the_same_time_and_length_is_noticed() {
    let host = TestHost::new().filter("word", filter_adding("one")).start().await;
    let path = host.path_of("word");
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    host.save("word", filter_adding("two"));
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    until("the second version runs", || async { host.ask("x").await.text().ends_with("two") }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_filters_load_and_a_single_change_goes_live() {
    let mut setup = TestHost::new().filter("word", filter_adding("one"));
    for number in 0..999 {
        let source = format!(
            "const Valves = #{{ priority: {number} }};\nfn inlet(body) {{ body.n{number} = 1; body }}"
        );
        setup = setup.filter(&format!("f{number}"), source);
    }
    let began = Instant::now();
    let host = setup.start().await;
    let started = began.elapsed();
    let ready = host.ready().await;
    assert_eq!(ready["plugins"].as_object().unwrap().len(), 1000);
    assert!(ready["plugins"].as_object().unwrap().values().all(|state| state == "live"));
    assert_eq!(host.ask("x").await.text(), "hello from upstream one");
    assert_eq!(host.upstream.last().json().as_object().unwrap().len(), 2 + 999);

    let saved = Instant::now();
    host.update("word", &filter_adding("two")).await;
    eprintln!("1 000 filters: started in {started:?}, one change live after {:?}", saved.elapsed());
    assert_eq!(host.ask("x").await.text(), "hello from upstream two");
    assert!(saved.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_turn_ends_with_the_filters_it_started_with() {
    let version = |word: &str| {
        format!(
            "fn inlet(body) {{ body.seen = \"{word}\"; body }}\n\
             fn stream(event) {{ if event.text != \"\" {{ event.text += \"-{word}\"; }} event }}\n\
             fn outlet(body) {{ body.messages[-1].text += \" {word}\"; body }}"
        )
    };
    let host = TestHost::new().filter("word", version("old")).start().await;
    let gate = Gate::closed();
    host.upstream.reply(Reply::text("whole").behind(&gate));
    let generation = host.generation().await;
    let whole = tokio::spawn(Answer::of(host.posting(chat_body(MODEL, "x").to_string())));
    host.upstream.wait_for_requests(1).await;
    let [words, end] = [(json!({"content": "two"}), None), (json!({}), Some("stop"))]
        .map(|(delta, finish)| crate::upstream::chunk(&delta, finish));
    let words = format!("{words}{end}data: [DONE]\n\n");
    host.upstream.reply(Reply::begun(["one"]).then_gate(&gate).then(words));
    let mut streamed = host.begin("x").await;
    let mut text = String::new();
    while !text.contains("one-old") {
        text.push_str(std::str::from_utf8(&streamed.chunk().await.unwrap().unwrap()).unwrap());
    }

    host.update("word", &version("new")).await;
    host.upstream.reply(Reply::text("whole"));
    let next = host.ask("x").await;
    assert_eq!(next.text(), "whole-new new");
    host.delete("word");
    host.stands("word", "gone").await;
    gate.open();

    let whole = whole.await.unwrap();
    assert_eq!((whole.text().as_str(), whole.generation()), ("whole-old old", generation));
    while let Some(bytes) = streamed.chunk().await.unwrap() {
        text.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    assert!(text.contains("two-old") && text.contains(" old") && !text.contains("new"), "{text}");
    assert!(next.generation() > generation);
}

#[tokio::test]
async fn stored_valves_and_toggles_apply_without_a_restart() {
    let word = r#"
const Valves = #{ word: "default" };
const UserValves = #{ mark: "." };
fn outlet(body, valves, __user__) { body.messages[-1].text += ` ${valves.word}${__user__.valves.mark}`; body }
"#;
    let mut host = TestHost::new()
        .filter("word", word)
        .config("[filters.word]\nvalves = { word = \"configured\" }")
        .start()
        .await;
    let mut ann = chat_body(MODEL, "x");
    ann["user"] = json!("ann");
    assert_eq!(host.chat(&ann).await.text(), "hello from upstream configured.");

    let generation = host.generation().await;
    host.set_valves("word", None, json!({"word": "stored"})).await;
    assert!(host.generation().await > generation);
    assert_eq!(host.chat(&ann).await.text(), "hello from upstream stored.");
    host.set_valves("word", Some("ann"), json!({"mark": "!"})).await;
    assert_eq!(host.chat(&ann).await.text(), "hello from upstream stored!");
    assert_eq!(host.ask("x").await.text(), "hello from upstream stored.");

    host.restart().await;
    assert_eq!(host.chat(&ann).await.text(), "hello from upstream stored!");
    host.update("word", &word.replace(". `", ".`").replace("` ${valves", "` v2 ${valves")).await;
    assert_eq!(host.chat(&ann).await.text(), "hello from upstream v2 stored!");

    let switch =
        |enabled| valvehouse::store::Switch { plugin: "word".into(), enabled, global: None, audit: None };
    let stored = host.store().set_switch(&switch(Some(false)), "test").await.unwrap();
    host.obeys(stored).await;
    assert_eq!(host.chat(&ann).await.text(), "hello from upstream");
    let stored = host.store().set_switch(&switch(Some(true)), "test").await.unwrap();
    host.obeys(stored).await;
    host.set_valves("word", None, json!({})).await;
    assert_eq!(host.chat(&ann).await.text(), "hello from upstream v2 configured!");
}

/// Adds its version to the request and to the response.
fn stamps(version: usize) -> String {
    format!(
        "fn inlet(body) {{ body.stamp = \"v{version}\"; body }}\n\
         fn outlet(body) {{ body.messages[-1].text += \" answered by v{version}\"; body }}"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_saves_under_load_fail_no_request_and_mix_no_versions() {
    let host = TestHost::new().filter("stamp", stamps(0)).start().await;
    host.upstream.script(|request_part| {
        let stamp = request_part.json()["stamp"].as_str().unwrap_or("nobody").to_owned();
        Reply::fitting(request_part, &format!("question of {stamp}")).after(Duration::from_millis(3))
    });
    let host = Arc::new(host);
    let done = Arc::new(AtomicBool::new(false));
    let load: Vec<_> = (0..3)
        .map(|number| {
            let (host, done) = (host.clone(), done.clone());
            tokio::spawn(async move {
                let mut seen = HashSet::new();
                while !done.load(Relaxed) {
                    let answer = if number == 0 { host.stream("x").await } else { host.ask("x").await };
                    let text = answer.text();
                    let (request_part, replied) = text.split_once(" answered by ").expect("both stamps");
                    assert_eq!(
                        request_part.strip_prefix("question of "),
                        Some(replied),
                        "one whole generation"
                    );
                    seen.insert(replied.to_owned());
                }
                seen
            })
        })
        .collect();

    let mut good = 0;
    for save in 1..=valvehouse_testkit::by_length(50, 200) {
        let broken = save % 3 == 0;
        let generation = host.snapshot().generation;
        let source = if broken { format!("{} let", stamps(save)) } else { stamps(save) };
        if save % 2 == 0 {
            host.save_by_rename("stamp", &source)
        } else {
            host.save("stamp", source)
        }
        until("the save is noticed", || async { host.snapshot().generation > generation }).await;
        if !broken {
            good = save;
        }
        let word = if broken { "stale" } else { "live" };
        host.stands("stamp", word).await;
        let text = host.ask("x").await.text();
        assert_eq!(text, format!("question of v{good} answered by v{good}"), "save {save}");
    }
    done.store(true, Relaxed);
    let mut versions = HashSet::new();
    for task in load {
        versions.extend(task.await.expect("no request fails"));
    }
    assert!(versions.len() > 5, "the load saw the changes: {}", versions.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_concurrent_users_share_no_data() {
    let remembers = r#"
const UserValves = #{ word: "nobody" };
fn inlet(body, state, __metadata__, __user__) {
    if state.len() > 0 { throw `state of ${state.me}`; }
    if __metadata__.len() > 0 { throw `metadata of ${__metadata__.me}`; }
    state.me = __user__.id;
    __metadata__.me = __user__.id;
    body
}
fn pre_chat(ctx, state, __user__) {
    if ctx.context.get("me") != () { throw "context of somebody"; }
    ctx.context.set("me", __user__.id);
    ctx
}
fn stream(event, state) { state.events = (state.events ?? 0) + 1; event }
fn outlet(body, state, __metadata__, __user__) {
    body.messages[-1].text += ` ${state.me} ${__metadata__.me} ${__user__.id} ${__user__.valves.word} ${state.events}`;
    body
}
"#;
    let other = "fn outlet(body, state, __user__) { if state.len() > 0 || __user__.valves.len() > 0 { throw \"not mine\"; } body }";
    let host = TestHost::new().filter("remembers", remembers).filter("other", other).start().await;
    let mut stored = 0;
    for user in 0..100 {
        let values = valvehouse::json::Json::parse(format!("{{\"word\":\"w{user}\"}}").as_bytes()).unwrap();
        let id = format!("u{user}");
        stored = host.store().replace_valves("remembers", Some(&id), &values, "test").await.unwrap();
    }
    host.obeys(stored).await;
    host.upstream.script(|requests| {
        let user = requests.json()["user"].as_str().unwrap_or_default().to_owned();
        Reply::fitting(requests, &user).after(Duration::from_millis(50))
    });
    let host = &host;
    let requests = (0..100).map(|user| async move {
        let mut body = chat_body(MODEL, "x");
        body["user"] = Value::from(format!("u{user}"));
        body["stream"] = Value::from(user % 2 == 0);
        let text = host.chat(&body).await.text();
        // Streamed: a role, a word and an end. Whole: one event.
        let events = if user % 2 == 0 { 3 } else { 1 };
        assert_eq!(text, format!("u{user} u{user} u{user} u{user} w{user} {events}"));
    });
    futures::future::join_all(requests).await;
}
