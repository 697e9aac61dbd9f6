//! The cost of waiting tools for other requests: 64 turns that each wait 200 ms in an `http` tool, and the concurrent
//! latency of a chat through a pure filter; the same with calls in `parallel`, with pipes that read a stream, and with
//! work `after` the answers. Run with `cargo bench --bench waiting`. Only ratios are comparable.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // printing figures is what it is for

mod common;

use common::{DEMO, Project, chat, quantile, ratio, resident};
use futures::future::join_all;
use futures::stream::{self, StreamExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use valvehouse::app::App;
use valvehouse::config::Config;
use valvehouse::context::{Context, EmittedEvent, Events, Questions, Turn, TurnFacts};
use valvehouse::filter::{Chain, Hook};
use valvehouse::json::Json;
use valvehouse::script::{Kind, Script, Settings, SourceFile};

#[global_allocator]
static ALLOCATOR: valvehouse::memory::CountingAllocator = valvehouse::memory::CountingAllocator::new();

const TURNS: usize = 64;
const WAIT: Duration = Duration::from_millis(200);
const ROUNDS: usize = 10;

fn main() {
    // `cargo test` builds benches and runs them too: they measure nothing then.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let runtime = common::runtime();
    // A provider may already be installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    runtime.block_on(measure());
}

async fn measure() {
    let service = service().await;
    let (_folder, url) = host(&service).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let idle = p99(pure(&client, &url, Duration::from_secs(2)).await);

    let mut totals = Vec::new();
    let mut all: Vec<Sample> = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let turns = join_all((0..TURNS).map(|_| chat(&client, &url, "helper", "/look")));
        let (answers, samples) = tokio::join!(turns, pure(&client, &url, WAIT));
        assert!(answers.iter().all(|(_, answer)| answer.contains("seen")), "a turn went wrong");
        totals.push(began.elapsed());
        all.extend(samples);
    }
    totals.sort();
    let total = totals[totals.len() / 2];
    let waiting = p99(all.iter().filter(|sample| sample.all_waited).copied().collect());
    let busy = p99(all);
    timeouts(&service).await;
    people().await;
    under_load(&service).await;
    println!(
        "{TURNS} turns that wait {WAIT:?} each    {total:>10.1?}   {:.2}x of one wait",
        ratio(total, WAIT)
    );
    println!("a pure filter's chat, p99 idle       {idle:>10.1?}");
    println!("the same while they all wait         {waiting:>10.1?}   {:.2}x of idle", ratio(waiting, idle));
    println!("and while they come and go at once   {busy:>10.1?}   {:.2}x of idle", ratio(busy, idle));
}

