//! The costs of hook calls, bodies, events and reloads, measured in one run.
//!
//! `cargo bench` prints for each row the time, the floor for the same work without the host (`floor`, from earlier
//! measurements), the ratio to it and, if available, the ratio to the same work in plain Rust in this run. Only ratios
//! are comparable. `cargo bench --bench spine -- events guard` measures only these rows. `-- --dump FOLDER` only writes
//! the inputs, so that other programs can be measured with them (`benches/beside_cpython`).

#![allow(clippy::print_stdout, clippy::unwrap_used)] // printing figures is what it is for

use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use valvehouse::chat::ChatRequest;
use valvehouse::context::{Context, Events, Turn, TurnFacts};
use valvehouse::error::Error;
use valvehouse::filter::Verdict::Continue;
use valvehouse::filter::{Chain, ChainOutcome, FilterEntry, Hook};
use valvehouse::json::Json;
use valvehouse::kernel::{Kernel, RunOptions, TurnEvent};
use valvehouse::net::sse::Parser;
use valvehouse::provider::{Answer, Provider, Request, StreamChunk};
use valvehouse::script::{Kind, Script, Settings, SourceFile};
use valvehouse::trace::{RequestFacts, Traces};

#[global_allocator]
static ALLOCATOR: valvehouse::memory::CountingAllocator = valvehouse::memory::CountingAllocator::new();

fn main() {
    // `cargo test` builds benches and runs them too: they measure nothing then.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let mut words = std::env::args().skip_while(|word| word != "--dump").skip(1);
    if let Some(folder) = words.next() {
        return dump(folder.as_ref());
    }
    let head = ["what", "time", "floor", "ratio", "beside"];
    println!("{:<52} {:>11} {:>11} {:>7}  {}", head[0], head[1], head[2], head[3], head[4]);
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for (name, measure) in [
        ("hooks", hooks as fn()),
        ("guard", guard),
        ("bodies", bodies),
        ("events", events),
        ("streams", streams),
        ("reloads", reloads),
    ] {
        if wanted.is_empty() || wanted.iter().any(|word| word == name) {
            measure();
        }
    }
}

/// The bodies with their names, and the event.
fn dump(folder: &std::path::Path) {
    std::fs::create_dir_all(folder).unwrap();
    for (name, bytes, _) in all_bodies() {
        std::fs::write(folder.join(format!("{name}.json")), bytes).unwrap();
    }
    std::fs::write(folder.join("bodies"), all_bodies().map(|(name, ..)| format!("{name}\n")).concat())
        .unwrap();
    std::fs::write(folder.join("event.json"), EVENT).unwrap();
}

/// Returns the time of work on an idle machine: the first decile of 1,000 batches of 0.2 ms.
fn time(mut work: impl FnMut()) -> Duration {
    time_both(&mut work, || {}).0
}

/// Measures two kinds of work in alternating batches, under the same conditions.
fn time_both(mut one: impl FnMut(), mut other: impl FnMut()) -> (Duration, Duration) {
    let counts = (fits(&mut one), fits(&mut other));
    let mut batches = (Vec::new(), Vec::new());
    for _ in 0..1_000 {
        batches.0.push(batch(&mut one, counts.0));
        batches.1.push(batch(&mut other, counts.1));
    }
    batches.0.sort();
    batches.1.sort();
    (batches.0[100], batches.1[100])
}

/// Returns the number of times that work fits into 0.2 ms.
fn fits(work: &mut impl FnMut()) -> u32 {
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < Duration::from_millis(20) && count < 1_000_000 {
        work();
        count += 1;
    }
    (count / 100).max(1)
}

fn batch(work: &mut impl FnMut(), count: u32) -> Duration {
    let began = Instant::now();
    for _ in 0..count {
        work();
    }
    began.elapsed() / count
}

fn row(what: &str, measured: Duration, floor_ns: Option<f64>, beside: &str) {
    let ns = measured.as_nanos() as f64;
    let (floor, ratio) = match floor_ns {
        Some(floor) => (show(floor), format!("{:.2}x", ns / floor)),
        None => ("-".into(), "-".into()),
    };
    println!("{what:<52} {:>11} {floor:>11} {ratio:>7}  {beside}", show(ns));
}

