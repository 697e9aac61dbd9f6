//! The costs of memory: a conversation of a thousand turns, per hundred turns, with summaries and with a window
//! alone, and a stored turn compared with one that is not stored. Run with `cargo bench --bench agent`. Only ratios of
//! times are comparable; other values are counts.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // printing figures is what it is for

mod common;

use common::{processor_time, quantile, ratio, resident};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use valvehouse::agent::callbacks::Callbacks;
use valvehouse::agent::summary::Summarization;
use valvehouse::agent::{Begin, HistoryMatch, Runs, Setup};
use valvehouse::chat::ChatRequest;
use valvehouse::context::{Context, Events, Turn, TurnFacts};
use valvehouse::error::Error;
use valvehouse::json::Json;
use valvehouse::kernel::{Kernel, RunOptions};
use valvehouse::provider::{Answer, Provider, Request};
use valvehouse::store::Store;

#[global_allocator]
static ALLOCATOR: valvehouse::memory::CountingAllocator = valvehouse::memory::CountingAllocator::new();

const BLOCKS: usize = 10;
const TURNS: usize = 100;

fn main() {
    // `cargo test` builds benches and runs them too: they measure nothing then.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let runtime = common::runtime();
    runtime.block_on(async {
        let summaries = long_talk("summaries", true).await;
        long_talk("window alone", false).await;
        beside_plain(summaries).await;
    });
}

/// A model that answers at once and counts the bytes that it receives.
#[derive(Default)]
struct Talker {
    bytes: AtomicUsize,
    calls: AtomicUsize,
}

impl Provider for Talker {
    fn name(&self) -> &str {
        "talker"
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        self.bytes.fetch_add(request.body.to_string().len(), Relaxed);
        let call = self.calls.fetch_add(1, Relaxed);
        let text = format!("answer {call}: {}", "as many words as people like to read ".repeat(8));
        Box::pin(async move { Ok(Answer::Whole(completion(&text))) })
    }
}

fn completion(text: &str) -> Json {
    let message = Json::from([("role", "assistant".into()), ("content", text.into())]);
    let choice = Json::from([("index", 0i64.into()), ("message", message), ("finish_reason", "stop".into())]);
    Json::from([
        ("id", "x".into()),
        ("object", "chat.completion".into()),
        ("created", 1i64.into()),
        ("model", "talker".into()),
        ("choices", vec![choice].into()),
    ])
}

fn chat_of(text: &str) -> Json {
    let message = Json::from([("role", "user".into()), ("content", text.into())]);
    Json::from([("model", "talker".into()), ("messages", vec![message].into())])
}

/// An agent of that model, with or without summaries.
fn setup(talker: &Arc<Talker>, summarize: bool) -> Setup {
    let settings = Summarization { summarize, ..Summarization::default() };
    let filter = settings.with_model(talker.clone(), "talker").filter();
    Setup {
        id: "bench".into(),
        kernel: Kernel::builder().filters(vec![filter]).provider(talker.clone()).build(),
        model: Json::from([("id", "talker".into())]),
        models: Json::array(),
        name: "bench".into(),
        callbacks: Callbacks::new(),
        listeners: Vec::new(),
        exchange: None,
    }
}

async fn turn(runs: &Runs, setup: &Setup, chat: &str, text: &str) -> String {
    let begin = Begin {
        conversation: chat.into(),
        request: ChatRequest::new(chat_of(text)).unwrap(),
        facts: TurnFacts { chat_id: chat.into(), ..TurnFacts::default() },
        context: Context::default(),
        events: Events::default(),
        stream: None,
        given: HistoryMatch::Known,
        window: None,
    };
    runs.begin(setup, begin, |_| {}).await.unwrap().run
}

/// Runs a thousand turns. Returns the cost of the last ones and the number of their stored steps.
async fn long_talk(name: &str, summarize: bool) -> (Duration, u64) {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::sqlite(&folder.path().join("state.db")).await.unwrap());
    let runs = Runs::new(store.clone(), "bench");
    let talker = Arc::new(Talker::default());
    let setup = setup(&talker, summarize);
    println!("a long talk, {name}");
    println!(
        "{:>11} {:>9} {:>9} {:>12} {:>11} {:>11} {:>11} {:>8}",
        "turns", "us a turn", "processor", "bytes sent", "checkpoint", "checkpoints", "store KiB", "RSS MiB"
    );
    let (mut usual, mut steps) = (Duration::ZERO, 0);
    for block in 0..BLOCKS {
        let mut times = Vec::new();
        let mut run = String::new();
        let (before, processor) = (talker.bytes.load(Relaxed), processor_time("self"));
        for number in 0..TURNS {
            let text = format!("turn {}: {}", block * TURNS + number, "what people say ".repeat(10));
            let began = Instant::now();
            run = turn(&runs, &setup, "long", &text).await;
            times.push(began.elapsed());
        }
        let processor = (processor_time("self") - processor) / TURNS as u32;
        usual = quantile(&mut times, 0.5);
        steps = store.run(&run).await.unwrap().unwrap().step;
        let checkpoint = store.latest_checkpoint(&run).await.unwrap().unwrap().state.to_string().len();
        let rows = store.checkpoints("long", 1_000_000).await.unwrap().len();
        let size: u64 = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        println!(
            "{:>5}-{:<5} {:>9} {:>9} {:>12} {:>11} {:>11} {:>11} {:>8.1}",
            block * TURNS + 1,
            (block + 1) * TURNS,
            usual.as_micros(),
            processor.as_micros(),
            (talker.bytes.load(Relaxed) - before) / TURNS,
            checkpoint,
            rows,
            size >> 10,
            resident("self") as f64 / f64::from(1 << 20),
        );
    }
    let length = store.conversation("long").await.unwrap().unwrap().length;
    assert_eq!(length, (2 * BLOCKS * TURNS) as u64, "every message is there");
    runs.close().await;
    (usual, steps)
}

/// Compares a stored turn with the same turn without storage.
async fn beside_plain((remembered, steps): (Duration, u64)) {
    let talker = Arc::new(Talker::default());
    let setup = setup(&talker, false);
    let mut times = Vec::new();
    for number in 0..BLOCKS * TURNS {
        let body = chat_of(&format!("turn {number}: {}", "what people say ".repeat(10)));
        let Some(Json::Array(messages)) = body.get("messages") else { return };
        for _ in 0..10 {
            // The size of the window.
            for one in [chat_of("before").at_path("messages").at(0).unwrap(), answered()] {
                messages.push(one).unwrap();
            }
        }
        let turn = Turn::new(TurnFacts::default(), Context::default(), Events::default());
        let began = Instant::now();
        setup.kernel.run(ChatRequest::new(body).unwrap(), RunOptions::new(turn)).answer().await.unwrap();
        times.push(began.elapsed());
    }
    let plain = quantile(&mut times, 0.5);
    println!("a plain turn of as many messages    {plain:>10.1?}");
    println!(
        "a remembered one, turn 1000         {remembered:>10.1?}   {:.1}x; {:.1?} for each of {steps} kept steps",
        ratio(remembered, plain),
        remembered.saturating_sub(plain) / u32::try_from(steps).unwrap_or(1).max(1),
    );
}

fn answered() -> Json {
    let text = "as many words as people like to read ".repeat(8);
    Json::from([("role", "assistant".into()), ("content", text.into())])
}
