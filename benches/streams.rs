//! The costs of a thousand concurrent streams of 200 events each, through a host with no, one and ten stream filters,
//! compared with a bare proxy of the same libraries. Run with `cargo bench --bench streams`. Only ratios are comparable.
//! The measured process has one core; the model's service and the clients share the other.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used)] // printing figures is what it is for

mod common;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::Response;
use common::bare::serve;
use common::{Project, Server, plays, quantile, ratio, use_core};
use futures::future::join_all;
use futures::stream;
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[global_allocator]
static ALLOCATOR: valvehouse::memory::CountingAllocator = valvehouse::memory::CountingAllocator::new();

const EVENTS: usize = 200;
/// The number of other events: the role and the finish.
const AROUND: usize = 2;
/// The interval of events in a slow stream.
const PACE: Duration = Duration::from_millis(50);
const ROUNDS: usize = 5;

/// A filter that reads every event and changes none.
const FILTER: &str = "fn stream(event) { if event.text.contains(\"secret\") { event.text = \"***\"; } }";

/// Returns the number of concurrent streams; fewer for a trial of the bench.
fn streams() -> usize {
    std::env::var("STREAMS").ok().and_then(|streams| streams.parse().ok()).unwrap_or(1_000)
}

fn main() {
    common::play(service(), measure());
}

/// A measured server.
struct Measurement {
    name: String,
    server: Server,
    resident: usize,
    /// Wall and processor time of each round at full speed.
    rounds: Vec<(Duration, Duration)>,
    lost: usize,
}

async fn measure() {
    use_core(1);
    let service = Server::start(&mut plays("service"));
    use_core(0);
    let mut all =
        vec![Measurement::new("a bare proxy", Server::start(plays("proxy").env("SERVICE", &service.url)))];
    for filters in [0, 1, 10] {
        let name = format!("the host, stream filters: {filters}");
        all.push(Measurement::new(&name, Server::host(project(&service.url, filters))));
    }
    use_core(1);
    println!("{} streams of {EVENTS} events at once, one every {} ms", streams(), PACE.as_millis());
    for measured in &mut all {
        measured.paced().await;
    }
    println!("\nthe same at full speed, {ROUNDS} rounds in turns");
    for _ in 0..ROUNDS {
        for measured in &mut all {
            measured.at_full_speed().await;
        }
    }
    let bare = all[0].usual();
    for measured in &all {
        let (wall, processor) = measured.usual();
        let events = (streams() * EVENTS) as f64;
        println!(
            "{:<32} {:>9.0} events/s  {:.2}x of the bare proxy's time; {:>6.2} us an event of the processor, {:.2}x; {} lost",
            measured.name,
            events / wall.as_secs_f64(),
            ratio(wall, bare.0),
            processor.as_secs_f64() * 1e6 / events,
            ratio(processor, bare.1),
            measured.lost,
        );
    }
    let lost: usize = all.iter().map(|measured| measured.lost).sum();
    assert_eq!(lost, 0, "streams were lost");
}

impl Measurement {
    fn new(name: &str, server: Server) -> Self {
        Self { name: name.into(), server, resident: 0, rounds: Vec::new(), lost: 0 }
    }

    /// Returns the memory while all streams are open, and the size of an event.
    async fn paced(&mut self) {
        // Warms up.
        run(&self.server.url, 10, "fast").await;
        self.resident = self.server.resident();
        let before = self.server.processor_time();
        let mut most = 0;
        let url = self.server.url.clone();
        let all = run(&url, streams(), "paced");
        tokio::pin!(all);
        let seen = loop {
            tokio::select! {
                seen = &mut all => break seen,
                () = tokio::time::sleep(Duration::from_millis(100)) => most = most.max(self.server.resident()),
            }
        };
        let processor = self.server.processor_time() - before;
        self.note_lost(&seen);
        let mut transits: Vec<Duration> = seen.into_iter().flat_map(|stream| stream.transits).collect();
        println!(
            "{:<32} {:>6.1} KiB a stream; transit of an event p50 {:>8.1?}, p99 {:>8.1?}; {:.2} us an event of the processor",
            self.name,
            most.saturating_sub(self.resident) as f64 / 1024.0 / streams() as f64,
            quantile(&mut transits, 0.5),
            quantile(&mut transits, 0.99),
            processor.as_secs_f64() * 1e6 / transits.len().max(1) as f64,
        );
    }

