//! Recorded responses of real services, sent through the host: unchanged without filters, well formed and
//! complete with filters. The developers' recordings are next to the project; `tests/fixtures` contains an
//! example of each of their peculiarities.

use crate::generator::received::{ReceivedChoice, choices_of};
use crate::host::{Answer, TestHost, chat_body, streaming};
use crate::kernel::value;
use crate::upstream::{MODEL, Reply};
use crate::well_formed;
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use valvehouse::chat::Fold;
use valvehouse::json::Json;
use valvehouse::net::sse::Parser;

/// Implements every hook without an effect.
const IDLE: &str = "
fn inlet(body) { body }
fn pre_chat(ctx) { ctx }
fn stream(event) { event }
fn stream_end(state) { }
fn post_chat(ctx) { ctx }
fn outlet(body) { body }";

const TOUCHES: &str = "fn stream(event) { event.touched = true; event }";
const HOLDS: &str = "/*\nhold: true\n*/\nfn outlet(body) { body }";

/// A recorded response.
pub(crate) struct Recording {
    pub(crate) name: String,
    pub(crate) body: Bytes,
}

impl Recording {
    fn read(path: &Path) -> Self {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut body = std::fs::read(path).unwrap();
        if name.ends_with(".jsonl") {
            let lines = String::from_utf8(body).unwrap();
            let framed: String = lines.lines().map(|line| format!("data: {line}\n\n")).collect();
            body = (framed + "data: [DONE]\n\n").into_bytes();
        }
        Self { name, body: body.into() }
    }

    pub(crate) fn is(&self, kind: &str) -> bool {
        self.name.starts_with(kind)
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.name.ends_with(".sse") || self.name.ends_with(".jsonl")
    }

    /// Returns `true` if the events contain an error.
    pub(crate) fn fails(&self) -> bool {
        self.name.contains("error")
    }

    pub(crate) fn content_type(&self) -> &'static str {
        match () {
            () if self.is_stream() => "text/event-stream; charset=utf-8",
            () if self.name.ends_with(".ndjson") => "application/x-ndjson",
            () => "application/json",
        }
    }

    fn status(&self) -> u16 {
        let number = self.name.split('.').nth(1).and_then(|word| word.parse().ok());
        number.filter(|_| self.is("error.")).unwrap_or(200)
    }

    fn reply(&self) -> Reply {
        Reply::bytes(self.content_type(), self.body.clone()).status(self.status())
    }

    /// Returns the events of a chat.
    fn events(&self) -> Vec<Value> {
        let mut parser = Parser::default();
        parser.push(&self.body);
        parser.finish();
        let data = parser.map(|event| event.unwrap().data).filter(|data| data.trim_ascii() != b"[DONE]");
        data.map(|data| serde_json::from_slice(&data).unwrap()).collect()
    }

    /// Returns the events as the host's own values.
    pub(crate) fn chat_events(&self) -> Vec<Json> {
        self.events().iter().map(|event| Json::parse(event.to_string().as_bytes()).unwrap()).collect()
    }

    async fn ask(&self, host: &TestHost) -> Answer {
        let body = if self.is_stream() { streaming(MODEL, "hi") } else { chat_body(MODEL, "hi") };
        host.chat(&body).await
    }
}

/// Returns all recordings of a folder in order; empty if the folder does not exist.
fn recordings(folder: &str) -> Vec<Recording> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder);
    let Ok(entries) = std::fs::read_dir(&folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|kind| kind != "md"));
    paths.sort();
    paths.iter().map(|path| Recording::read(path)).collect()
}

/// Returns the project's recordings and, if they exist, those of the developers.
pub(crate) fn all() -> Vec<Recording> {
    let own = recordings("tests/fixtures");
    assert!(!own.is_empty(), "tests/fixtures is part of the project");
    // A second work tree is one folder deeper.
    let mut given = recordings("../shared/recordings");
    given.extend(recordings("../../shared/recordings"));
    if given.is_empty() {
        eprintln!(
            "skipped: there are no recordings in ../shared/recordings; tests/fixtures stands in for them"
        );
    }
    own.into_iter().chain(given).collect()
}

/// Returns an assembled response without the fields that depend on its transport.
fn folded(events: &[Value]) -> Value {
    let mut fold = Fold::default();
    for event in events {
        fold.push(&Json::parse(event.to_string().as_bytes()).unwrap());
    }
    let mut whole = value(&fold.finish());
    whole.as_object_mut().unwrap().remove("touched");
    whole
}

/// Checks that a client assembles the same content from events as from the original ones, which may have no end.
fn check_content(original: &[Value], events: &[Value], what: &str) {
    let (original, mut got) = (content_of(original), content_of(events));
    if original.values().all(|choice| choice.ends.is_empty()) {
        got.values_mut().for_each(|choice| choice.ends.clear());
    }
    assert_eq!(got, original, "{what}");
}