fn show(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

fn script(id: &str, text: &str) -> FilterEntry {
    script_with(id, text, &Settings::default())
}

fn script_with(id: &str, text: &str, settings: &Settings) -> FilterEntry {
    let file = SourceFile::new(Kind::Filter, id, format!("{id}.rhai"), text);
    let script = Script::compile(&file, settings).unwrap_or_else(|problems| panic!("{problems:?}"));
    Arc::new(script).into_filter(Arc::default())
}

fn chain(count: usize, text: &str) -> Chain {
    Chain::new((0..count).map(|index| script(&format!("f{index}"), text)).collect())
}

fn run(chain: &Chain, hook: Hook, value: Json, turn: &Turn) -> Json {
    match futures::executor::block_on(chain.run(hook, value, turn)) {
        Ok(ChainOutcome::Done(value) | ChainOutcome::Skipped(value)) => value,
        Err(error) => panic!("{error}"),
    }
}

fn body(messages: usize, length: usize) -> Vec<u8> {
    let text = "lorem ipsum dolor sit amet ".repeat(length / 27 + 1);
    let messages: Vec<Json> = (0..messages)
        .map(|index| {
            let role = if index % 2 == 0 { "user" } else { "assistant" };
            Json::from([("role", role.into()), ("content", text[..length].into())])
        })
        .collect();
    let body =
        Json::from([("model", "demo".into()), ("temperature", 0.7.into()), ("messages", messages.into())]);
    body.encode().unwrap()
}

/// The floors for no, one and ten filters.
type Floors = [Option<f64>; 3];

/// Names, bytes and floors.
fn all_bodies() -> [(&'static str, Vec<u8>, Floors); 2] {
    [
        ("20 messages (9 KB)", body(20, 420), [None, None, Some(21_900.0)]),
        ("200 messages (418 KB)", body(200, 2_050), [None, None, Some(408_000.0)]),
    ]
}

const EVENT: &str = r#"{"id":"chatcmpl-9abdb2b46aa2","object":"chat.completion.chunk","created":1795236998,"model":"gpt-4o-mini-2024-07-18","service_tier":"default","system_fingerprint":"fp_44added55e","choices":[{"index":0,"delta":{"content":" a small piece of text"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"kX3J1"}"#;

const SET: &str = "fn inlet(body) { body.temperature = 0.5; body }";
const LOOK: &str = r#"fn stream(event) { if event.text.contains("zzz") { event.text = "***"; } }"#;
const WINDOW: &str = r#"fn stream(event, state) { stream::window(event, state, 40, |text| regex::replace(text, "sk-[A-Za-z0-9]{20,}", "[key]")); }"#;
const CHANGE: &str = r#"fn stream(event) { event.text = "changed"; event }"#;

fn hooks() {
    let turn = Turn::default();
    let small = Json::parse(&body(20, 420)).unwrap();
    let large = Json::parse(&body(200, 2_050)).unwrap();
    let empty = chain(1, "fn inlet(body) { }");
    row(
        "one empty hook, through the chain",
        time(|| drop(run(&empty, Hook::Inlet, small.clone(), &turn))),
        Some(290.0),
        "floor: handle in, handle out",
    );
    let set = chain(1, SET);
    let on_small = time(|| drop(run(&set, Hook::Inlet, small.clone(), &turn)));
    let on_large = time(|| drop(run(&set, Hook::Inlet, large.clone(), &turn)));
    row("one property set, 20 messages", on_small, Some(720.0), "");
    let ratio = on_large.as_secs_f64() / on_small.as_secs_f64();
    row("one property set, 200 messages", on_large, Some(740.0), &format!("{ratio:.2}x of 20 messages"));
    let valves = chain(
        1,
        "const Valves = #{ limit: 1000 }; fn inlet(body, valves) { if body.messages.len() > valves.limit { throw \"x\"; } }",
    );
    row("turn limit by valve", time(|| drop(run(&valves, Hook::Inlet, small.clone(), &turn))), None, "");
    let count = chain(1, "fn inlet(body) { let n = body.messages.count(\"user\"); }");
    row(
        "count(\"user\") over 200 messages",
        time(|| drop(run(&count, Hook::Inlet, large.clone(), &turn))),
        Some(4_800.0),
        "",
    );
    let walk = chain(
        1,
        "fn inlet(body) { let n = 0; for m in body.messages { if m.role == \"user\" { n += 1; } } }",
    );
    row(
        "the same as a loop of the script",
        time(|| drop(run(&walk, Hook::Inlet, large.clone(), &turn))),
        Some(68_000.0),
        "",
    );
}

/// Measures the cost of holding scripts to their budgets: operations, memory, time.
fn guard() {
    let turn = Turn::default();
    let event = Json::parse(EVENT.as_bytes()).unwrap();
    let body = Json::parse(&body(2, 20)).unwrap();
    let looped = "fn inlet(body) { let n = 0; for i in 0..1000 { n += i; } }";
    for (what, text, hook, value) in
        [("one text hook", LOOK, Hook::Stream, event), ("a loop of 1 000", looped, Hook::Inlet, body)]
    {
        let chain = |guarded| {
            let settings = Settings { guarded, ..Settings::default() };
            Chain::new(vec![script_with("f", text, &settings)])
        };
        let (on, off) = (chain(true), chain(false));
        let (on, off) = time_both(
            || drop(run(&on, hook, value.clone(), &turn)),
            || drop(run(&off, hook, value.clone(), &turn)),
        );
        let ratio = on.as_secs_f64() / off.as_secs_f64();
        row(&format!("{what}, held to its budget"), on, None, &format!("{ratio:.2}x of nothing held"));
    }
}

fn bodies() {
    let turn = Turn::default();
    for (name, bytes, floors) in all_bodies() {
        let serde = time(|| {
            let value: serde_json::Value = serde_json::from_slice(black_box(&bytes)).unwrap();
            black_box(serde_json::to_vec(&value).unwrap());
        });
        for (count, floor) in [0, 1, 10].into_iter().zip(floors) {
            let scripts = chain(count, SET);
            let through = |chain: &Chain| {
                let value = Json::parse(black_box(&bytes)).unwrap();
                black_box(run(chain, Hook::Inlet, value, &turn).encode().unwrap());
            };
            let closures = Chain::new(
                (0..count)
                    .map(|index| {
                        FilterEntry::closure(&format!("c{index}"), Hook::Inlet, |ctx| {
                            let _ = ctx.value.set("temperature", 0.5);
                            Ok(Continue)
                        })
                    })
                    .collect(),
            );
            let (through, native) = time_both(|| through(&scripts), || through(&closures));
            let beside = format!(
                "{:.2}x of {count} Rust closures, {:.2}x of serde_json there and back",
                through.as_secs_f64() / native.as_secs_f64(),
                through.as_secs_f64() / serde.as_secs_f64()
            );
            row(&format!("bytes -> {count} filters -> bytes, {name}"), through, floor, &beside);
        }
    }
}

fn events() {
    let turn = Turn::default();
    let parse = time(|| drop(black_box(Json::parse(black_box(EVENT.as_bytes())).unwrap())));
    row("event: parse only", parse, Some(1_000.0), "floor: serde_json");
    for (count, floor) in [(0, None), (1, Some(920.0)), (10, None)] {
        let scripts = chain(count, LOOK);
        let through = time(|| {
            let event = Json::parse(black_box(EVENT.as_bytes())).unwrap();
            let event = run(&scripts, Hook::Stream, event, &turn);
            assert!(!event.is_changed());
        });
        row(&format!("event -> {count} text hooks, unchanged"), through, floor, "bytes are kept");
    }
    let traces = Traces::new(1);
    for count in [1, 10] {
        let scripts = chain(count, LOOK);
        let through = |turn: &Turn| {
            let event = Json::parse(black_box(EVENT.as_bytes())).unwrap();
            drop(run(&scripts, Hook::Stream, event, turn));
        };
        let written_down = traced(&traces);
        let (with, without) = time_both(|| through(&written_down), || through(&turn));
        let beside = format!("{:.2}x of without a trace", with.as_secs_f64() / without.as_secs_f64());
        row(&format!("event -> {count} text hooks, in a turn with a trace"), with, None, &beside);
    }
    for (count, floor) in [(1, Some(3_700.0)), (10, None)] {
        let scripts = chain(count, CHANGE);
        let through = time(|| {
            let event = Json::parse(black_box(EVENT.as_bytes())).unwrap();
            black_box(run(&scripts, Hook::Stream, event, &turn).encode().unwrap());
        });
        row(&format!("event -> {count} text hooks, changed -> bytes"), through, floor, "");
    }
}

/// Creates a turn like an endpoint: with a trace, without contents.
fn traced(traces: &Arc<Traces>) -> Turn {
    let recording = traces.begin(RequestFacts::default(), false);
    let facts = TurnFacts { trace: Some(recording.trace().clone()), ..TurnFacts::default() };
    Turn::new(facts, Context::default(), Events::default())
}

/// The number of events of an answer.
const EVENTS: usize = 1_000;

/// A service whose answer is the bytes of a socket.
struct Wire(Vec<u8>);

impl Wire {
    fn new() -> Self {
        let mut bytes = format!("data: {EVENT}\n\n").repeat(EVENTS - 1);
        bytes.push_str("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n");
        Self(bytes.into_bytes())
    }
}

impl Provider for Wire {
    fn name(&self) -> &str {
        "wire"
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn chat(&self, _: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        let bytes = self.0.clone();
        let pieces = stream::unfold((bytes, 0, Parser::default()), |(bytes, at, mut parser)| async move {
            let mut at = at;
            loop {
                if let Some(event) = parser.next() {
                    let raw = event.unwrap().data;
                    let piece = StreamChunk::received(raw.clone(), Json::parse(&raw).unwrap(), None);
                    return Some((Ok(piece), (bytes, at, parser)));
                }
                let chunk =
                    bytes.get(at..(at + 16 * 1024).min(bytes.len())).filter(|chunk| !chunk.is_empty())?;
                parser.push(chunk);
                at += chunk.len();
            }
        });
        Box::pin(async { Ok(Answer::Stream(pieces.boxed())) })
    }
}

/// Measures the complete path of an event, without sockets.
fn streams() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let wire: Arc<dyn Provider> = Arc::new(Wire::new());
    let redact = std::fs::read_to_string("filters/redact.rhai").unwrap_or_else(|_| WINDOW.to_owned());
    let cases = [
        (0, LOOK, "text hooks, unchanged"),
        (1, LOOK, "text hooks, unchanged"),
        (10, LOOK, "text hooks, unchanged"),
        (1, CHANGE, "text hooks, changed"),
        (1, WINDOW, "windows"),
        (1, redact.as_str(), "shipped redact"),
    ];
    let traces = Traces::new(100);
    for (count, text, what) in cases {
        let scripts = (0..count).map(|index| script(&format!("f{index}"), text));
        let kernel = Kernel::builder().filters(scripts).provider(wire.clone()).build();
        let answer = time(|| {
            let body =
                Json::parse(br#"{"model":"wire","messages":[{"role":"user","content":"hi"}],"stream":true}"#)
                    .unwrap();
            let options = RunOptions::new(traced(&traces)).streamed(true);
            let mut out = Vec::new();
            let mut answer = kernel.run(ChatRequest::new(body).unwrap(), options);
            runtime.block_on(async {
                while let Some(event) = answer.next().await {
                    let TurnEvent::Chunk(piece) = event.unwrap_or_else(|error| panic!("{error}")) else {
                        continue;
                    };
                    out.extend_from_slice(b"data: ");
                    match piece.raw.is_empty() {
                        true => piece.event.encode_into(&mut out).unwrap(),
                        false => out.extend_from_slice(&piece.raw),
                    }
                    out.extend_from_slice(b"\n\n");
                }
            });
            assert!(out.len() > EVENTS * 200);
        });
        let name = format!("streamed event, bytes -> {count} {what} -> bytes");
        row(&name, answer / EVENTS as u32, None, "with all a turn does");
    }
}

fn reloads() {
    let text = std::fs::read_to_string("filters/turn_limit.rhai").unwrap_or_else(|_| SET.to_owned());
    let one = time(|| drop(black_box(script("one", &text))));
    row("compile one script (twice: read, then fold valves)", one, Some(160_000.0), "floor: 2 x 80 us");
    let began = Instant::now();
    let thousand: Vec<FilterEntry> = (0..1_000).map(|index| script(&format!("s{index}"), &text)).collect();
    let compiled = began.elapsed();
    row("compile 1 000 scripts", compiled, Some(160_000_000.0), "");
    let sorted = time(|| drop(black_box(Chain::new(thousand.clone()))));
    row("sort 1 000 filters into a chain", sorted, None, "");
    let pointer = arc_swap::ArcSwap::from_pointee(Chain::new(thousand));
    row(
        "swap and take",
        time(|| {
            pointer.store(pointer.load_full());
            drop(black_box(pointer.load_full()));
        }),
        Some(21.0),
        "floor: take alone",
    );
}