    async fn at_full_speed(&mut self) {
        let (processor, began) = (self.server.processor_time(), Instant::now());
        let streams = run(&self.server.url, streams(), "fast").await;
        self.rounds.push((began.elapsed(), self.server.processor_time() - processor));
        self.note_lost(&streams);
    }

    fn note_lost(&mut self, streams: &[Stream]) {
        self.lost += streams.iter().filter(|stream| !stream.is_whole()).count();
    }

    /// Returns the median of the rounds.
    fn usual(&self) -> (Duration, Duration) {
        let mut walls: Vec<Duration> = self.rounds.iter().map(|round| round.0).collect();
        let mut processors: Vec<Duration> = self.rounds.iter().map(|round| round.1).collect();
        (quantile(&mut walls, 0.5), quantile(&mut processors, 0.5))
    }
}

/// The events of a stream that a client received.
#[derive(Default)]
struct Stream {
    events: usize,
    ends: usize,
    transits: Vec<Duration>,
}

impl Stream {
    fn is_whole(&self) -> bool {
        self.events == EVENTS + AROUND && self.ends == 1
    }

    fn note(&mut self, line: &str) {
        match line.strip_prefix("data: ") {
            Some("[DONE]") => self.ends += 1,
            Some(event) => {
                self.events += 1;
                let sent = event.split_once("t=").and_then(|(_, rest)| rest.split_once('.'));
                if let Some((nanoseconds, _)) = sent {
                    let sent = Duration::from_nanos(nanoseconds.parse().unwrap_or(0));
                    self.transits.push(now().saturating_sub(sent));
                }
            }
            None => {}
        }
    }
}

/// Reads this number of concurrent streams to their ends.
async fn run(url: &str, streams: usize, model: &str) -> Vec<Stream> {
    let address = url.trim_start_matches("http://");
    join_all((0..streams).map(|_| async { one(address, model).await.unwrap_or_default() })).await
}

/// Reads one stream at minimal cost, so that the server is measured.
async fn one(address: &str, model: &str) -> std::io::Result<Stream> {
    let mut connection = TcpStream::connect(address).await?;
    let body =
        format!(r#"{{"model":"{model}","stream":true,"messages":[{{"role":"user","content":"hi"}}]}}"#);
    // Without chunked encoding and keep-alive, the body is the events, and the end of the connection is the end.
    let head = "POST /v1/chat/completions HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json";
    let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    connection.write_all(request.as_bytes()).await?;
    let (mut stream, mut line, mut buffer) = (Stream::default(), Vec::new(), vec![0; 16 * 1024]);
    loop {
        let read = connection.read(&mut buffer).await?;
        if read == 0 {
            return Ok(stream);
        }
        for piece in buffer[..read].split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(piece);
            if line.ends_with(b"\n") {
                stream.note(String::from_utf8_lossy(&line).trim_end());
                line.clear();
            }
        }
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

fn project(service: &str, filters: usize) -> Project {
    let toml = format!(
        "[[providers]]\nname = \"service\"\nkind = \"openai\"\nbase_url = \"{service}/v1\"\nmodels = \"*\"\n"
    );
    (0..filters).fold(Project::new().with("valvehouse.toml", &toml), |project, n| {
        project.with(&format!("filters/reads_{n}.rhai"), FILTER)
    })
}

/// A model's service: `paced` sends events at an interval, `fast` without pauses.
async fn service() {
    serve(Router::new().fallback(answer)).await;
}

async fn answer(body: Bytes) -> Response {
    let is_paced = String::from_utf8_lossy(&body).contains("\"paced\"");
    let events = stream::unfold(0, move |place| async move {
        if is_paced {
            // The first event has a random delay, so that streams do not send at the same time.
            let part = if place == 0 { fastrand::f64() } else { 1.0 };
            tokio::time::sleep(PACE.mul_f64(part)).await;
        } else {
            // Each event is written separately.
            tokio::task::yield_now().await;
        }
        let event = match place {
            0 => chunk(r#"{"role":"assistant","content":""}"#, "null"),
            place if place <= EVENTS => {
                chunk(&format!(r#"{{"content":"t={}. "}}"#, now().as_nanos()), "null")
            }
            place if place == EVENTS + 1 => chunk("{}", "\"stop\""),
            place if place == EVENTS + 2 => "data: [DONE]\n\n".to_owned(),
            _ => return None,
        };
        Some((Ok::<_, std::convert::Infallible>(event), place + 1))
    });
    Response::builder().header("content-type", "text/event-stream").body(Body::from_stream(events)).unwrap()
}

fn chunk(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-service\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
    )
}
