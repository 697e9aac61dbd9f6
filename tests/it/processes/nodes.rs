//! Hosts in separate folders on one Postgres database.

use super::serve::{Project, Server};
use crate::host::{TIMEOUT, until};
use crate::upstream::{MODEL, Reply, Upstream, UpstreamRequest};
use serde_json::json;
use std::process::Command;
use std::time::{Duration, Instant};
use valvehouse::config::{Secret, SecretSource};
use valvehouse::store::Store;
use valvehouse_testkit::postgres::Postgres;

const KEY: &str = "the same key on every host of this test";

/// The URL that sets the valves.
const UPDATE: &str = "/api/v1/functions/id/signs/valves/update";

/// Adds its valve to each response.
const SIGNS: &str = "const Valves = #{ number: 0 };
fn outlet(body, valves) { body.messages[-1].content += ` ${valves.number}`; body }
";

fn answers(_: &UpstreamRequest) -> Reply {
    let message = json!({"role": "assistant", "content": "answer"});
    Reply::json(&json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
}

fn project(upstream: &Upstream, database: &str) -> Project {
    let project = Project::new(&upstream.url());
    project.filter("signs", SIGNS);
    project.configure(&format!(
        "[[models]]\nname = \"plain\"\nprovider = \"mock\"\nmodel = \"mock-1\"\n\
         [store]\nurl = \"{database}\"\nkey = \"the same key on every host of this test\"\n"
    ));
    project
}

/// Returns the text of one response of a model without a memory.
async fn text(server: &Server) -> String {
    let body = json!({"model": "plain", "messages": [{"role": "user", "content": "hi"}]});
    let (status, answer) = server.ask("POST", "/v1/chat/completions", Some(&body)).await;
    assert_eq!(status, 200, "{answer}");
    answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

async fn set(server: &Server, number: u64) {
    let (status, answer) = server.ask("POST", UPDATE, Some(&json!({"number": number}))).await;
    assert_eq!(status, 200, "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_valve_set_at_one_host_applies_to_all_and_a_database_outage_fails_no_request() {
    let Some(mut database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    upstream.script(answers);
    let url = database.database();
    let projects = [0; 3].map(|_| project(&upstream, &url));
    let mut servers = futures::future::join_all(projects.iter().map(Project::serve)).await;

    let mut delays = Vec::new();
    for number in 1..=30u64 {
        let (from, wanted) = (&servers[number as usize % 3], format!("answer {number}"));
        set(from, number).await;
        let since = Instant::now();
        for server in &servers {
            until("the valve is in force", async || text(server).await == wanted).await;
        }
        delays.push(since.elapsed());
    }
    delays.sort();
    println!(
        "in force on three hosts: median {:?}, worst {:?}",
        delays[delays.len() / 2],
        delays[delays.len() - 1]
    );

    let listed = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_valvehouse"));
        command.args(["nodes", "--format", "json"]).current_dir(projects[0].folder());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    until("all hosts say that they serve it", async || {
        let nodes = listed();
        let nodes = nodes["nodes"].as_array().unwrap();
        nodes.len() == 3 && nodes.iter().all(|node| node["behind"] == 0)
    })
    .await;

    // A killed host affects no other host and leaves the list.
    servers.pop().unwrap().kill();
    set(&servers[0], 77).await;
    until("the valve is in force", async || text(&servers[1]).await == "answer 77").await;
    until("the killed one is gone", async || listed()["nodes"].as_array().unwrap().len() == 2).await;

    database.kill();
    for _ in 0..50 {
        assert_eq!(text(&servers[0]).await, "answer 77", "the last settings go on without the database");
    }
    for _ in 0..2 {
        assert!(servers[1].is_ready().await, "another host is no better off");
    }
    let (status, refusal) = servers[0].ask("POST", UPDATE, Some(&json!({"number": 5}))).await;
    assert_eq!(status, 503, "{refusal}");
    assert!(refusal.to_string().contains("database does not answer"), "{refusal}");
    assert_eq!(text(&servers[0]).await, "answer 77", "what was refused is not in force");
    database.resume();
    let since = Instant::now();
    loop {
        let update = json!({"number": 78});
        let (status, answer) = servers[0].ask("POST", UPDATE, Some(&update)).await;
        if status == 200 {
            break;
        }
        assert!(since.elapsed() < TIMEOUT, "{answer}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    until("the valve is in force", async || text(&servers[1]).await == "answer 78").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_continues_at_another_host() {
    let Some(database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    upstream.script(answers);
    let url = database.database();
    let projects = [0; 2].map(|_| project(&upstream, &url));
    let mut servers = futures::future::join_all(projects.iter().map(Project::serve)).await;
    for round in 0..6usize {
        let (status, answer) = servers[round % 2].tries("shared", &format!("round {round}")).await;
        assert_eq!(status, 200, "{answer}");
    }
    let last = upstream.requests().last().unwrap().json()["messages"].as_array().unwrap().len();
    assert_eq!(last, 11, "each host has the messages of the other");
    servers.remove(0).kill();
    servers[0].send("shared", "still there?").await;
    assert_eq!(upstream.requests().last().unwrap().json()["messages"].as_array().unwrap().len(), 13);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_store_can_be_moved_to_a_database() {
    let Some(database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    upstream.script(answers);
    let url = database.database();
    let ours = Project::new(&upstream.url());
    ours.filter("signs", SIGNS);
    ours.configure("[[models]]\nname = \"plain\"\nprovider = \"mock\"\nmodel = \"mock-1\"\n");
    let mut server = ours.serve().await;
    set(&server, 41).await;
    server.send("shared", "remember me").await;
    let copied = |key: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_valvehouse"));
        command.args(["store", "copy", "sqlite://.valvehouse/state.db", "env:TARGET", "--to-key", key]);
        command.env("TARGET", &url).current_dir(ours.folder());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let (code, refusal) = copied("the same key on every host of this test");
    assert!(code != Some(0) && refusal.contains("a host is running on it; stop it first"), "{refusal}");
    server.signal("TERM");
    server.ends().await;
    let (code, refusal) = copied("env:NOT_SET");
    assert!(code != Some(0) && refusal.contains("NOT_SET is not set"), "{refusal}");
    let (code, text_of_it) = copied("the same key on every host of this test");
    assert_eq!(code, Some(0), "{text_of_it}");
    assert!(text_of_it.contains("valves") && text_of_it.contains("conversations"), "{text_of_it}");

    let moved = project(&upstream, &url);
    let server = moved.serve().await;
    assert_eq!(text(&server).await, "answer 41");
    server.send("shared", "who am I?").await;
    let sent = upstream.requests().last().unwrap().json();
    assert_eq!(sent["messages"][0]["content"], json!("remember me"), "{sent}");
    set(&server, 42).await;
    until("the valve is in force", async || text(&server).await == "answer 42").await;
}

/// Counts all turns and limits their number.
const COUNTS: &str = "/*
requirements: kv
*/
fn inlet(body) {
    kv::incr(\"turns\");
    if !kv::window(\"turns within an hour\", 3_600, 60).allowed { throw #{ status: 429, message: \"enough\" }; }
    body
}
fn outlet(body) { body.messages[-1].content += ` after ${kv::get(\"turns\")}`; body }
";

#[tokio::test(flavor = "multi_thread")]
async fn hosts_share_counters_and_rate_limits() {
    const LIMIT: usize = 60;
    let Some(database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    upstream.script(answers);
    let url = database.database();
    let projects = [0; 3].map(|_| project(&upstream, &url));
    projects.iter().for_each(|project| project.filter("counts", COUNTS));
    let servers = futures::future::join_all(projects.iter().map(Project::serve)).await;
    let body = json!({"model": "plain", "messages": [{"role": "user", "content": "hi"}]});
    let ask = async |server: &Server| server.ask("POST", "/v1/chat/completions", Some(&body)).await;
    // Counts of one host soon reach the others.
    let (mut attempts, mut in_a_row) = (0, 0);
    while in_a_row < servers.len() {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let (status, answer) = ask(&servers[attempts % servers.len()]).await;
        attempts += 1;
        assert_eq!(status, 200, "not all turns are known in time: {answer}");
        let text = answer["choices"][0]["message"]["content"].as_str().unwrap();
        in_a_row = if format!("{text} ").contains(&format!(" after {attempts} ")) { in_a_row + 1 } else { 0 };
    }
    // Then all hosts are under full load until each refuses permanently.
    let before = attempts;
    let load = servers.iter().map(async |server| {
        let (mut refused, mut attempts) = (0, 0);
        while refused < 40 {
            let (status, answer) = ask(server).await;
            assert!(status == 200 || status == 429, "{answer}");
            refused = if status == 429 { refused + 1 } else { 0 };
            attempts += 1;
            if refused > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        attempts
    });
    let attempts: Vec<usize> = futures::future::join_all(load).await;
    let passed = upstream.requests().len();
    println!("{passed} of {LIMIT} passed at three hosts that got {attempts:?} requests");
    assert!((LIMIT..=LIMIT + 2 * LIMIT.div_ceil(6)).contains(&passed), "{passed}");
    let store = Store::postgres(&url, Some(&SecretSource::Literal(Secret::new(KEY)))).await.unwrap();
    until("all turns are counted", async || {
        let rows = store.kv_all().await.unwrap();
        let turns = rows.iter().find(|row| row.key == "turns").and_then(|row| row.value.as_i64()).unwrap();
        turns as usize == before + attempts.iter().sum::<usize>()
    })
    .await;
    store.close().await;
}

/// Adds each message to a list: at the beginning of a turn, in its stream and at its end.
const LISTS: &str = "/*
requirements: kv
*/
fn inlet(body, state) {
    state.question = body.messages[-1].text;
    kv::update(\"questions\", |list| (list ?? []) + [state.question]);
}
fn stream(event, state) {
    if state.streamed == () {
        state.streamed = true;
        kv::update(\"streamed\", |list| (list ?? []) + [state.question]);
    }
}
fn outlet(body, state) { kv::update(\"answered\", |list| (list ?? []) + [state.question]); }
";

#[tokio::test(flavor = "multi_thread")]
async fn script_updates_at_several_hosts_are_not_lost() {
    const QUESTIONS: usize = 12;
    let Some(database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    upstream.script(answers);
    let url = database.database();
    let projects = [0; 3].map(|_| project(&upstream, &url));
    for project in &projects {
        project.filter("lists", LISTS);
    }
    let servers = futures::future::join_all(projects.iter().map(Project::serve)).await;
    let people = servers.iter().enumerate().flat_map(|(host, server)| {
        (0..2).map(move |person| async move {
            for question in 0..QUESTIONS {
                let text = format!("{host} {person} {question}");
                let body = json!({"model": "plain", "messages": [{"role": "user", "content": text}]});
                let (status, answer) = server.ask("POST", "/v1/chat/completions", Some(&body)).await;
                assert_eq!(status, 200, "{answer} {}", server.problems().await);
            }
        })
    });
    futures::future::join_all(people).await;
    let store = Store::postgres(&url, Some(&SecretSource::Literal(Secret::new(KEY)))).await.unwrap();
    let rows = store.kv_all().await.unwrap();
    for list in ["questions", "streamed", "answered"] {
        let row = rows.iter().find(|row| row.key == list).unwrap();
        let mut questions: Vec<String> = row.value.items().iter().map(ToString::to_string).collect();
        questions.sort_unstable();
        questions.dedup();
        assert_eq!(questions.len(), 3 * 2 * QUESTIONS, "{list}");
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_share_the_request_limit_of_a_client() {
    const LIMIT: usize = 120;
    let Some(database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    upstream.script(answers);
    let url = database.database();
    let projects = [0; 3].map(|_| project(&upstream, &url));
    for project in &projects {
        project.configure(&format!("[server]\nrequests_per_minute = {LIMIT}\n"));
    }
    let servers = futures::future::join_all(projects.iter().map(Project::serve)).await;
    until("each knows of all", async || {
        let agreeing = futures::future::join_all(servers.iter().map(async |server| {
            let (_, text) = server.ask("GET", "/metrics", None).await;
            text.as_str().unwrap_or_default().contains("valvehouse_hosts_agreeing 3")
        }));
        agreeing.await.into_iter().all(|agrees| agrees)
    })
    .await;
    // The hosts have exchanged their counts since.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let client = reqwest::Client::new();
    let body = json!({"model": "plain", "messages": [{"role": "user", "content": "hi"}]});
    let begun = std::time::Instant::now();
    let load = servers.iter().map(async |server| {
        let (mut refused, mut waits, mut first) = (0, Vec::new(), None);
        let mut passed = 0;
        // A busy machine may exchange the last counts later than that.
        while refused < 40 || waits.last() == Some(&1) && begun.elapsed() < Duration::from_secs(30) {
            let request = client.post(format!("{}/v1/chat/completions", server.url())).json(&body);
            let answer = request.send().await.unwrap();
            if answer.status() == 200 {
                (refused, passed) = (0, passed + 1);
                continue;
            }
            assert_eq!(answer.status(), 429);
            first.get_or_insert(passed);
            refused += 1;
            waits.push(answer.headers()["retry-after"].to_str().unwrap().parse::<usize>().unwrap());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        (passed, first.unwrap(), waits)
    });
    let load = futures::future::join_all(load).await;
    let took = begun.elapsed();
    let passed: usize = load.iter().map(|(passed, ..)| passed).sum();
    eprintln!("{passed} of {LIMIT} a minute passed at three hosts in {took:.1?}: {load:?}");
    if took > Duration::from_secs(50) {
        // The machine is too slow for this test: the first requests are a minute old.
        return;
    }
    assert!((LIMIT..=LIMIT + 3 * LIMIT.div_ceil(6)).contains(&passed), "{passed}");
    for (_, first, waits) in load {
        assert!(first < LIMIT, "a host gives out its share only");
        assert_eq!(waits.first(), Some(&1), "the rest of the shares comes with the next exchange");
        assert!(waits.iter().all(|wait| (1..=60).contains(wait)), "{waits:?}");
        assert!(
            waits.last().is_some_and(|wait| *wait > 1),
            "until the first ones are a minute old: {waits:?}"
        );
    }
}
