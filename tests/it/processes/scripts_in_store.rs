//! Hosts with scripts from the store: sets are uploaded completely, and loaded completely or not at all.

use super::serve::{Project, Server};
use crate::host::until;
use crate::upstream::{MODEL, Reply, Upstream, UpstreamRequest};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use valvehouse::store::{SetManifest, Store};
use valvehouse_testkit::postgres::Postgres;

const KEY: &str = "the same key on every host of this test";

/// Adds a word of a module and its valve to each response.
const SIGNS: &str = "import \"lib/words\" as words;
const Valves = #{ number: 0 };
fn outlet(body, valves) { body.messages[-1].content += ` ${words::word()} ${valves.number}`; body }
";

const GUARD: &str = "/*
security: true
*/
fn inlet(body) { if body.messages[-1].content.contains(\"secret\") { return error(\"no secrets\"); } }
";

/// Needs a grant that only the first host has.
const GRANTED_GUARD: &str = "/*
security: true
requirements: http
*/
fn inlet(body) { if body.messages[-1].content.contains(\"secret\") { return error(\"no secrets\"); } }
";

fn answers(_: &UpstreamRequest) -> Reply {
    let message = json!({"role": "assistant", "content": "answer"});
    Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
}

/// Creates a project whose scripts are in a store; its scripts on disk are not loaded.
fn project(upstream: &Upstream, database: Option<&str>, more: &str) -> Project {
    let project = Project::new(&upstream.url());
    project.filter("on_disk", "fn outlet(body) { body.messages[-1].content += \" DISK\"; body }");
    let store = database.map(|url| format!("[store]\nurl = \"{url}\"\nkey = \"{KEY}\"\n"));
    project.configure(&format!(
        "[[models]]\nname = \"plain\"\nprovider = \"mock\"\nmodel = \"mock-1\"\n[folders]\nsource = \"store\"\n{more}{}",
        store.unwrap_or_default()
    ));
    project
}

fn write(project: &Project, path: &str, text: &str) {
    let path = project.folder().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn word(project: &Project, word: &str) {
    write(project, "policies/filters/lib/words.rhai", &format!("fn word() {{ \"{word}\" }}\n"));
}

/// Writes a folder with a filter, a module and tests.
fn policies(project: &Project, first: &str) {
    write(project, "policies/filters/signs.rhai", SIGNS);
    let test = "fn test_it_signs() { let body = outlet(#{ messages: [#{ role: \"assistant\", content: \"a\" }] }); assert(body.messages[-1].content.contains(\" 0\")); }\n";
    write(project, "policies/filters/signs.test.rhai", test);
    word(project, first);
}

fn command(project: &Project, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_valvehouse"));
    command.args(words).current_dir(project.folder());
    command
}

/// Runs a command. Returns its exit code and its output.
fn ran(project: &Project, words: &[&str]) -> (i32, String) {
    let output = command(project, words).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap(), text)
}

fn done(project: &Project, words: &[&str]) -> String {
    let (code, text) = ran(project, words);
    assert_eq!(code, 0, "{words:?}: {text}");
    text
}

/// Uploads the scripts and waits for all hosts. Returns the generation.
fn applied(project: &Project) -> u64 {
    let text = done(project, &["apply", "policies", "--wait"]);
    assert!(text.contains("live on"), "{text}");
    generation(&text)
}

fn generation(text: &str) -> u64 {
    let (_, rest) = text.split_once("generation ").unwrap_or_else(|| panic!("{text}"));
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

async fn ask(server: &Server, text: &str) -> (u16, Value) {
    let body = json!({"model": "plain", "messages": [{"role": "user", "content": text}]});
    server.ask("POST", "/v1/chat/completions", Some(&body)).await
}

/// Returns `true` if the guard refuses the forbidden text.
async fn is_guarded(server: &Server) -> bool {
    let (status, answer) = ask(server, "a secret").await;
    status != 200 && answer.to_string().contains("no secrets")
}

async fn text(server: &Server) -> String {
    let (status, answer) = ask(server, "hi").await;
    assert_eq!(status, 200, "{answer}");
    answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

fn nodes(project: &Project) -> Vec<Value> {
    let listed: Value = serde_json::from_str(&done(project, &["nodes", "--format", "json"])).unwrap();
    listed["nodes"].as_array().unwrap().clone()
}

async fn goes_round(upstream: &Upstream, database: Option<&str>) {
    let ours = project(upstream, database, "");
    let server = ours.serve().await;
    assert_eq!(
        text(&server).await,
        "answer",
        "a store without scripts has none, and those on disk do not count"
    );

    policies(&ours, "one");
    let first = applied(&ours);
    assert_eq!(text(&server).await, "answer one 0");
    done(&ours, &["valves", "set", "signs", "number=7"]);
    until("the valve is in force", async || text(&server).await == "answer one 7").await;

    // A script with an error or with a failing test is not uploaded.
    write(&ours, "policies/filters/broken.rhai", "fn inlet(body) {");
    let (code, output) = ran(&ours, &["apply", "policies"]);
    assert!(code == 1 && output.contains("broken.rhai"), "{output}");
    std::fs::remove_file(ours.folder().join("policies/filters/broken.rhai")).unwrap();
    write(&ours, "policies/filters/other.rhai", "fn inlet(body) { body }");
    write(&ours, "policies/filters/other.test.rhai", "fn test_no() { assert_eq(1, 2); }");
    let (code, output) = ran(&ours, &["apply", "policies"]);
    assert!(code == 1 && output.contains("test_no"), "{output}");
    for file in ["other.rhai", "other.test.rhai"] {
        std::fs::remove_file(ours.folder().join("policies/filters").join(file)).unwrap();
    }
    let same = done(&ours, &["apply", "policies"]);
    assert!(same.contains("nothing changed"), "{same}");

    // A changed module and a removed file.
    word(&ours, "two");
    write(
        &ours,
        "policies/filters/extra.rhai",
        "fn outlet(body) { body.messages[-1].content += \" extra\"; body }",
    );
    let (code, output) = ran(&ours, &["diff", "policies"]);
    assert!(
        code == 1 && output.contains("+fn word() { \"two\" }") && output.contains("extra.rhai"),
        "{output}"
    );
    let second = applied(&ours);
    assert!(second > first + 1, "the valve was a change as well");
    until("all of it is in force", async || text(&server).await.contains("two 7")).await;
    assert!(text(&server).await.contains("extra"));
    assert_eq!(ran(&ours, &["diff", "policies"]).0, 0);

    let output = done(&ours, &["rollback", &first.to_string(), "--wait"]);
    assert!(output.contains("live on 1 host"), "{output}");
    assert_eq!(text(&server).await, "answer one 7", "the scripts of then, with the valves of now");
    let (code, output) = ran(&ours, &["rollback", "999"]);
    assert!(code == 2 && output.contains(&second.to_string()), "{output}");

    // A folder with other files is changed only with `--force`.
    let (code, output) = ran(&ours, &["pull", "policies"]);
    assert!(
        code == 65 && output.contains("filters/extra.rhai") && output.contains("filters/lib/words.rhai"),
        "{output}"
    );
    done(&ours, &["pull", "policies", "--force"]);
    assert!(!ours.folder().join("policies/filters/extra.rhai").exists());
    done(&ours, &["pull", "elsewhere", "--generation", &second.to_string()]);
    for file in ["signs.rhai", "signs.test.rhai", "extra.rhai"] {
        assert!(ours.folder().join("elsewhere/filters").join(file).exists(), "{file}");
    }

    // A change that is not in the store would be lost with the next set.
    let change = json!({"id": "signs", "name": "signs", "content": SIGNS, "meta": {}});
    let (status, refusal) = server.ask("POST", "/api/v1/functions/id/signs/update", Some(&change)).await;
    assert_eq!(status, 409, "{refusal}");
    assert!(refusal.to_string().contains("valvehouse apply"), "{refusal}");

    // A host that starts later has the same scripts.
    drop(server);
    let server = ours.serve().await;
    assert_eq!(text(&server).await, "answer one 7");
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_in_a_file_store_are_applied_diffed_pulled_and_rolled_back() {
    let upstream = Upstream::start().await;
    upstream.script(answers);
    goes_round(&upstream, None).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; short: scripts_in_a_file_store_are_applied_diffed_pulled_and_rolled_back"]
async fn scripts_in_postgres_are_applied_diffed_pulled_and_rolled_back() {
    let Some(database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    upstream.script(answers);
    goes_round(&upstream, Some(&database.database())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_cannot_load_a_generation_keeps_the_previous_one() {
    let Some(database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    upstream.script(answers);
    let url = database.database();
    let ours = project(&upstream, Some(&url), "[grants.guard]\nhttp = [\"api.example.com\"]\n");
    let other = project(&upstream, Some(&url), "");
    let (server, behind) = tokio::join!(ours.serve(), other.serve());
    policies(&ours, "one");
    let first = applied(&ours);

    // The guard of the next generation has no grant on the other host.
    word(&ours, "two");
    write(&ours, "policies/filters/guard.rhai", GRANTED_GUARD);
    let (code, output) = ran(&ours, &["apply", "policies", "--wait"]);
    assert_eq!(code, 69, "{output}");
    assert!(
        output.contains("live on 1 of 2 hosts") && output.contains("cannot apply generation"),
        "{output}"
    );
    assert!(output.contains("`guard`") && output.contains("valvehouse grant guard"), "{output}");
    assert_eq!(text(&server).await, "answer two 0");
    assert!(is_guarded(&server).await, "the guard runs");
    assert_eq!(text(&behind).await, "answer one 0", "nothing of the new generation is in force");
    let late: Vec<Value> = nodes(&ours).into_iter().filter(|node| node["behind"] != 0).collect();
    assert_eq!(late.len(), 1, "{late:?}");
    assert_eq!(late[0]["generation"], first);
    assert!(late[0]["error"].to_string().contains("guard"), "{late:?}");
    assert!(!late[0]["version"].to_string().is_empty() && late[0]["since"].as_i64() > Some(0), "{late:?}");
    until("the page shows why", async || behind.problems().await.contains("cannot apply generation")).await;
    let (_, metrics) = behind.ask("GET", "/metrics", None).await;
    let metrics = metrics.as_str().unwrap();
    assert!(metrics.contains("valvehouse_generation_refused 1"), "{metrics}");
    assert!(metrics.contains("valvehouse_generation_lag 1"), "{metrics}");
    assert!(server.is_ready().await);
    assert!(!behind.is_ready().await, "a guard is missing there");

    // The valves of later generations belong to their scripts.
    done(&ours, &["valves", "get", "signs"]);
    let (code, output) = ran(&ours, &["valves", "set", "signs", "number=5"]);
    assert!(code == 69 && output.contains("1 of 2 hosts"), "{output}");
    assert_eq!(text(&server).await, "answer two 5");
    assert_eq!(text(&behind).await, "answer one 0", "half a generation is not taken");

    // Once the store grants it, the other host loads the whole generation.
    done(&ours, &["grant", "guard", "http=api.example.com"]);
    until("the other host has it", async || text(&behind).await == "answer two 5").await;
    assert!(is_guarded(&behind).await);
    until("it is ready", async || behind.is_ready().await).await;
    assert!(nodes(&ours).iter().all(|node| node["behind"] == 0 && node["error"].is_null()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generation_removes_a_guard_only_on_confirmation() {
    let upstream = Upstream::start().await;
    upstream.script(answers);
    let ours = project(&upstream, None, "");
    let server = ours.serve().await;
    policies(&ours, "one");
    write(&ours, "policies/filters/guard.rhai", GUARD);
    applied(&ours);
    assert!(is_guarded(&server).await);

    std::fs::remove_file(ours.folder().join("policies/filters/guard.rhai")).unwrap();
    word(&ours, "two");
    let (code, output) = ran(&ours, &["apply", "policies", "--wait"]);
    assert!(code == 69 && output.contains("valvehouse confirm guard"), "{output}");
    assert!(is_guarded(&server).await, "the guard runs");
    assert_eq!(text(&server).await, "answer one 0", "requests are answered as before");
    assert!(server.is_ready().await, "no guard is missing");
    done(&ours, &["confirm", "guard"]);
    until("the generation is taken", async || text(&server).await == "answer two 0").await;
    assert_eq!(ask(&server, "a secret").await.0, 200);

    // The same applies to a change that weakens a guard.
    write(&ours, "policies/filters/guard.rhai", GUARD);
    applied(&ours);
    write(&ours, "policies/filters/guard.rhai", &GUARD.replace("fn inlet", "fn outlet"));
    word(&ours, "three");
    let (code, output) = ran(&ours, &["apply", "policies", "--wait"]);
    assert!(code == 69 && output.contains("valvehouse confirm guard"), "{output}");
    assert_eq!(text(&server).await, "answer two 0");
    assert!(is_guarded(&server).await);
    done(&ours, &["confirm", "guard"]);
    until("the generation is taken", async || text(&server).await == "answer three 0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generation_for_newer_hosts_is_ignored_by_older_ones() {
    let upstream = Upstream::start().await;
    upstream.script(answers);
    let ours = project(&upstream, None, "");
    let mut server = ours.serve().await;
    policies(&ours, "one");
    let first = applied(&ours);
    word(&ours, "two");
    let (code, output) = ran(&ours, &["apply", "policies", "--needs", "later"]);
    assert!(code == 65 && output.contains("the invalid version \"later\""), "{output}");
    let (code, output) = ran(&ours, &["apply", "policies", "--needs", "99.1.0", "--wait"]);
    assert!(code == 69 && output.contains("it needs a host of version 99.1.0 or later"), "{output}");
    assert_eq!(text(&server).await, "answer one 0");
    assert!(server.is_ready().await, "no guard is missing");
    // A host that starts loads the latest generation that it can run.
    server.kill();
    server = ours.serve().await;
    assert_eq!(text(&server).await, "answer one 0");
    let output = done(&ours, &["rollback", &first.to_string(), "--wait"]);
    assert!(output.contains("live on 1 host"), "{output}");
    assert!(nodes(&ours).iter().all(|node| node["error"].is_null()));
}

fn spawned(project: &Project) -> Child {
    let mut command = command(project, &["apply", "policies", "--no-test"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

async fn stored_sets(folder: &Path) -> Vec<(u64, Result<(), String>)> {
    let store = Store::sqlite(&folder.join(".valvehouse/state.db")).await.unwrap();
    let mut sets = Vec::new();
    for set in store.script_sets().await.unwrap() {
        let files = store.script_files(set.generation).await.unwrap();
        assert_eq!(files.len(), 203);
        sets.push((
            set.generation,
            SetManifest::parse(&set.manifest).unwrap().check(&files).map_err(|error| error.to_string()),
        ));
    }
    sets
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; short: a_host_that_cannot_load_a_generation_keeps_the_previous_one"]
async fn a_killed_upload_leaves_no_partial_generation() {
    let upstream = Upstream::start().await;
    let ours = project(&upstream, None, "");
    policies(&ours, "first");
    for number in 0..200 {
        write(&ours, &format!("policies/tools/lib/m{number}.rhai"), &format!("fn f() {{ {number} }}\n"));
    }
    let since = std::time::Instant::now();
    assert!(spawned(&ours).wait().unwrap().success());
    let whole = since.elapsed();
    for part in 1..=10u32 {
        word(&ours, &format!("word_{part}"));
        let mut upload = spawned(&ours);
        // Most of the time is spent on checks, so a late kill is close to the transaction.
        tokio::time::sleep(whole * part / 10 - Duration::from_millis(5)).await;
        upload.kill().unwrap();
        upload.wait().unwrap();
        let sets = stored_sets(ours.folder()).await;
        assert!(sets.iter().all(|(_, check)| check.is_ok()), "{sets:?}");
    }
}

const PUBLIC_KEY: &str = "RWR2YWx2ZWhvdV/1p9QKvyaoPsrXoHyNX2LZt50GmrZvuXnB8r6oUzbi";

/// The signature of a set that contains only [`SIGNED`].
const SIGNATURE: &str = "untrusted comment: signature of the tests
RUR2YWx2ZWhvdbUkmUf3hLXkwmdYzpbXiUbSNek6ysKFDoXjBjDIojRqU5mhqhBT7xl+PZNVU6s2P1LwcKDsSO4Sc5wk8gytDAQ=
trusted comment: a set of the tests
+TSpiWw3RNFF6hJSh4rcSzdSzeauoAz/OI6r/9f+Ai/HBZJjsL7m7KV91xNua+Qv5BazwrmkSmpTLps7IfjSDg==
";

const SIGNED: &str = "fn outlet(body) { body.messages[-1].content += \" signed\"; body }\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_a_public_key_accepts_only_signed_scripts() {
    let upstream = Upstream::start().await;
    upstream.script(answers);
    let ours = project(&upstream, None, &format!("public_key = \"{PUBLIC_KEY}\"\n"));
    let server = ours.serve().await;
    write(&ours, "policies/filters/signed.rhai", SIGNED);
    write(&ours, "set.minisig", SIGNATURE);
    let apply = ["apply", "policies", "--needs", "0.1.0", "--wait"];
    let (code, output) = ran(&ours, &apply);
    assert!(code == 2 && output.contains("--manifest"), "{output}");
    let signed = [&apply[..], &["--signature", "set.minisig"]].concat();
    done(&ours, &signed);
    assert_eq!(text(&server).await, "answer signed");

    write(
        &ours,
        "policies/filters/other.rhai",
        "fn outlet(body) { body.messages[-1].content += \" other\"; body }",
    );
    let (code, output) = ran(&ours, &signed);
    assert!(code == 2 && output.contains("its signature does not match folders.public_key"), "{output}");
    assert_eq!(text(&server).await, "answer signed");
}

/// The key of another pair, and the signatures of two sets with a reader. They sign the output of `apply
/// --manifest`, including its final line break.
const READERS_KEY: &str = "RWR2aGd1YXJkc24cc0skwqvyPTCuI3XB2AbLOj6fXY80xyVluyyBiZyj";
const READER: &str = "fn outlet(body) { body.messages[-1].content += \" read\"; body }\n";
const READER_SIGNATURE: &str = "untrusted comment: signature of the tests
RUR2aGd1YXJkc0no0vLjMkQoX4xmliuaMkPnkrZceV4jzjrAiZWCG0V5Yn3vvAW13ubH7YJRRizNeAbXNMW+zXQS7izFkoQvawI=
trusted comment: a set of the tests
+acYq+LWOYnU8i+kv6Pq3xjoixInuomnMNIjk8Dt5uFpOzT/jUh0KUjfW5VrBvWMMBfW3VqJ3rEh/xmTRwPOAg==
";
const GRANTED_READER_SIGNATURE: &str = "untrusted comment: signature of the tests
RUR2aGd1YXJkcy/QsLFTExdrtANNn2lUzMupiV7Sfb+kuixgXo/8Ia7wsFaX3LAwHa02totmhvnYMAEaOxqYVgordqB/p0fLZAk=
trusted comment: a set of the tests
l6GM/+VUU09irKIQ7f9/An+pFxhoiCeGZJeCHQZqvTggNM3NEjjI6UNKs5vNwJKy2YOO7Ro0xni70C2LNLW0Cw==
";

#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_a_public_key_runs_no_unsigned_stored_version() {
    let upstream = Upstream::start().await;
    upstream.script(answers);
    let ours = project(&upstream, None, &format!("public_key = \"{READERS_KEY}\"\n"));
    let server = ours.serve().await;
    write(&ours, "policies/filters/reader.rhai", READER);
    write(&ours, "set.minisig", READER_SIGNATURE);
    let apply = ["apply", "policies", "--needs", "0.1.0", "--wait", "--signature", "set.minisig"];
    done(&ours, &apply);
    assert_eq!(text(&server).await, "answer read");

    // The next signed set does not load on this host.
    write(&ours, "policies/filters/reader.rhai", &format!("/*\nrequirements: files\n*/\n{READER}"));
    write(&ours, "set.minisig", GRANTED_READER_SIGNATURE);
    let grants = ["--set", "grants.reader.files=[\"data\"]"];
    let (code, output) = ran(&ours, &[&apply[..], &grants].concat());
    assert!(code == 69 && output.contains("`reader`"), "{output}");
    assert_eq!(text(&server).await, "answer read");
    drop(server);

    // An attacker with access to the database and without the signing key.
    let store = Store::sqlite(&ours.folder().join(".valvehouse/state.db")).await.unwrap();
    let mut rows = store.last_good().await.unwrap();
    for row in &mut rows {
        row.source = row.source.replace(" read", " EVIL");
    }
    store.save_last_good(&rows).await.unwrap();
    drop(store);
    let server = ours.serve().await;
    assert_eq!(text(&server).await, "answer", "the signed script does not load, and nothing takes its place");
    assert!(nodes(&ours)[0]["error"].to_string().contains("reader"), "{:?}", nodes(&ours));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_loads_a_generation_partially_reports_it() {
    let Some(database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    upstream.script(answers);
    let url = database.database();
    let ours = project(&upstream, Some(&url), "[grants.guard]\nhttp = [\"api.example.com\"]\n");
    let other = project(&upstream, Some(&url), "");
    let server = ours.serve().await;
    policies(&ours, "one");
    write(&ours, "policies/filters/guard.rhai", GRANTED_GUARD);
    let first = applied(&ours);

    // The guard has no grant here: the host refuses requests and reports the problem.
    let behind = other.serve().await;
    assert_eq!(ask(&behind, "hi").await.0, 503);
    assert!(!behind.is_ready().await, "a guard is missing there");
    assert!(behind.problems().await.contains("cannot apply generation"));
    let (_, metrics) = behind.ask("GET", "/metrics", None).await;
    let metrics = metrics.as_str().unwrap();
    assert!(metrics.contains("valvehouse_generation_refused 1"), "{metrics}");
    until("the others see it", async || {
        let late: Vec<Value> = nodes(&ours).into_iter().filter(|node| node["behind"] != 0).collect();
        late.len() == 1
            && late[0]["generation"] == first - 1
            && late[0]["error"].to_string().contains("guard")
    })
    .await;
    let (code, output) = ran(&ours, &["apply", "policies", "--wait"]);
    assert!(code == 69 && output.contains("live on 1 of 2 hosts"), "{output}");
    assert!(server.is_ready().await);

    done(&ours, &["grant", "guard", "http=api.example.com"]);
    until("the guard runs there", async || ask(&behind, "hi").await.0 == 200).await;
    until("it is ready", async || behind.is_ready().await).await;
    assert!(is_guarded(&behind).await);
    until("all are level", async || {
        nodes(&ours).iter().all(|node| node["behind"] == 0 && node["error"].is_null())
    })
    .await;
}
