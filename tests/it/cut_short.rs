//! A service whose stream ends at any point, for a model with a memory: the client receives the same text or
//! a clear error, the store keeps the whole response or nothing, and the run can be retried.

use crate::host::{TestHost, streaming};
use crate::recordings::{self, Recording};
use crate::upstream::Reply;
use futures::StreamExt as _;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use valvehouse::agent::Decision;
use valvehouse::store::RunStatus;

const REMEMBERS: &str =
    "[[models]]\nname = \"assistant\"\nprovider = \"mock\"\nmodel = \"mock-1\"\nmemory = true";
/// Reads every event, as filters do.
const LOOKS: &str = "fn stream(event) { event }";

/// The distance between two cuts in bytes, unless VALVEHOUSE_CASES requests a cut at every byte.
const STRIDE: usize = 311;
/// The length in bytes above which a recording gets as many cuts as one of this length.
const MAX_LENGTH: usize = 4_000;
/// The number of concurrent chats.
const AT_ONCE: usize = 16;

/// The way in which a stream ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum End {
    /// The response ends regularly.
    Well,
    /// The connection breaks.
    Breaks,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CutPoint {
    recording: usize,
    at: usize,
    end: End,
}

impl CutPoint {
    fn chat(&self) -> String {
        format!("{}-{}-{:?}", self.recording, self.at, self.end)
    }
}

/// The result of a chat.
#[derive(Debug, PartialEq)]
struct Outcome {
    text: String,
    error: Option<String>,
    run: Option<String>,
    remembered: Vec<Value>,
}

async fn ask(host: &TestHost, chat: &str) -> Outcome {
    let mut body = streaming("assistant", chat);
    body["chat_id"] = chat.into();
    let answer = host.chat(&body).await;
    let run = answer.header("x-valvehouse-run").map(str::to_owned);
    let (text, error) = match answer.status {
        200 => {
            let events = answer.events();
            let word = |event: &Value| event["choices"][0]["delta"]["content"].as_str().map(str::to_owned);
            let error = events.iter().find_map(|event| event["error"]["message"].as_str());
            (events.iter().filter_map(word).collect(), error.map(str::to_owned))
        }
        _ => (String::new(), Some(answer.message())),
    };
    Outcome { text, error, run, remembered: remembered(host, chat).await }
}

async fn remembered(host: &TestHost, chat: &str) -> Vec<Value> {
    let messages = host.store().messages(chat, 0, 100).await.unwrap();
    messages.iter().map(|message| serde_json::from_str(&message.to_string()).unwrap()).collect()
}

/// Returns the cuts of all recordings.
fn cuts(all: &[Recording]) -> Vec<CutPoint> {
    let everywhere = valvehouse_testkit::is_long();
    let mut cuts = Vec::new();
    for (recording, Recording { body, .. }) in all.iter().enumerate() {
        let longer = body.len().div_ceil(MAX_LENGTH).max(1);
        let stride = if everywhere { longer } else { STRIDE * longer };
        for (turn, at) in (0..body.len()).step_by(stride).enumerate() {
            let end = if turn % 2 == 0 { End::Breaks } else { End::Well };
            cuts.push(CutPoint { recording, at, end });
        }
    }
    cuts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_stream_is_stored_completely_or_not_at_all() {
    let host = TestHost::new().config(REMEMBERS).filter("looks", LOOKS).start().await;
    let mut all = recordings::all();
    all.retain(|recording| recording.is("chat.") && recording.is_stream() && !recording.fails());
    let all = Arc::new(all);
    let cuts = cuts(&all);
    let by_chat: HashMap<String, CutPoint> = cuts.iter().map(|cut| (cut.chat(), cut.clone())).collect();
    let (interrupted, known) = (Mutex::new(HashSet::new()), all.clone());
    host.upstream.script(move |question| {
        let text = question.last_text();
        let cut = by_chat.get(&text).filter(|_| interrupted.lock().unwrap().insert(text.clone()));
        let number: usize = text.split('-').next().unwrap().parse().unwrap();
        let recording = &known[number];
        let kind = recording.content_type();
        match cut {
            Some(cut) if cut.end == End::Breaks => {
                Reply::bytes(kind, recording.body.slice(..cut.at)).then_cut()
            }
            Some(cut) => Reply::bytes(kind, recording.body.slice(..cut.at)),
            None => Reply::bytes(kind, recording.body.clone()),
        }
    });
    let mut wholes = Vec::new();
    for number in 0..all.len() {
        let came = ask(&host, &format!("{number}-whole")).await;
        assert_eq!((&came.error, came.remembered.len()), (&None, 2), "{}: {came:?}", all[number].name);
        wholes.push(came);
    }
    let checked = futures::stream::iter(&cuts).map(|cut| check(&host, &all, &wholes, cut));
    let whole: Vec<bool> = checked.buffer_unordered(AT_ONCE).collect().await;
    let count = whole.iter().filter(|whole| **whole).count();
    println!(
        "{} cuts of {} streams: {count} lost nothing, {} were reported and tried again",
        cuts.len(),
        all.len(),
        cuts.len() - count
    );
}

/// Checks one cut. Returns `true` if the response was complete.
async fn check(host: &TestHost, all: &[Recording], wholes: &[Outcome], cut: &CutPoint) -> bool {
    let (chat, whole) = (cut.chat(), &wholes[cut.recording]);
    let came = ask(host, &chat).await;
    let what = format!("{} {cut:?}: {came:?}, whole: {:?}", all[cut.recording].name, whole.text);
    if came.error.is_none() {
        assert_eq!(came.text, whole.text, "{what}");
        assert_eq!(came.remembered[1..], whole.remembered[1..], "{what}");
        return true;
    }
    assert!(whole.text.starts_with(&came.text), "{what}");
    assert_eq!(came.remembered.len(), 1, "{what}");
    let run = came.run.clone().or(newest_run(host, &chat).await).unwrap_or_else(|| panic!("{what}"));
    let stored = host.store().run(&run).await.unwrap().unwrap();
    assert_eq!(stored.status, RunStatus::Failed, "{what}");
    let ended = host.resume_run(&run, Decision::GoOn).await;
    ended.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(remembered(host, &chat).await[1..], whole.remembered[1..], "{what}");
    false
}

async fn newest_run(host: &TestHost, chat: &str) -> Option<String> {
    host.store().runs(Some(chat), None, 1).await.unwrap().pop().map(|run| run.id)
}
