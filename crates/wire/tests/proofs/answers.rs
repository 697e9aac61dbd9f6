//! Answers reach a client through each protocol as the model gave them, complete and streamed.

use crate::cases;
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::VecDeque;
use valvehouse_core::chat::{CallStream, Fold, split};
use valvehouse_json::Json;
use valvehouse_wire::ollama::answer::{OllamaReader, OllamaWriter};
use valvehouse_wire::ollama::request::OllamaRoute;
use valvehouse_wire::openai::stream::ChatReader;
use valvehouse_wire::responses::answer::Resource;
use valvehouse_wire::responses::stream::{ResponsesReader, ResponsesWriter};
use valvehouse_wire::service::Protocol;
use valvehouse_wire::{ServiceEvent, StreamReader, messages, openai, responses};

/// Any answer that all protocols can carry.
pub(crate) fn answer() -> impl Strategy<Value = Json> {
    let text = || prop_oneof!["[a-z]{1,9}", "[a-zé \"\n]{0,8}[a-z]"];
    let calls = prop::collection::vec(("[a-z]{1,5}", text()), 0..3);
    let reasons = prop::sample::select(vec!["stop", "length", "content_filter"]);
    (prop::option::of(text()), prop::option::of(text()), calls, reasons, any::<(u8, u8)>()).prop_map(
        |(content, thinking, calls, reason, (prompt, completion))| {
            let has_calls = !calls.is_empty();
            let calls = calls.into_iter().enumerate().map(|(at, (name, argument))| {
                let arguments = Json::from([("a", argument.into())]).to_string();
                let function = Json::from([("name", name.into()), ("arguments", arguments.into())]);
                let id = format!("call_{at}");
                Json::from([("id", id.into()), ("type", "function".into()), ("function", function)])
            });
            let calls: Vec<Json> = calls.collect();
            let content = match content {
                None if !has_calls => Json::from("x"),
                content => content.into(),
            };
            let message = Json::from([("role", "assistant".into()), ("content", content)]);
            if let Some(thinking) = thinking {
                message.put("reasoning_content", thinking);
            }
            if has_calls {
                message.put("tool_calls", calls);
            }
            let reason = if has_calls { "tool_calls" } else { reason };
            let choice =
                Json::from([("index", 0_i64.into()), ("message", message), ("finish_reason", reason.into())]);
            let (prompt, completion) = (i64::from(prompt), i64::from(completion));
            let usage = Json::from([
                ("prompt_tokens", prompt.into()),
                ("completion_tokens", completion.into()),
                ("total_tokens", (prompt + completion).into()),
            ]);
            Json::from([
                ("id", "chatcmpl-1".into()),
                ("object", "chat.completion".into()),
                ("created", 1_i64.into()),
                ("model", "m".into()),
                ("choices", vec![choice].into()),
                ("usage", usage),
            ])
        },
    )
}

/// Returns the meaning of an answer: its message, its end and its counts.
fn meaning(answer: &Json) -> Json {
    let choice = answer.at_path("choices.0");
    let message = choice.field("message");
    let content = message.text_or_empty("content");
    let usage = answer.field("usage");
    Json::from([
        ("content", content.into()),
        ("reasoning_content", message.text_or_empty("reasoning_content").into()),
        ("tool_calls", message.list("tool_calls").into()),
        ("finish_reason", choice.field("finish_reason")),
        ("prompt_tokens", usage.field("prompt_tokens")),
        ("completion_tokens", usage.field("completion_tokens")),
        ("total_tokens", usage.field("total_tokens")),
    ])
}