/// Measures 64 turns at once whose scripts wait in other ways, each beside chats through a pure filter.
async fn under_load(service: &str) {
    const CALLS: usize = 8;
    /// The number of jobs after answers that run at a time.
    const JOBS: usize = 8;
    let get = format!("http::get(\"http://{service}/\").text");
    let calls = format!("{:?}", [0; CALLS]);
    let models = "[[models]]\nname = \"helper\"\nprovider = \"demo\"\nmodel = \"demo\"\ntools = [\"look\"]\n\
        [[models]]\nname = \"later\"\nprovider = \"demo\"\nmodel = \"demo\"\nfilters = [\"later\"]\n";
    let grants =
        ["look", "later", "lines"].map(|id| format!("[grants.{id}]\nhttp = [\"{service}\"]\n")).concat();
    let script = |head: &str, code: String| format!("/*\nrequirements: http\n{head}*/\n{code}");
    let project = Project::new()
        .with("valvehouse.toml", &format!("{DEMO}{models}{grants}"))
        .with("tools/look.rhai", &script("", format!("fn handler(args) {{ parallel({calls}.map(|n| || {get})) }}")))
        .with("filters/later.rhai", &script("global: false\n", format!("fn inlet(body) {{ after(|| {get}); }}")))
        .with(
            "filters/lines.rhai",
            &script("", format!("fn pipe(body) {{ for line in http::stream(\"http://{service}/lines\") {{ yield_text(line); }} }}")),
        )
        .with("filters/pure.rhai", PURE);
    let url = serve(&project).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let run = async |model: &'static str, text: &'static str, shows: &str| {
        let began = Instant::now();
        let answers = join_all((0..TURNS).map(|_| chat(&client, &url, model, text)));
        let (answers, samples) =
            tokio::join!(async { (answers.await, began.elapsed()) }, pure(&client, &url, WAIT));
        let (answers, took) = answers;
        assert!(
            answers.iter().all(|(_, answer)| answer.contains(shows)),
            "a turn went wrong: {:?}",
            answers[0]
        );
        (took, p99(samples))
    };
    run("helper", "/look", "seen").await;
    let (took, other) = run("helper", "/look", "seen").await;
    println!(
        "{TURNS} turns with {CALLS} calls in parallel  {took:>10.1?}   {:.2}x of one wait; others {other:.1?}",
        ratio(took, WAIT)
    );
    let (took, other) = run("lines", "go", "line 9").await;
    println!(
        "{TURNS} pipes that read a stream         {took:>10.1?}   {:.2}x of one stream; others {other:.1?}",
        ratio(took, WAIT)
    );
    let (without, _) = run("demo", "hello", "hello").await;
    let (served, began) = (SERVED.load(Relaxed), Instant::now());
    let (took, other) = run("later", "hello", "hello").await;
    while SERVED.load(Relaxed) < served + TURNS {
        assert!(began.elapsed() < Duration::from_secs(60), "the work after the answers did not end");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let floor = WAIT * u32::try_from(TURNS / JOBS).unwrap();
    println!(
        "{TURNS} answers with work after them     {took:>10.1?}   {:.2}x of answers without; others {other:.1?}",
        ratio(took, without)
    );
    println!(
        "their work, {JOBS} jobs at a time          {:>10.1?}   {:.2}x of its waits",
        began.elapsed(),
        ratio(began.elapsed(), floor)
    );
}

/// Measures the time beyond its 50 ms of a tool that does not end by itself.
async fn timeouts(service: &str) {
    const LIMIT: Duration = Duration::from_millis(50);
    let grants = format!(
        "[breaker]\nfailure_threshold = 0\n[grants.waits]\nhttp = [\"{service}\"]\n[grants.runs]\nshell = [\"sh\"]\n"
    );
    let mut project = Project::new().with("valvehouse.toml", &grants);
    for (id, head, body) in [
        ("loops", "", "loop { text::words(\"a b c\"); }".to_owned()),
        ("waits", "requirements: http", format!("http::get(\"http://{service}/\")")),
        ("runs", "requirements: shell", "shell::run(\"sleep 60 & wait\")".to_owned()),
    ] {
        let script = format!("/*\ntimeout: 50\n{head}\n*/\nfn handler(args) {{ {body} }}");
        project = project.with(&format!("tools/{id}.rhai"), &script);
    }
    let app = App::open(Config::load_with(project.path(), [], &[]).unwrap()).await.unwrap();
    let kernel = app.host.snapshot().invoking();
    for (id, what) in [("loops", "that loops"), ("waits", "that waits on http"), ("runs", "in a shell")] {
        let mut over = Vec::new();
        for _ in 0..20 {
            let began = Instant::now();
            kernel.invoke(id, Json::object(), &Context::default()).await.unwrap_err();
            over.push(began.elapsed().saturating_sub(LIMIT));
        }
        over.sort();
        println!("a tool {what:<20} ends {:>8.1?} after its 50 ms (worst of 20: {:.1?})", over[10], over[19]);
    }
    app.close().await;
}

/// Measures the cost of thousands of concurrent questions to users.
async fn people() {
    const PEOPLE: usize = 5_000;
    let source = "fn inlet(body) { body.answer = ask(#{ type: \"input\", timeout: 600_000 }); body }";
    let file = SourceFile::new(Kind::Filter, "asks", "asks.rhai", source);
    let script = Script::compile(&file, &Settings::default()).unwrap();
    let chain = Chain::new(vec![Arc::new(script).into_filter(Arc::default())]);
    let (questions, (tell, mut ids)) = (Questions::default(), tokio::sync::mpsc::unbounded_channel());
    let (before, threads, began) = (resident("self"), threads(), Instant::now());
    let turns: Vec<_> = (0..PEOPLE)
        .map(|_| {
            let (chain, tell) = (chain.clone(), tell.clone());
            let listener = move |event: &EmittedEvent| drop(tell.send(event.0.text("id").unwrap()));
            let events = Events::listening(listener, Some(questions.clone()));
            let turn = Turn::new(TurnFacts::default(), Context::default(), events);
            let body = Json::parse(br#"{"messages":[]}"#).unwrap();
            tokio::spawn(async move { chain.run(Hook::Inlet, body, &turn).await.unwrap() })
        })
        .collect();
    let mut open = Vec::new();
    while open.len() < PEOPLE {
        open.push(ids.recv().await.unwrap());
    }
    let (asking_time, held) = (began.elapsed(), resident("self") - before);
    let more_threads = self::threads().saturating_sub(threads);
    let began = Instant::now();
    for id in &open {
        assert!(questions.answer(id, true.into()));
    }
    join_all(turns).await;
    println!(
        "{PEOPLE} open questions            {asking_time:>10.1?}   {:.1} KB and {more_threads} more threads while all wait; answered in {:.1?}",
        held as f64 / 1024.0 / PEOPLE as f64,
        began.elapsed()
    );
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Sends a chat through a pure filter.
#[derive(Clone, Copy)]
struct Sample {
    took: Duration,
    /// `true` if every waiting turn waited the whole time.
    all_waited: bool,
}

fn p99(samples: Vec<Sample>) -> Duration {
    let mut took: Vec<Duration> = samples.iter().map(|sample| sample.took).collect();
    quantile(&mut took, 0.99)
}

/// The number of requests that wait at the service.
static WAITING: AtomicUsize = AtomicUsize::new(0);
/// Requests that the service has answered after waiting.
static SERVED: AtomicUsize = AtomicUsize::new(0);
const PURE: &str = "fn inlet(body) { body.messages.append_system(\"Be kind.\"); }";

/// Sends sequential chats through a pure filter for this time.
async fn pure(client: &reqwest::Client, url: &str, length: Duration) -> Vec<Sample> {
    let end = Instant::now() + length;
    let mut samples = Vec::new();
    while Instant::now() < end {
        let (began, all_waited) = (Instant::now(), WAITING.load(Relaxed) == TURNS);
        chat(client, url, "demo", "hello").await;
        let all_waited = all_waited && WAITING.load(Relaxed) == TURNS;
        samples.push(Sample { took: began.elapsed(), all_waited });
        // Sequential requests of one client, not a load test.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    samples
}

/// A slow service.
async fn service() -> String {
    let slow = || async {
        WAITING.fetch_add(1, Relaxed);
        tokio::time::sleep(WAIT).await;
        WAITING.fetch_sub(1, Relaxed);
        SERVED.fetch_add(1, Relaxed);
        "seen"
    };
    // Ten lines in the same time.
    let lines = || async {
        let lines = stream::iter(0..10).then(|line| async move {
            tokio::time::sleep(WAIT / 10).await;
            Ok::<_, std::convert::Infallible>(format!("line {line}\n"))
        });
        axum::body::Body::from_stream(lines)
    };
    let router = axum::Router::new().route("/lines", axum::routing::get(lines)).fallback(slow);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn host(service: &str) -> (Project, String) {
    let helper = "[[models]]\nname = \"helper\"\nprovider = \"demo\"\nmodel = \"demo\"\ntools = [\"look\"]\n";
    let look =
        format!("/*\nrequirements: http\n*/\nfn handler(args) {{ http::get(\"http://{service}/\").text }}");
    let project = Project::new()
        .with("valvehouse.toml", &format!("{DEMO}{helper}[grants.look]\nhttp = [\"{service}\"]\n"))
        .with("tools/look.rhai", &look)
        .with("filters/pure.rhai", PURE);
    let url = serve(&project).await;
    (project, url)
}

async fn serve(project: &Project) -> String {
    let app = App::open(Config::load_with(project.path(), [], &[]).unwrap()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { valvehouse::server::serve(listener, app, std::future::pending()).await });
    url
}
