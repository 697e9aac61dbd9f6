//! Hosts without their database: they keep running, start from their snapshots, and converge when it is back.

use super::serve::{Project, Server};
use crate::host::until;
use crate::upstream::{MODEL, Reply, Upstream, UpstreamRequest};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use valvehouse::config::{Secret, SecretSource};
use valvehouse::store::Store;
use valvehouse_testkit::by_length;
use valvehouse_testkit::postgres::Postgres;

/// The number of outages, without and with VALVEHOUSE_CASES.
const MIN_OUTAGES: usize = 2;
const MAX_OUTAGES: usize = 60;

/// The number of requests while the database is away: in a long run, one hour of ten per second.
const MIN_REQUESTS: u64 = 800;
const MAX_REQUESTS: u64 = 36_000;

const KEY: &str = "the same key on every host of this test";
/// The URL that sets the valves.
const UPDATE: &str = "/api/v1/functions/id/signs/valves/update";

/// Adds its valve to each response and counts the requests durably.
const SIGNS: &str = "/*
requirements: kv
*/
const Valves = #{ number: 0 };
fn inlet(body) { kv::incr(\"requests\"); body }
fn outlet(body, valves) { body.messages[-1].content += ` ${valves.number}`; body }
";

const GUARD: &str = "/*
security: true
*/
fn inlet(body) { if body.messages[-1].content.contains(\"secret\") { return error(\"no secrets\"); } }
";

/// An operator switches it off.
const LOUD: &str = "fn outlet(body) { body.messages[-1].content += \" LOUD\"; body }";

fn answers(_: &UpstreamRequest) -> Reply {
    let message = json!({"role": "assistant", "content": "answer"});
    Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
}

/// Creates a project whose scripts are in its store.
fn project(upstream: &Upstream, database: &str) -> Project {
    let project = Project::new(&upstream.url());
    for (name, text) in [("signs", SIGNS), ("guard", GUARD), ("loud", LOUD)] {
        let path = project.folder().join(format!("policies/filters/{name}.rhai"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    project.configure(&format!(
        "[[models]]\nname = \"plain\"\nprovider = \"mock\"\nmodel = \"mock-1\"\n[folders]\nsource = \"store\"\n\
         [store]\nurl = \"{database}\"\nkey = \"{KEY}\"\nconnect_ms = 1000\n[grants.signs]\nkv = true\n"
    ));
    project
}

/// Starts two hosts that run the scripts in their database.
async fn two_hosts(upstream: &Upstream, database: &str) -> ([Project; 2], Vec<Server>) {
    let projects = [0; 2].map(|_| project(upstream, database));
    let servers = futures::future::join_all(projects.iter().map(Project::serve)).await;
    done(&projects[0], &["apply", "policies", "--wait"]);
    (projects, servers)
}

fn command(project: &Project, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_valvehouse"));
    let output = command.args(words).current_dir(project.folder()).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap(), text)
}

fn done(project: &Project, words: &[&str]) {
    let (code, text) = command(project, words);
    assert_eq!(code, 0, "{words:?}: {text}");
}

async fn ask(server: &Server, text: &str) -> (u16, Value) {
    let body = json!({"model": "plain", "messages": [{"role": "user", "content": text}]});
    server.ask("POST", "/v1/chat/completions", Some(&body)).await
}

async fn text(server: &Server) -> String {
    let (status, answer) = ask(server, "hi").await;
    assert_eq!(status, 200, "{answer}");
    answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

async fn is_guarded(server: &Server) -> bool {
    let (status, answer) = ask(server, "a secret").await;
    status != 200 && answer.to_string().contains("no secrets")
}

async fn metric(server: &Server, name: &str) -> Option<f64> {
    let (_, text) = server.ask("GET", "/metrics", None).await;
    let text = text.as_str().unwrap_or_default().to_owned();
    let line = text.lines().find(|line| line.split([' ', '{']).next() == Some(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Sets the valve. Returns `true` if the host accepted it; a refusal must give the reason.
async fn sets(server: &Server, number: u64) -> bool {
    let (status, answer) = server.ask("POST", UPDATE, Some(&json!({"number": number}))).await;
    if status != 200 {
        assert_eq!(status, 503, "{answer}");
        assert!(answer.to_string().contains("database does not answer"), "{answer}");
    }
    status == 200
}

/// Waits until the host has a snapshot of the current generation.
async fn is_saved(server: &Server, store: &Store) {
    let generation = store.generation().await.unwrap() as f64;
    until("the snapshot is written", async || {
        metric(server, "valvehouse_store_snapshot_generation").await == Some(generation)
    })
    .await;
}

async fn open(url: &str) -> Store {
    Store::postgres(url, Some(&SecretSource::Literal(Secret::new(KEY)))).await.unwrap()
}

/// Returns the number of requests that the script counted.
async fn counted(url: &str) -> u64 {
    let store = open(url).await;
    let rows = store.kv_all().await.unwrap();
    store.close().await;
    rows.iter().find(|row| row.key == "requests").map_or(0, |row| row.value.as_i64().unwrap().unsigned_abs())
}

/// Sends requests to a host until it is dropped.
struct Load {
    ends: std::sync::Arc<AtomicBool>,
    answered: std::sync::Arc<AtomicU64>,
    asking: tokio::task::JoinHandle<()>,
}

impl Load {
    fn on(server: &Server) -> Self {
        let (ends, answered) =
            (std::sync::Arc::<AtomicBool>::default(), std::sync::Arc::<AtomicU64>::default());
        let chats = server.chats();
        let (until, count) = (ends.clone(), answered.clone());
        let asking = tokio::spawn(async move {
            while !until.load(SeqCst) {
                let (status, answer) = chats.asks_model("plain", "hi").await;
                assert_eq!(status, 200, "{answer}");
                count.fetch_add(1, SeqCst);
            }
        });
        Self { ends, answered, asking }
    }

    /// Waits for further responses.
    async fn goes_on(&self) {
        let before = self.answered.load(SeqCst);
        until("requests are answered", async || {
            assert!(!self.asking.is_finished(), "a request failed");
            self.answered.load(SeqCst) > before + 5
        })
        .await;
    }

    /// Stops the load. Returns the number of responses; fails if a request failed.
    async fn end(self) -> u64 {
        self.ends.store(true, SeqCst);
        self.asking.await.unwrap();
        self.answered.load(SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; short: counts_made_during_an_outage_survive_crashes"]
async fn hosts_run_and_start_without_their_database_and_converge_later() {
    let Some(mut database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    upstream.script(answers);
    let url = database.database();
    let (projects, mut servers) = two_hosts(&upstream, &url).await;
    let (status, answer) = servers[0].ask("POST", "/api/v1/functions/id/loud/toggle", None).await;
    assert_eq!(status, 200, "{answer}");
    assert!(sets(&servers[0], 7).await);
    let outages = by_length(MIN_OUTAGES, MAX_OUTAGES);
    let mut expected = 0;
    for outage in 0..outages {
        let number = 7 + outage as u64;
        let store = open(&url).await;
        for server in &servers {
            until("the valve is in force", async || text(server).await == format!("answer {number}")).await;
            // The first snapshot of a host is written after its first generation counts as applied.
            if outage == 0 {
                is_saved(server, &store).await;
            }
        }
        // What counts as applied is still there after a restart without the database.
        let generation = store.generation().await.unwrap();
        until("both hosts have applied it", async || {
            let hosts = store.hosts().await.unwrap();
            hosts.iter().filter(|host| host.applied_generation >= generation).count() >= 2
        })
        .await;
        store.close().await;

        let load = Load::on(&servers[0]);
        load.goes_on().await;
        database.kill();
        load.goes_on().await;
        assert!(!sets(&servers[0], 1000).await, "nobody changes what nobody stores");
        // The other host dies and starts without the database, with the same behavior and guards.
        servers.pop().unwrap().kill();
        let cold = projects[1].serve().await;
        for _ in 0..20 {
            assert_eq!(
                text(&cold).await,
                format!("answer {number}"),
                "valves, switches and scripts are there"
            );
            assert!(is_guarded(&cold).await);
        }
        assert!(!sets(&cold, 1000).await);
        assert_eq!(text(&cold).await, format!("answer {number}"), "what was refused is not in force");
        assert!(cold.is_ready().await, "another host is no better off");
        let (_, ready) = cold.ask("GET", "/readyz?verbose", None).await;
        assert!(ready.to_string().contains("the snapshot of generation"), "{ready}");
        assert!(cold.problems().await.contains("V229"), "{}", cold.problems().await);
        assert_eq!(metric(&cold, "valvehouse_store_up").await, Some(0.0));
        assert!(metric(&cold, "valvehouse_store_snapshot_age_seconds").await.is_some());
        // After another restart it still has the counts since then.
        let mut cold = cold;
        cold.kill();
        let cold = projects[1].serve().await;
        assert_eq!(text(&cold).await, format!("answer {number}"));
        load.goes_on().await;
        let answered = load.end().await;
        assert!(answered > 0);

        database.resume();
        servers.push(cold);
        until("the store is back", async || sets(&servers[1], number + 1).await).await;
        for server in &servers {
            until("the valve is in force", async || text(server).await == format!("answer {}", number + 1))
                .await;
            until("nothing is wrong", async || !server.problems().await.contains("V229")).await;
        }
        let now = counted(&url).await;
        assert!(now > expected, "what was counted while the database was away is in it: {now}");
        expected = now;
    }

    // A generation that the hosts refuse is in no snapshot.
    std::fs::remove_file(projects[0].folder().join("policies/filters/guard.rhai")).unwrap();
    let (code, output) = command(&projects[0], &["apply", "policies", "--wait"]);
    assert_eq!(code, 69, "{output}");
    for server in &servers {
        assert!(is_guarded(server).await);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    database.kill();
    servers.pop().unwrap().kill();
    let cold = projects[1].serve().await;
    assert!(is_guarded(&cold).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_file_deleted_during_an_outage_is_reported_missing() {
    let Some(mut database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    upstream.script(answers);
    let url = database.database();
    let project = project(&upstream, &url);
    project.filter("guard", GUARD);
    let file = project.folder().join("valvehouse.toml");
    let settings = std::fs::read_to_string(&file).unwrap().replace("source = \"store\"", "");
    std::fs::write(&file, settings).unwrap();
    let mut server = project.serve().await;
    assert!(is_guarded(&server).await);
    let store = open(&url).await;
    until("the guard is in the store", async || !store.last_good().await.unwrap().is_empty()).await;
    is_saved(&server, &store).await;
    // The snapshot is written shortly after the generation.
    tokio::time::sleep(Duration::from_secs(2)).await;
    store.close().await;
    database.kill();
    server.kill();
    std::fs::remove_file(project.folder().join("filters/guard.rhai")).unwrap();
    let server = project.serve().await;
    let (status, answer) = ask(&server, "hi").await;
    assert!(status != 200 && answer.to_string().contains("guard"), "{answer}");
    project.filter("guard", GUARD);
    until("the guard is back", async || ask(&server, "hi").await.0 == 200).await;
    assert!(is_guarded(&server).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_made_during_an_outage_survive_crashes() {
    let Some(mut database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    upstream.script(answers);
    let url = database.database();
    let project = project(&upstream, &url);
    let mut server = project.serve().await;
    done(&project, &["apply", "policies", "--wait"]);
    let store = open(&url).await;
    is_saved(&server, &store).await;
    store.close().await;
    database.kill();
    let mut attempts = 0;
    for _ in 0..3 {
        for _ in 0..10 {
            text(&server).await;
            attempts += 1;
        }
        server.kill();
        server = project.serve().await;
    }
    // The host is killed once more, and the next one has its database.
    server.kill();
    database.resume();
    let server = project.serve().await;
    assert_eq!(counted(&url).await, attempts);
    text(&server).await;
    until("it goes on counting", async || counted(&url).await == attempts + 1).await;
    // The running host may be writing a snapshot at this moment.
    until("no file of a host that was killed is left", async || {
        let left = std::fs::read_dir(project.folder().join(".valvehouse")).unwrap().flatten();
        !left.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("snapshot."))
    })
    .await;
}

/// Sends a number of requests from several concurrent clients. Every request must succeed.
async fn asks_often(server: &Server, requests: u64) {
    const CLIENTS: u64 = 4;
    let asking = (0..CLIENTS).map(|client| {
        let chats = server.chats();
        async move {
            for _ in (client..requests).step_by(CLIENTS as usize) {
                let (status, answer) = chats.asks_model("plain", "hi").await;
                assert_eq!(status, 200, "{answer}");
            }
        }
    });
    futures::future::join_all(asking).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; short: counts_made_during_an_outage_survive_crashes"]
async fn an_hour_long_outage_loses_no_request_and_no_count() {
    let Some(mut database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    upstream.script(answers);
    let url = database.database();
    let (projects, mut servers) = two_hosts(&upstream, &url).await;
    let store = open(&url).await;
    for server in &servers {
        is_saved(server, &store).await;
    }
    store.close().await;
    database.kill();

    let requests = by_length(MIN_REQUESTS, MAX_REQUESTS);
    let began = std::time::Instant::now();
    futures::join!(asks_often(&servers[0], requests / 2), asks_often(&servers[1], requests / 4));
    servers[1].signal("TERM");
    servers[1].ends().await;
    servers[1] = projects[1].serve().await;
    asks_often(&servers[1], requests / 4).await;
    println!("{requests} requests without a database in {:?}, one host started anew", began.elapsed());

    database.resume();
    until("every request is counted", async || counted(&url).await == requests).await;
}

/// Runs a host that must not start. Returns its output.
fn refusal(project: &Project) -> String {
    let (code, text) = command(project, &["serve", "--port", "0"]);
    assert_ne!(code, 0, "{text}");
    text
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; short: counts_made_during_an_outage_survive_crashes"]
async fn a_host_starts_only_from_its_own_complete_snapshot() {
    let Some(mut database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    upstream.script(answers);
    let (url, other) = (database.database(), database.database());
    let project = project(&upstream, &url);
    let mut server = project.serve().await;
    done(&project, &["apply", "policies", "--wait"]);
    let store = open(&url).await;
    is_saved(&server, &store).await;
    store.close().await;
    server.kill();
    let file: PathBuf = project.folder().join(".valvehouse/snapshot");
    let whole = std::fs::read(&file).unwrap();
    let settings = std::fs::read_to_string(project.folder().join("valvehouse.toml")).unwrap();
    let set = |from: &str, to: &str| {
        assert!(settings.contains(from));
        std::fs::write(project.folder().join("valvehouse.toml"), settings.replace(from, to)).unwrap();
    };
    let plain = String::from_utf8_lossy(&whole);
    assert!(!plain.contains("no secrets") && !plain.contains("signs"), "it is sealed");

    // A database that refuses the connection is not considered away.
    set(&url, &url.replace("/test_0", "/never_made"));
    let refused = refusal(&project);
    assert!(refused.contains("does not exist"), "{refused}");

    database.kill();
    set(&url, &other);
    let refused = refusal(&project);
    assert!(refused.contains("it belongs to the database") && refused.contains("store.url"), "{refused}");
    set(KEY, "another key that is as long as it must be");
    let refused = refusal(&project);
    assert!(refused.contains("sealed with another key"), "{refused}");
    set("connect_ms = 1000", "connect_ms = 1000\nsnapshot = false");
    let refused = refusal(&project);
    assert!(refused.contains("can be reached from this host") && !refused.contains("snapshot"), "{refused}");
    set(KEY, KEY);

    let head = whole.iter().position(|byte| *byte == b'\n').unwrap();
    let mut changed = whole.clone();
    let middle = head + (whole.len() - head) / 2;
    changed[middle] = if changed[middle] == b'A' { b'B' } else { b'A' };
    let generation = String::from_utf8_lossy(&whole).replacen("\"generation\":", "\"generation\":1", 1);
    for damaged in [&changed[..], &whole[..head], &whole[..middle], b"", generation.as_bytes()] {
        std::fs::write(&file, damaged).unwrap();
        let refused = refusal(&project);
        assert!(refused.contains("it is damaged") && refused.contains("remove it"), "{refused}");
    }
    std::fs::write(&file, [&whole[..], b"more\n"].concat()).unwrap();
    let refused = refusal(&project);
    assert!(refused.contains("it is damaged"), "{refused}");
    std::fs::remove_file(&file).unwrap();
    // A pipe has no writer, and a device never ends.
    for (program, arguments) in [("mkfifo", vec![]), ("ln", vec!["-s", "/dev/zero"])] {
        let made = std::process::Command::new(program).args(arguments).arg(&file).status();
        assert!(made.unwrap().success());
        let refused = refusal(&project);
        assert!(refused.contains("not a regular file"), "{refused}");
        std::fs::remove_file(&file).unwrap();
    }
    let later = String::from_utf8_lossy(&whole).replacen("\"format\":1", "\"format\":2", 1);
    std::fs::write(&file, later).unwrap();
    let refused = refusal(&project);
    assert!(refused.contains("a later version of valvehouse"), "{refused}");
    std::fs::remove_file(&file).unwrap();
    let refused = refusal(&project);
    assert!(refused.contains("no snapshot to start from"), "{refused}");

    std::fs::write(&file, whole).unwrap();
    let server = project.serve().await;
    assert!(is_guarded(&server).await);
}
