//! The cost of a runaway script for other requests: 50 chats per second through a pure filter, alone and next to a
//! script that repeatedly computes until its budget is exhausted. The host is the real binary in a separate process. Run
//! with `cargo bench --bench runaway`. Only ratios are comparable.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // printing figures is what it is for

mod common;

use common::{DEMO, Project, Server, chat, quantile};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: valvehouse::memory::CountingAllocator = valvehouse::memory::CountingAllocator::new();

/// The interval of normal chats.
const PACE: Duration = Duration::from_millis(20);
const PHASE: Duration = Duration::from_secs(5);
const PHASES: usize = 8;

fn main() {
    // `cargo test` builds benches and runs them too: they measure nothing then.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        beside("that loops", "loop {}", 0).await;
        beside(
            "in heavy host functions",
            "let s = \"\"; s.pad(100_000, \"ab \"); loop { text::words(s); }",
            0,
        )
        .await;
        beside("that loops, with the breaker on", "loop {}", 5).await;
    });
}

/// Runs chats alone and next to the script, alternately.
async fn beside(what: &str, runaway: &str, breaks: usize) {
    let host = host(runaway, breaks);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    // Warms up.
    paced(&client, &host.url, Duration::from_secs(1)).await;
    let (mut alone, mut with) = (Vec::new(), Vec::new());
    let mut ended = 0;
    for _ in 0..PHASES {
        alone.extend(paced(&client, &host.url, PHASE).await);
        tokio::select! {
            samples = paced(&client, &host.url, PHASE) => with.extend(samples),
            () = again_and_again(&client, &host.url, &mut ended) => {}
        }
    }
    let ratio =
        |part: f64| common::ratio(quantile(&mut with.clone(), part), quantile(&mut alone.clone(), part));
    println!(
        "beside a script {what:<32} p50 {:>9.1?} {:.2}x   p99 {:>9.1?} {:.2}x of {:.1?} alone ({ended} ended)",
        quantile(&mut with.clone(), 0.5),
        ratio(0.5),
        quantile(&mut with.clone(), 0.99),
        ratio(0.99),
        quantile(&mut alone.clone(), 0.99),
    );
}

/// Returns the latencies of chats that are sent at a fixed rate.
async fn paced(client: &reqwest::Client, url: &str, length: Duration) -> Vec<Duration> {
    let mut pace = tokio::time::interval(PACE);
    let end = Instant::now() + length;
    let mut chats = Vec::new();
    while Instant::now() < end {
        pace.tick().await;
        let (client, url) = (client.clone(), url.to_owned());
        chats.push(tokio::spawn(async move {
            let began = Instant::now();
            assert_eq!(chat(&client, &url, "demo", "hello").await.0, 200);
            began.elapsed()
        }));
    }
    let mut samples = Vec::new();
    for chat in chats {
        samples.push(chat.await.unwrap());
    }
    samples
}

async fn again_and_again(client: &reqwest::Client, url: &str, ended: &mut usize) {
    loop {
        if chat(client, url, "bad", "hello").await.0 >= 500 {
            *ended += 1;
        }
        // With an open breaker the response is immediate.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn host(runaway: &str, breaks: usize) -> Server {
    let bad = "[[models]]\nname = \"bad\"\nprovider = \"demo\"\nmodel = \"demo\"\nfilters = [\"runaway\"]\n";
    let project = Project::new()
        .with("valvehouse.toml", &format!("{DEMO}{bad}[breaker]\nfailure_threshold = {breaks}\n"))
        .with("filters/runaway.rhai", &format!("/*\nglobal: false\n*/\nfn inlet(body) {{ {runaway} }}"))
        .with("filters/pure.rhai", "fn inlet(body) { body.messages.append_system(\"Be kind.\"); }");
    Server::host(project)
}