/// Returns the content that a client assembles; services may repeat the end of a choice.
fn content_of(events: &[Value]) -> BTreeMap<u64, ReceivedChoice> {
    let mut content = choices_of(events);
    content.values_mut().for_each(|choice| choice.ends.dedup());
    content
}

/// Writes thinking in parts of the content, as Mistral sends it, as clients of read answers receive it.
fn corrected(recording: &Recording, mut answer: Value) -> Value {
    for choice in answer["choices"].as_array_mut().into_iter().flatten() {
        for key in ["message", "delta"] {
            let Some(parts) = choice[key]["content"].as_array().filter(|_| recording.is("chat.content-list"))
            else {
                continue;
            };
            let joined = |parts: &[Value]| -> String {
                parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().concat()
            };
            let text = joined(parts);
            let thinking = parts.iter().filter_map(|part| part["thinking"].as_array());
            let thinking: String = thinking.map(|parts| joined(parts)).collect();
            choice[key]["content"] = text.into();
            if !thinking.is_empty() {
                choice[key]["reasoning_content"] = thinking.into();
            }
        }
    }
    answer
}

fn same(recording: &Recording, events: &[Value], way: &str) {
    let original: Vec<Value> =
        recording.events().into_iter().map(|event| corrected(recording, event)).collect();
    check_content(&original, events, &format!("{} {way}", recording.name));
    let (mut got, mut whole) = (folded(events), folded(&original));
    for choice in 0..whole["choices"].as_array().unwrap().len() {
        if whole["choices"][choice]["finish_reason"].is_null() {
            got["choices"][choice]["finish_reason"].take();
            whole["choices"][choice]["finish_reason"].take();
        }
    }
    assert_eq!(got, whole, "{} {way}", recording.name);
}

#[tokio::test]
async fn without_filters_every_answer_passes_byte_for_byte() {
    for source in [None, Some("fn inlet(body) { body }")] {
        let setup = TestHost::new();
        let host = match source {
            Some(source) => setup.filter("inlet", source).start().await,
            None => setup.start().await,
        };
        for recording in all().iter().filter(|recording| !recording.is("error.")) {
            host.upstream.reply(recording.reply());
            let answer = recording.ask(&host).await;
            assert_eq!(answer.status, 200, "{}: {}", recording.name, answer.body());
            assert_eq!(answer.header("content-type"), Some(recording.content_type()));
            let rest = answer.body().strip_prefix(std::str::from_utf8(&recording.body).unwrap());
            let rest = rest.unwrap_or_else(|| panic!("{}: {}", recording.name, answer.body()));
            // Only the end of a line and the end of the stream may be missing.
            let rest = rest.trim_start();
            assert!(rest.is_empty() || rest == "data: [DONE]\n\n", "{}: {rest}", recording.name);
            if recording.is("chat.") && recording.is_stream() {
                well_formed::lines_of(answer.body());
            }
        }
    }
}

#[tokio::test]
async fn through_filters_every_streamed_chat_is_well_formed_and_complete() {
    for (way, source, size) in [("idle", IDLE, usize::MAX), ("idle", IDLE, 1_000), ("touched", TOUCHES, 1)] {
        let host = TestHost::new().filter("looks", source).start().await;
        for recording in all().iter().filter(|recording| recording.is("chat.") && recording.is_stream()) {
            // Each piece is a separate read, so the pieces of long responses are larger.
            let size = size.max(recording.body.len() / 8_000);
            host.upstream.reply(recording.reply().in_pieces_of(size));
            let answer = recording.ask(&host).await;
            assert_eq!(answer.status, 200, "{}: {}", recording.name, answer.body());
            let events = answer.events();
            assert_eq!(recording.fails(), events.iter().any(|event| !event["error"].is_null()));
            if !recording.fails() {
                same(recording, &events, way);
            }
        }
    }
}

#[tokio::test]
async fn a_held_answer_is_well_formed_and_complete() {
    let host = TestHost::new().filter("holds", HOLDS).start().await;
    for recording in all().iter().filter(|recording| recording.is("chat.") && recording.is_stream()) {
        // A service that streams although a whole response was requested.
        host.upstream.reply(recording.reply());
        let answer = recording.ask(&host).await;
        if recording.fails() {
            assert!((400..600).contains(&answer.status), "{}: {}", recording.name, answer.status);
            continue;
        }
        let original: Vec<Value> =
            recording.events().into_iter().map(|event| corrected(recording, event)).collect();
        check_content(&original, &answer.events(), &recording.name);
    }
}

