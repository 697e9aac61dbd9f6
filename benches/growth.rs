//! Growth with size: chains, bodies, folders of scripts, concurrent streams, conversations in the store.
//!
//! `cargo bench --bench growth` measures all, `-- chains bodies scripts streams conversations` selects some, and
//! `VALVEHOUSE=path` measures another build of the host. Each table ends with the exponent of growth: 1 is linear, 0 is
//! constant.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used)] // printing figures is what it is for

mod common;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::Response;
use common::{DEMO, Project, Server, quantile};
use futures::future::join_all;
use futures::stream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use valvehouse::context::Turn;
use valvehouse::filter::{Chain, Hook};
use valvehouse::json::Json;
use valvehouse::script::{Kind, Script, Settings, SourceFile};
use valvehouse::store::Store;

#[global_allocator]
static ALLOCATOR: valvehouse::memory::CountingAllocator = valvehouse::memory::CountingAllocator::new();

const INLET: &str = "const INFO = #{ global: true };\nfn inlet(body) { body.temperature = 0.5; }\n";
const STREAM: &str = "const INFO = #{ global: true };\n\
    fn stream(event) { if event.text.contains(\"secret\") { event.text = \"***\"; } }\n";

fn main() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    // This program also acts as the models' service.
    if std::env::var("PLAYS").as_deref() == Ok("service") {
        return runtime().block_on(service());
    }
    // `cargo test` builds benches and runs them too: they measure nothing then.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    let runtime = runtime();
    if is_wanted("chains") {
        chains(&runtime);
    }
    if is_wanted("bodies") {
        runtime.block_on(bodies());
    }
    if is_wanted("scripts") {
        runtime.block_on(scripts());
    }
    if is_wanted("streams") {
        runtime.block_on(streams());
    }
    if is_wanted("conversations") {
        runtime.block_on(conversations());
    }
}

fn runtime() -> tokio::runtime::Runtime {
    common::runtime()
}

/// Sizes with their measurements, column by column.
struct Table {
    of: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<(usize, Vec<f64>)>,
}

impl Table {
    fn new(title: &str, of: &'static str, columns: &[&'static str]) -> Self {
        println!("\n{title}");
        let head = columns.iter().map(|column| format!(" {column:>22}")).collect::<String>();
        println!("{of:>14}{head}");
        Self { of, columns: columns.to_vec(), rows: Vec::new() }
    }

    fn row(&mut self, size: usize, cells: Vec<f64>) {
        let line = cells.iter().map(|cell| format!(" {cell:>22.2}")).collect::<String>();
        println!("{size:>14}{line}");
        self.rows.push((size, cells));
    }

    /// Prints the growth of each column, over all sizes and between the last two.
    fn end(self) {
        let (Some(first), [.., before, last]) = (self.rows.first(), self.rows.as_slice()) else { return };
        for (word, from) in [("power", first), ("at the end", before)] {
            let powers = from.1.iter().zip(&last.1).map(|(from_cell, cell)| {
                let (grown, size) = ((cell / from_cell).ln(), (last.0 as f64 / from.0 as f64).ln());
                if grown.is_finite() { format!(" {:>22.2}", grown / size) } else { format!(" {:>22}", "-") }
            });
            println!("{word:>14}{}", powers.collect::<String>());
        }
        assert_eq!(self.columns.len(), last.1.len(), "a table by {} has a cell for each column", self.of);
    }
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns the processor time of the live threads of a process.
fn busy(server: &Server) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.id())).unwrap();
    let of_task = |task: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(tasks.filter_map(of_task).sum())
}

fn project(service: Option<&str>) -> Project {
    let toml = match service {
        None => DEMO.to_owned(),
        Some(url) => format!(
            "[[providers]]\nname = \"service\"\nkind = \"openai\"\nbase_url = \"{url}/v1\"\nmodels = \"*\"\n"
        ),
    };
    Project::new().with("valvehouse.toml", &toml)
}