fn responses_writer() -> ResponsesWriter {
    let sent = crate::json(r#"{"model":"m","input":"q"}"#);
    let request = responses::request::read(sent, Vec::new()).unwrap();
    ResponsesWriter::new(Resource::new(&request), request.spaces)
}

/// Writes an answer for a client of a protocol.
pub(crate) fn written(protocol: Protocol, answer: &Json) -> Json {
    match protocol {
        Protocol::Chat => answer.deep_clone(),
        Protocol::Messages => messages::answer::write(answer),
        Protocol::Responses => {
            let mut writer = responses_writer();
            writer.write_whole(answer);
            writer.end().pop().unwrap().field("response")
        }
        Protocol::Ollama => OllamaWriter::new(OllamaRoute::Chat, "m".into()).whole(answer),
    }
}

fn read(protocol: Protocol, answer: &Json) -> Json {
    match protocol {
        Protocol::Chat => openai::answer::read(answer),
        Protocol::Messages => messages::answer::read(answer),
        Protocol::Responses => responses::answer::read(answer),
        Protocol::Ollama => OllamaReader::new(&Json::object()).whole(answer),
    }
    .unwrap_or_else(|error| panic!("{protocol:?} {error:?}: {answer}"))
}

/// Writes an answer as the events of a protocol.
pub(crate) fn events(protocol: Protocol, answer: &Json) -> Vec<Json> {
    let chunks = split(answer, true);
    match protocol {
        Protocol::Chat => chunks,
        Protocol::Messages => {
            let mut writer = messages::stream::MessagesWriter::default();
            let mut events: Vec<Json> = chunks.iter().flat_map(|chunk| writer.write(chunk)).collect();
            events.extend(writer.end());
            events
        }
        Protocol::Responses => {
            let mut writer = responses_writer();
            let mut events: Vec<Json> = chunks.iter().flat_map(|chunk| writer.write(chunk)).collect();
            events.extend(writer.end());
            events
        }
        Protocol::Ollama => {
            let mut writer = OllamaWriter::new(OllamaRoute::Chat, "m".into());
            let mut lines: Vec<Json> = chunks.iter().filter_map(|chunk| writer.write(chunk)).collect();
            lines.extend(writer.end());
            lines
        }
    }
}

fn folded(protocol: Protocol, events: &[Json]) -> Json {
    match protocol {
        Protocol::Chat => fold(ChatReader::new(CallStream::default()), events),
        Protocol::Messages => fold(messages::stream::MessagesReader::default().with_usage(true), events),
        Protocol::Responses => fold(ResponsesReader::default().with_usage(true), events),
        Protocol::Ollama => {
            fold(OllamaReader::new(&crate::json(r#"{"stream_options":{"include_usage":true}}"#)), events)
        }
    }
}

fn fold(mut reader: impl StreamReader, events: &[Json]) -> Json {
    let (mut fold, mut out) = (Fold::default(), VecDeque::new());
    for json in events {
        assert!(!reader.is_over(), "after the end: {json}");
        let data = Bytes::from(json.to_string());
        reader.read_event(ServiceEvent { name: None, data, json: json.clone() }, &mut out).unwrap();
    }
    reader.read_done(&mut out).unwrap();
    assert!(reader.is_complete() && reader.end().is_none());
    out.iter().for_each(|chunk| fold.push(&chunk.event));
    fold.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn an_answer_reaches_its_client_through_each_protocol(original in answer()) {
        for protocol in crate::protocol::ALL {
            let whole = written(protocol, &original);
            prop_assert_eq!(meaning(&read(protocol, &whole)), meaning(&original), "{:?} {}", protocol, whole);
            let events = events(protocol, &original);
            let streamed = folded(protocol, &events);
            prop_assert_eq!(meaning(&streamed), meaning(&original), "{:?} {:?}", protocol, events);
        }
    }

    #[test]
    fn an_answer_stays_the_same_through_two_protocols(original in answer(), ways in any::<(u8, u8)>()) {
        let [one, other] = [ways.0, ways.1].map(|way| crate::protocol::ALL[usize::from(way) % 4]);
        let back = read(other, &written(other, &read(one, &written(one, &original))));
        prop_assert_eq!(meaning(&back), meaning(&original), "{:?} {:?}", one, other);
    }
}
