//! The work that requests cause in the database and in their host, with one, two and three hosts: `cargo test
//! --test it processes::hot_path -- --nocapture`.

use super::serve::{Project, Server};
use crate::upstream::{Reply, Upstream};
use serde_json::json;
use std::time::{Duration, Instant};
use valvehouse_testkit::postgres::Postgres;

/// The number of requests to each host.
const REQUESTS: usize = 300;
/// The time for which idle hosts are measured.
const IDLE: Duration = Duration::from_secs(3);
/// The time until the database's statistics include finished work.
const COUNTED: Duration = Duration::from_millis(1500);

fn project(upstream: &Upstream, database: &str) -> Project {
    let project = Project::new(&upstream.url());
    project.filter("signs", "const Valves = #{ number: 7 };\nfn inlet(body, valves) { body.messages[-1].content += ` ${valves.number}`; body }\nfn outlet(body) { body }\n");
    project.configure(&format!(
        "[[models]]\nname = \"plain\"\nprovider = \"mock\"\nmodel = \"mock-1\"\n\
         [store]\nurl = \"{database}\"\nkey = \"the same key on every host of this test\"\n"
    ));
    project
}

async fn ask(server: &Server) {
    let body = json!({"model": "plain", "messages": [{"role": "user", "content": "hi"}]});
    let (status, answer) = server.ask("POST", "/v1/chat/completions", Some(&body)).await;
    assert_eq!(status, 200, "{answer}");
}

/// Returns the processor time of a process in milliseconds; `None` if the system does not report it.
fn processor_ms(server: &Server) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.pid())).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    // In hundredths of a second.
    let ticks = |field: usize| fields.get(field).and_then(|ticks| ticks.parse::<f64>().ok());
    Some((ticks(11)? + ticks(12)?) * 10.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_cause_no_database_work() {
    let Some(database) = Postgres::start() else { return };
    let upstream = Upstream::start().await;
    upstream.script(|query| Reply::text(&query.last_text()));
    for count in 1..=valvehouse_testkit::by_length(1, 3usize) {
        let url = database.database();
        let name = url.rsplit('/').next().unwrap().to_owned();
        let transactions = async || {
            tokio::time::sleep(COUNTED).await;
            let query =
                format!("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{name}'");
            let answer =
                tokio::task::block_in_place(|| database.ask(&url.replace(&name, "postgres"), &query));
            (answer.parse::<f64>().unwrap(), Instant::now())
        };
        let projects: Vec<Project> = (0..count).map(|_| project(&upstream, &url)).collect();
        let servers = futures::future::join_all(projects.iter().map(Project::serve)).await;
        futures::future::join_all(servers.iter().map(ask)).await;
        let begun = transactions().await;
        tokio::time::sleep(IDLE).await;
        let idle = transactions().await;
        let processor: Vec<Option<f64>> = servers.iter().map(processor_ms).collect();
        for _ in 0..REQUESTS {
            futures::future::join_all(servers.iter().map(ask)).await;
        }
        let used: Option<f64> =
            servers.iter().zip(processor).map(|(server, before)| Some(processor_ms(server)? - before?)).sum();
        let loaded = transactions().await;
        let rate = (idle.0 - begun.0) / (idle.1 - begun.1).as_secs_f64();
        let took = (loaded.1 - idle.1).as_secs_f64();
        let requests = (count * REQUESTS) as f64;
        let per_request = (loaded.0 - idle.0 - rate * took) / requests;
        println!(
            "{count} hosts: {rate:.1} transactions a second when idle, {:.1} under load, {per_request:.3} more per \
             request; {:.2} ms of processor time per request",
            (loaded.0 - idle.0) / took,
            used.unwrap_or_default() / requests
        );
        assert!(per_request < 0.2, "each request makes {per_request:.2} transactions");
    }
}