fn body(messages: usize, length: usize, model: &str) -> Vec<u8> {
    let text = "lorem ipsum dolor sit amet ".repeat(length / 27 + 1);
    let message = |index: usize| {
        let role = if index.is_multiple_of(2) { "user" } else { "assistant" };
        Json::from([("role", role.into()), ("content", text[..length].into())])
    };
    let messages: Vec<Json> = (0..messages).map(message).collect();
    Json::from([("model", model.into()), ("messages", messages.into())]).encode().unwrap()
}

/// A connection that sends one request after another.
struct Asking {
    stream: TcpStream,
    head: &'static str,
}

impl Asking {
    async fn at(url: &str) -> Self {
        let stream = TcpStream::connect(url.trim_start_matches("http://")).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
        Self { stream, head }
    }

    /// Sends a request, and returns the response.
    async fn ask(&mut self, body: &[u8]) -> String {
        let head = format!("{}\r\ncontent-length: {}\r\n\r\n", self.head, body.len());
        self.stream.write_all(head.as_bytes()).await.unwrap();
        self.stream.write_all(body).await.unwrap();
        let (mut answer, mut buffer) = (Vec::new(), vec![0; 16 * 1024]);
        loop {
            let read = self.stream.read(&mut buffer).await.unwrap();
            assert!(read > 0, "the host closed the connection: {}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&buffer[..read]);
            if is_whole(&answer) {
                return String::from_utf8_lossy(&answer).into_owned();
            }
        }
    }

    /// Returns the host's mean cost of this number of requests.
    async fn cost(&mut self, server: &Server, body: &[u8], count: u32) -> Duration {
        for _ in 0..(count / 10).max(3) {
            let answer = self.ask(body).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        let before = busy(server);
        for _ in 0..count {
            self.ask(body).await;
        }
        (busy(server) - before) / count
    }
}

fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = memchr::memmem::find(answer, b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    match length {
        Some(length) => answer.len() >= end + 4 + length,
        None => answer.ends_with(b"0\r\n\r\n"),
    }
}

/// Chains of filters on a chat of 20 messages.
fn chains(runtime: &tokio::runtime::Runtime) {
    let columns = ["us by itself", "us each", "us of the host, HTTP"];
    let mut table = Table::new("filters in a chain, inlet, 20 messages", "filters", &columns);
    let body = body(20, 210, "demo");
    for count in [1, 3, 10, 30, 100] {
        let filter = |index: usize| {
            let file = SourceFile::new(Kind::Filter, format!("f{index}"), "f.rhai", INLET);
            Arc::new(Script::compile(&file, &Settings::default()).unwrap()).into_filter(Arc::default())
        };
        let chain = Chain::new((0..count).map(filter).collect());
        let (turn, value) = (Turn::default(), Json::parse(&body).unwrap());
        let rounds = 200_000 / count as u32;
        let began = Instant::now();
        runtime.block_on(async {
            for _ in 0..rounds {
                chain.run(Hook::Inlet, value.clone(), &turn).await.unwrap();
            }
        });
        let alone = began.elapsed() / rounds;
        let project = (0..count)
            .fold(project(None), |project, index| project.with(&format!("filters/f{index}.rhai"), INLET));
        let through = runtime.block_on(async {
            let server = Server::host(project);
            Asking::at(&server.url).await.cost(&server, &body, 1_000).await
        });
        table.row(count, vec![us(alone), us(alone) / count as f64, us(through)]);
    }
    table.end();
}

/// Requests of several sizes, answered with a line.
async fn bodies() {
    let service = Server::start(&mut plays_service());
    let columns = ["us, no filter", "us, one wants it", "us, stream filter only"];
    let mut table = Table::new("bodies, of the host's processor time", "bytes", &columns);
    let mut hosts = Vec::new();
    for filter in [None, Some(INLET), Some(STREAM)] {
        let project = project(Some(&service.url));
        let project = filter.into_iter().fold(project, |project, text| project.with("filters/f.rhai", text));
        hosts.push(Server::host(project));
    }
    for (messages, count) in [(20, 500), (200, 200), (2_000, 50), (20_000, 10)] {
        let body = body(messages, 210, "m");
        let mut cells = Vec::new();
        for host in &hosts {
            cells.push(us(Asking::at(&host.url).await.cost(host, &body, count).await));
        }
        table.row(body.len(), cells);
    }
    table.end();
}

/// Folders of scripts, of which one runs.
async fn scripts() {
    let columns = ["s, first start", "s, next start", "KiB each", "ms, change to live", "ms, unchanged look"];
    let mut table = Table::new("scripts in a folder", "scripts", &columns);
    for count in [10, 100, 1_000, 10_000] {
        let project = (0..count).fold(project(None), |project, index| {
            project.with(&format!("filters/f{index:05}.rhai"), &one_of_many(index))
        });
        let change = |version: usize| {
            let text = format!(
                "const INFO = #{{ global: true }};\nfn inlet(body) {{ throw #{{ status: 418, message: \"v{version}.\" }}; }}\n"
            );
            let (new, file) = (project.path().join("filters/.new"), project.path().join("filters/a.rhai"));
            std::fs::write(&new, text).unwrap();
            std::fs::rename(&new, &file).unwrap();
        };
        change(0);
        // A file that was just written is read twice.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        let (first, server) = start(project.path());
        drop(server);
        let (next, server) = start(project.path());
        let each = server.resident() as f64 / 1024.0 / count as f64;
        let mut asking = Asking::at(&server.url).await;
        let mut times = Vec::new();
        for version in 1..=5 {
            change(version);
            let began = Instant::now();
            while !asking.ask(&body(1, 5, "demo")).await.contains(&format!("v{version}.")) {
                assert!(began.elapsed() < Duration::from_secs(60), "a change goes live");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            times.push(began.elapsed());
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        // A host scans every 2 s; its other work also occurs with ten scripts.
        tokio::time::sleep(Duration::from_millis(4_500)).await;
        let before = busy(&server);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let look = (busy(&server) - before) / 5;
        let live = quantile(&mut times, 0.5);
        table.row(count, vec![first.as_secs_f64(), next.as_secs_f64(), each, ms(live), ms(look)]);
    }
    table.end();
}

/// Returns the time until the first response.
fn start(project: &Path) -> (Duration, Server) {
    let began = Instant::now();
    let mut command = Command::new(common::binary());
    let server = Server::start(command.args(["serve", "--port", "0"]).current_dir(project));
    (began.elapsed(), server)
}

fn one_of_many(index: usize) -> String {
    format!(
        "const INFO = #{{ title: \"Filter {index}\", version: \"1.0.0\", global: false }};\n\
         const Valves = #{{ priority: {}, limit: {index} }};\n\n\
         fn inlet(body, valves) {{\n    if body.messages.len() > valves.limit + 100 {{\n        \
         throw #{{ status: 400, message: \"too many messages\" }};\n    }}\n    body.temperature = 0.5;\n}}\n",
        index % 10
    )
}

const EVENTS: usize = 10;
const PACE: Duration = Duration::from_secs(1);

/// Concurrent streams of one event per second each, through one stream filter.
async fn streams() {
    let service = Server::start(&mut plays_service());
    let columns = ["KiB each", "us an event"];
    let mut table = Table::new("streams at once, one stream filter", "streams", &columns);
    for count in [10, 100, 1_000, 5_000] {
        let host = Server::host(project(Some(&service.url)).with("filters/f.rhai", STREAM));
        let address = host.url.trim_start_matches("http://").to_owned();
        one_stream(&address).await;
        let (resident, before) = (host.resident(), busy(&host));
        let all = join_all((0..count).map(|_| one_stream(&address)));
        tokio::pin!(all);
        let mut most = 0;
        let seen = loop {
            tokio::select! {
                seen = &mut all => break seen,
                () = tokio::time::sleep(Duration::from_millis(100)) => most = most.max(host.resident()),
            }
        };
        assert!(seen.iter().all(|events| *events == EVENTS), "every stream has all its events");
        let each = most.saturating_sub(resident) as f64 / 1024.0 / count as f64;
        table.row(count, vec![each, us(busy(&host) - before) / (count * EVENTS) as f64]);
    }
    table.end();
}

/// Returns the number of events of a stream.
async fn one_stream(address: &str) -> usize {
    // The connections start at different times, because the queue of new connections is bounded.
    tokio::time::sleep(PACE.mul_f64(fastrand::f64())).await;
    let mut connection = TcpStream::connect(address).await.unwrap();
    let body = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let head = "POST /v1/chat/completions HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json";
    let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).matches("word").count()
}

/// Conversations of one turn in the store.
async fn conversations() {
    let columns = ["ms, a remembered turn", "ms, listing 50", "s, start", "MiB of the host"];
    let mut table = Table::new("conversations in the store", "conversations", &columns);
    for count in [10, 100, 1_000, 10_000, 100_000] {
        let project = Project::new()
            .with("valvehouse.toml", &DEMO.replace("[[models]]\n", "[[models]]\nmemory = true\n"));
        let (_, server) = start(project.path());
        remembered(&server.url, "chat-0").await;
        drop(server);
        let file = project.path().join(".valvehouse/state.db");
        copy_conversations(&file, count).await;
        let (started, server) = start(project.path());
        let mut turns = Vec::new();
        for turn in 0..30 {
            let began = Instant::now();
            // Half of them continue stored conversations.
            remembered(&server.url, &format!("chat-{}", if turn % 2 == 0 { turn } else { count + turn }))
                .await;
            turns.push(began.elapsed());
        }
        let store = Store::sqlite(&file).await.unwrap();
        let mut lists = Vec::new();
        for _ in 0..20 {
            let began = Instant::now();
            assert!(!store.conversations(None, 50).await.unwrap().is_empty());
            lists.push(began.elapsed());
        }
        let (turn, list) = (quantile(&mut turns, 0.5), quantile(&mut lists, 0.5));
        let resident = server.resident() as f64 / f64::from(1 << 20);
        table.row(count, vec![ms(turn), ms(list), started.as_secs_f64(), resident]);
    }
    table.end();
}

/// Runs a stored turn.
async fn remembered(url: &str, chat: &str) {
    let body = format!(
        r#"{{"model":"demo","chat_id":"{chat}","messages":[{{"role":"user","content":"what people say"}}]}}"#
    );
    let answer = Asking::at(url).await.ask(body.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// Copies the stored conversation this number of times under different ids.
async fn copy_conversations(file: &Path, count: usize) {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file);
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    let numbers = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) ",
        count.max(2) - 1
    );
    let mut transaction = pool.begin().await.unwrap();
    for rest in [
        "INSERT INTO conversations SELECT number + i, 'chat-' || i, agent, length, kept, forked_from, shared, \
         created_at - i, updated_at - i FROM conversations, n WHERE number = 1",
        "INSERT INTO messages SELECT conversation + i, place, content FROM messages, n WHERE conversation = 1",
        "INSERT INTO runs SELECT number + i * 10, id || '-' || i, conversation + i, status, step, owner, pid, \
         pending, error, seen_at, created_at, updated_at FROM runs, n WHERE conversation = 1",
        "INSERT INTO checkpoints SELECT id || '-' || i, run + i * 10, step, length, name, state, saved_at \
         FROM checkpoints, n WHERE run < 10",
    ] {
        sqlx::query(sqlx::AssertSqlSafe(format!("{numbers}{rest}")))
            .execute(&mut *transaction)
            .await
            .unwrap();
    }
    transaction.commit().await.unwrap();
    pool.close().await;
}

/// Starts this program as the models' service.
fn plays_service() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env("PLAYS", "service");
    command
}

async fn service() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    eprintln!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(answer).layer(axum::extract::DefaultBodyLimit::disable());
    axum::serve(listener, router).await.unwrap();
}

/// Returns a line, or the events of a stream.
async fn answer(body: Bytes) -> Response {
    if memchr::memmem::find(&body, b"\"stream\":true").is_none() {
        let answer = r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"word"},"finish_reason":"stop"}]}"#;
        return Response::builder().header("content-type", "application/json").body(answer.into()).unwrap();
    }
    let events = stream::unfold(0, |place| async move {
        tokio::time::sleep(if place == 0 { Duration::ZERO } else { PACE }).await;
        let event = match place {
            place if place < EVENTS => {
                r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}"#
            }
            place if place == EVENTS => "[DONE]",
            _ => return None,
        };
        Some((Ok::<_, std::convert::Infallible>(format!("data: {event}\n\n")), place + 1))
    });
    let body = Body::from_stream(events);
    Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
}
