//! What a runaway script costs everybody else: 50 chats a second through a pure filter, alone and beside
//! a script that computes until its budget ends it, again and again. The host is the real binary in a
//! process of its own. `cargo bench --bench runaway`; only ratios mean anything.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // printing figures is what it is for

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: valvehouse::memory::Counting = valvehouse::memory::Counting::new();

/// Between two normal chats.
const PACE: Duration = Duration::from_millis(20);
const PHASE: Duration = Duration::from_secs(5);
const PHASES: usize = 8;

fn main() {
    // `cargo test` builds benches and runs them too: there is nothing to measure there.
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

/// Chats alone and beside the script, in turns.
async fn beside(what: &str, runaway: &str, breaks: usize) {
    let host = Host::start(runaway, breaks);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    // Everything that is slow for the first time.
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
    let ratio = |part: f64| {
        quantile(&mut with.clone(), part).as_secs_f64() / quantile(&mut alone.clone(), part).as_secs_f64()
    };
    println!(
        "beside a script {what:<32} p50 {:>9.1?} {:.2}x   p99 {:>9.1?} {:.2}x of {:.1?} alone ({ended} ended)",
        quantile(&mut with.clone(), 0.5),
        ratio(0.5),
        quantile(&mut with.clone(), 0.99),
        ratio(0.99),
        quantile(&mut alone.clone(), 0.99),
    );
}

fn quantile(samples: &mut [Duration], part: f64) -> Duration {
    samples.sort();
    samples[(samples.len() as f64 * part) as usize]
}

/// How long chats take that come at a steady pace, whether or not the last one is answered.
async fn paced(client: &reqwest::Client, url: &str, length: Duration) -> Vec<Duration> {
    let mut pace = tokio::time::interval(PACE);
    let end = Instant::now() + length;
    let mut chats = Vec::new();
    while Instant::now() < end {
        pace.tick().await;
        let (client, url) = (client.clone(), url.to_owned());
        chats.push(tokio::spawn(async move {
            let began = Instant::now();
            assert_eq!(chat(&client, &url, "demo").await, 200);
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
        if chat(client, url, "bad").await >= 500 {
            *ended += 1;
        }
        // With the breaker open the answer comes at once.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn chat(client: &reqwest::Client, url: &str, model: &str) -> u16 {
    let body = format!(r#"{{"model": "{model}", "messages": [{{"role": "user", "content": "hello"}}]}}"#);
    let answer = client.post(format!("{url}/v1/chat/completions")).body(body).send().await.unwrap();
    let status = answer.status().as_u16();
    answer.bytes().await.unwrap();
    status
}

/// A host that ends with the phase.
struct Host {
    child: Child,
    url: String,
    _folder: tempfile::TempDir,
}

impl Host {
    fn start(runaway: &str, breaks: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let models = "[[providers]]\nname = \"demo\"\nkind = \"demo\"\n\
            [[models]]\nname = \"demo\"\nprovider = \"demo\"\n\
            [[models]]\nname = \"bad\"\nprovider = \"demo\"\nmodel = \"demo\"\nfilters = [\"runaway\"]\n";
        write("valvehouse.toml", &format!("{models}[breaker]\nbreaks = {breaks}\n"));
        write("filters/runaway.rhai", &format!("/*\nglobal: false\n*/\nfn inlet(body) {{ {runaway} }}"));
        write("filters/pure.rhai", "fn inlet(body) { body.messages.append_system(\"Be kind.\"); }");
        let mut child = Command::new(env!("CARGO_BIN_EXE_valvehouse"))
            .args(["serve", "--port", "0"])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, rest) = line.split_once("http://")?;
            let address = rest.split(|c: char| c == '/' || c.is_whitespace()).next()?;
            Some(format!("http://{address}"))
        });
        // Read on, or the host would block at a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url: url.expect("a host says where it listens"), _folder: folder }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
