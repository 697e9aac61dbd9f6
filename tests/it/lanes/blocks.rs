//! Anthropic's blocks through filters: unchanged blocks keep their signatures, and blocks are neither joined
//! nor split.

use super::{MARK, SECRET, Shape};
use crate::kernel::{asking, json, stream};
use valvehouse::json::Json;
use valvehouse::kernel::ModelDefaults;
use valvehouse::provider::Reply;
use valvehouse::wire::messages::stream::{MessagesReader, MessagesWriter};

/// Returns the events of a response with these blocks, their texts in pieces of `length` characters.
pub(crate) fn events(blocks: &[Json], length: usize) -> Vec<Json> {
    let mut all = vec![json(
        r#"{"type":"message_start","message":{"id":"msg_1","model":"claude","usage":{"input_tokens":1}}}"#,
    )];
    for (index, block) in blocks.iter().enumerate() {
        let index = Json::from(index);
        let event = |kind: &str, key: &str, value: Json| {
            Json::from([("type", kind.into()), ("index", index.clone()), (key, value)])
        };
        let kind = block.text("type").unwrap();
        let (start, text, delta, key) = match &*kind {
            "text" => {
                (json(r#"{"type":"text","text":""}"#), block.text("text").unwrap(), "text_delta", "text")
            }
            "thinking" => (
                json(r#"{"type":"thinking","thinking":"","signature":""}"#),
                block.text("thinking").unwrap(),
                "thinking_delta",
                "thinking",
            ),
            "tool_use" | "server_tool_use" => {
                let start = block.deep_clone();
                start.set("input", Json::object()).unwrap();
                (start, block.get("input").unwrap().to_string().into(), "input_json_delta", "partial_json")
            }
            _ => (block.deep_clone(), "".into(), "", ""),
        };
        all.push(event("content_block_start", "content_block", start));
        let letters: Vec<char> = text.chars().collect();
        for piece in letters.chunks(length.max(1)) {
            let piece: String = piece.iter().collect();
            all.push(event(
                "content_block_delta",
                "delta",
                Json::from([("type", delta.into()), (key, piece.into())]),
            ));
        }
        for citation in block.get("citations").unwrap_or_default().items() {
            let delta = Json::from([("type", "citations_delta".into()), ("citation", citation.deep_clone())]);
            all.push(event("content_block_delta", "delta", delta));
        }
        if let Some(signature) = block.get("signature") {
            let delta = Json::from([("type", "signature_delta".into()), ("signature", signature)]);
            all.push(event("content_block_delta", "delta", delta));
        }
        all.push(Json::from([("type", "content_block_stop".into()), ("index", index)]));
    }
    all.push(json(
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}}"#,
    ));
    all
}

/// Returns the blocks of events, assembled as Anthropic's clients do.
fn blocks(events: &[Json]) -> Vec<String> {
    let mut all: Vec<(Json, String)> = Vec::new();
    for event in events {
        match &*event.text("type").unwrap() {
            "content_block_start" => {
                all.push((event.get("content_block").unwrap().deep_clone(), String::new()))
            }
            "content_block_delta" => {
                let (block, input) = all.last_mut().unwrap();
                let delta = event.get("delta").unwrap();
                match &*delta.text("type").unwrap() {
                    "input_json_delta" => input.push_str(&delta.text("partial_json").unwrap()),
                    "citations_delta" => {
                        let citations = block.get("citations").unwrap_or_default().items();
                        let more = vec![delta.get("citation").unwrap()];
                        block.set("citations", [citations, more].concat()).unwrap();
                    }
                    kind => {
                        let key = kind.strip_suffix("_delta").unwrap();
                        let text = [block.text(key).unwrap_or_default(), delta.text(key).unwrap()].concat();
                        block.set(key, text).unwrap();
                    }
                }
            }
            _ => {}
        }
    }
    all.into_iter()
        .map(|(block, input)| {
            if !input.is_empty() {
                block.set("input", json(&input)).unwrap();
            }
            let mut fields = Vec::new();
            block.as_object().unwrap().for_each(|key, value| {
                if !value.is_empty() {
                    fields.push(format!("{key}: {value}"));
                }
            });
            fields.sort();
            fields.join(", ")
        })
        .collect()
}

/// Returns the blocks that an Anthropic client receives, through filters of a shape.
async fn through(shape: Shape, events: &[Json]) -> Vec<String> {
    let mut reader = MessagesReader::default().with_usage(true);
    let chunks: Vec<Json> = events.iter().flat_map(|event| reader.read(event)).collect();
    let settings = ModelDefaults { hold: shape == Shape::Hold, ..ModelDefaults::default() };
    let kernel = asking([Reply::chunks(chunks)]).0.filters(shape.filters()).settings(settings).build();
    let streamed = stream(&kernel).await;
    streamed.answer.as_ref().unwrap();
    let mut writer = MessagesWriter::default();
    let mut written: Vec<Json> =
        streamed.pieces.iter().flat_map(|piece| writer.write(&piece.event)).collect();
    written.extend(writer.end());
    blocks(&written)
}

pub(super) fn answers() -> Vec<Vec<Json>> {
    let thinking =
        |text: &str| json(&format!(r#"{{"type":"thinking","thinking":"{text}","signature":"c2ln"}}"#));
    let text = |text: &str| json(&format!(r#"{{"type":"text","text":"{text}"}}"#));
    let tool = |n: usize| {
        json(&format!(
            r#"{{"type":"tool_use","id":"t{n}","name":"f","input":{{"place":"Seattle, WA {n}"}}}}"#
        ))
    };
    let search = json(
        r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"latest stable Ruby version"}}"#,
    );
    let result = json(
        r#"{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","title":"Ruby","url":"https://r.example"}]}"#,
    );
    let cited = json(
        r#"{"type":"text","text":"Ruby is at 4.","citations":[{"type":"web_search_result_location","url":"https://r.example","cited_text":"4"}]}"#,
    );
    vec![
        vec![thinking("I have to think before acting."), text("Let me look."), tool(1), tool(2)],
        vec![text("Let me look."), tool(1), text("second words"), tool(2), text("third")],
        vec![search, result, cited, text(" That is new.")],
        vec![thinking("one"), text("first words"), tool(1), thinking("two, at length"), text("last words")],
        vec![text("only text")],
    ]
}

#[tokio::test]
async fn unchanged_blocks_pass_as_they_are() {
    for answer in answers() {
        for length in 1..12 {
            let events = events(&answer, length);
            let expected = blocks(&events);
            for shape in
                [Shape::None, Shape::Identity, Shape::Window, Shape::Redact, Shape::RedactTwice, Shape::Hold]
            {
                assert_eq!(through(shape, &events).await, expected, "{shape:?}, pieces of {length}");
            }
        }
    }
}

#[tokio::test]
async fn a_changed_block_loses_its_signature_and_the_others_keep_theirs() {
    let secret =
        json(&format!(r#"{{"type":"thinking","thinking":"it is {SECRET}, hm","signature":"c2ln"}}"#));
    let other = json(r#"{"type":"thinking","thinking":"something else","signature":"b3RoZXI="}"#);
    let text = json(r#"{"type":"text","text":"so it is"}"#);
    let tool = json(r#"{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}"#);
    for answer in
        [vec![secret.clone(), text.clone(), tool.clone(), other.clone()], vec![other, text, tool, secret]]
    {
        for length in [1, 3, 100] {
            let events = events(&answer, length);
            let expected: Vec<String> = blocks(&events)
                .into_iter()
                .map(|block| match block.contains(SECRET) {
                    true => block.replace(SECRET, MARK).replace("signature: \"c2ln\", ", ""),
                    false => block,
                })
                .collect();
            for shape in [Shape::Redact, Shape::RedactTwice, Shape::Hold] {
                assert_eq!(through(shape, &events).await, expected, "{shape:?}, pieces of {length}");
            }
        }
    }
}

#[tokio::test]
async fn anthropic_clients_receive_custom_tool_calls() {
    let events =
        super::events_of(&[super::Speech::Calls(vec![super::Call::custom("f2", "any text")])], 2, true);
    let mut writer = MessagesWriter::default();
    let mut written: Vec<Json> = events.iter().flat_map(|event| writer.write(event)).collect();
    written.extend(writer.end());
    assert_eq!(
        blocks(&written),
        [r#"id: "call_0", input: {"input":"any text"}, name: "f2", type: "tool_use""#]
    );
}
