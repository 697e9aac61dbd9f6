//! Both ways: fixtures of each oddity, recorded answers where they are at hand, and whatever a message
//! can hold.

#![allow(clippy::unwrap_used)]

mod asking;
mod recorded;
mod streaming;
mod whatever;

use valvehouse_core::chat::Fold;
use valvehouse_json::Json;
use valvehouse_wire::messages::stream::{MessagesReader, MessagesWriter};

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// The chunks of a stream's events, one event a line.
fn chunks(events: &[Json]) -> Vec<Json> {
    let mut reader = MessagesReader::default().with_usage(true);
    events.iter().flat_map(|event| reader.read(event)).collect()
}

fn folded(chunks: &[Json]) -> Json {
    let mut fold = Fold::default();
    chunks.iter().for_each(|chunk| fold.push(chunk));
    fold.finish()
}

fn written(chunks: &[Json]) -> Vec<Json> {
    let mut writer = MessagesWriter::default();
    let mut events: Vec<Json> = chunks.iter().flat_map(|chunk| writer.write(chunk)).collect();
    events.extend(writer.end());
    events
}

/// The message that a client makes of a stream, which has to be well formed.
fn assembled(events: &[Json]) -> Json {
    let (mut message, mut blocks, mut open) = (Json::Null, Vec::<(Json, String)>::new(), None);
    let mut ended = false;
    for event in events {
        assert!(!ended, "after the end: {event}");
        let index = event.get("index").and_then(|index| index.as_i64());
        match &*event.text("type").unwrap() {
            "message_start" => {
                assert!(message.is_null(), "it starts twice");
                message = event.at_path("message").deep_clone();
            }
            "content_block_start" => {
                assert_eq!((open, index), (None, Some(blocks.len() as i64)), "{event}");
                open = index;
                blocks.push((event.at_path("content_block").deep_clone(), String::new()));
            }
            "content_block_delta" => {
                assert!(open.is_some() && open == index, "{event}");
                let (block, input) = blocks.last_mut().unwrap();
                grow(block, input, &event.at_path("delta"));
            }
            "content_block_stop" => {
                assert!(open.is_some() && open == index, "{event}");
                open = None;
                let (block, input) = blocks.last().unwrap();
                if !input.is_empty() {
                    block.set("input", json(input)).unwrap();
                }
            }
            "message_delta" => {
                for (key, value) in event.at_path("delta").as_object().unwrap().entries() {
                    message.set(&key, value).unwrap();
                }
                message.set("usage", event.at_path("usage")).unwrap();
            }
            "message_stop" => ended = true,
            other => panic!("{other} is not an event"),
        }
    }
    assert!(ended && open.is_none());
    message.set("content", blocks.into_iter().map(|(block, _)| block).collect::<Vec<_>>()).unwrap();
    message
}

fn grow(block: &Json, input: &mut String, delta: &Json) {
    let append = |key: &str| {
        let all = [block.text(key).unwrap(), delta.text(key).unwrap()].concat();
        block.set(key, all).unwrap();
    };
    match &*delta.text("type").unwrap() {
        "text_delta" => append("text"),
        "thinking_delta" => append("thinking"),
        "signature_delta" => append("signature"),
        "input_json_delta" => input.push_str(&delta.text("partial_json").unwrap()),
        "citations_delta" => {
            let mut all = block.at_path("citations").items();
            all.push(delta.at_path("citation"));
            block.set("citations", all).unwrap();
        }
        other => panic!("{other} is not a delta"),
    }
}