#[tokio::test]
async fn a_complete_chat_passes_filters_unchanged_and_can_be_streamed() {
    let looks = TestHost::new().filter("looks", IDLE).start().await;
    let nobody = TestHost::new().start().await;
    let holds = TestHost::new().filter("holds", HOLDS).start().await;
    for recording in all().iter().filter(|recording| recording.is("chat.") && !recording.is_stream()) {
        let original = serde_json::from_slice(&recording.body).unwrap();
        let mut original = corrected(recording, original);
        looks.upstream.reply(recording.reply());
        let mut answer = recording.ask(&looks).await.json();
        for choices in [&mut original["choices"], &mut answer["choices"]] {
            for choice in choices.as_array_mut().unwrap() {
                // Azure omits the message if its own filter removed it; filters receive an empty one.
                let message = choice.as_object_mut().unwrap().entry("message").or_insert(Value::Null);
                if message.is_null() {
                    *message = json!({"role": "assistant", "content": ""});
                }
                if message["tool_calls"].is_null() {
                    message.as_object_mut().unwrap().remove("tool_calls");
                }
            }
        }
        assert_eq!(answer, original, "{}", recording.name);
        for host in [&looks, &nobody, &holds] {
            host.upstream.reply(recording.reply());
            let answer = host.stream("hi").await;
            let mut folded = folded(&answer.events());
            if folded.get("usage").is_none() {
                // Usage was not requested.
                folded["usage"] = original["usage"].clone();
            }
            assert_eq!(folded["choices"], original["choices"], "{}", recording.name);
            assert_eq!(folded["usage"], original["usage"], "{}", recording.name);
        }
    }
}

#[tokio::test]
async fn answers_of_another_api_are_rejected_and_name_that_api() {
    let host = TestHost::new().filter("looks", IDLE).start().await;
    for recording in all() {
        if recording.is("chat.") || recording.is("error.") {
            continue;
        }
        host.upstream.reply(recording.reply());
        let answer = recording.ask(&host).await;
        let expected = match () {
            () if recording.is("messages.error-first") => "Overloaded",
            () if recording.name.ends_with(".ndjson") => "application/x-ndjson instead of a chat response",
            () if !recording.is_stream() => "without `choices`",
            () if recording.is("messages.") => "an event of Anthropic's Messages",
            () => "an event of OpenAI's Responses",
        };
        assert!(answer.status >= 500, "{}: {} {}", recording.name, answer.status, answer.body());
        assert!(answer.message().contains(expected), "{}: {}", recording.name, answer.body());
    }
}

#[tokio::test]
async fn errors_keep_their_status_and_reason() {
    for source in [None, Some(IDLE)] {
        let setup = TestHost::new();
        let host = match source {
            Some(source) => setup.filter("looks", source).start().await,
            None => setup.start().await,
        };
        for recording in all().iter().filter(|recording| recording.is("error.")) {
            let original: Value = serde_json::from_slice(&recording.body).unwrap();
            let expected =
                original.pointer("/error/message").or(original.get("detail")).or(original.get("error"));
            for body in [chat_body(MODEL, "hi"), streaming(MODEL, "hi")] {
                host.upstream.reply(recording.reply());
                let answer = host.chat(&body).await;
                let message = expected.and_then(Value::as_str).unwrap();
                if recording.status() == 401 {
                    // The key is the host's; the name of this header is not quoted.
                    let named = message.replace("x-api-key", "API key");
                    assert_eq!(answer.status, 502, "{}", recording.name);
                    assert!(answer.message().contains(&named), "{}: {}", recording.name, answer.body());
                    continue;
                }
                assert_eq!(answer.status, recording.status(), "{}", recording.name);
                assert_eq!(answer.message(), message, "{}", recording.name);
            }
        }
    }
}

#[test]
fn events_are_the_same_wherever_a_recording_is_cut() {
    let read = |pieces: &[&[u8]]| {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        for piece in pieces {
            parser.push(piece);
            events.extend(&mut parser);
        }
        parser.finish();
        events.extend(&mut parser);
        events
    };
    for recording in all().iter().filter(|recording| recording.is_stream()) {
        let whole = read(&[&recording.body]);
        assert_eq!(read(&recording.body.chunks(1).collect::<Vec<_>>()), whole, "{}", recording.name);
        // Cuts at every separator and next to it, or with VALVEHOUSE_CASES at every byte; each cut reads the
        // rest again.
        let ends = (0..recording.body.len()).filter(|at| matches!(recording.body[*at], b'\n' | b'\r' | b':'));
        let ends = ends.step_by(1 + recording.body.len() / 4096).flat_map(|at| at..=at + 1);
        let all_of_them = valvehouse_testkit::is_long();
        let places: Vec<usize> =
            if all_of_them { (0..recording.body.len()).collect() } else { ends.collect() };
        for at in places {
            let (start, rest) = recording.body.split_at(at);
            assert_eq!(read(&[start, rest]), whole, "{} cut at {at}", recording.name);
        }
    }
}
