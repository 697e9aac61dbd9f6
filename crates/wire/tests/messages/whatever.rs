//! Any content comes through whole: any blocks in any order, in and out, whole and streamed.

use super::{assembled, chunks, folded, json, written};
use proptest::prelude::*;
use valvehouse_core::chat::event::joined_reasoning;
use valvehouse_core::chat::{response, split};
use valvehouse_json::Json;
use valvehouse_wire::messages::answer;
use valvehouse_wire::messages::request::{read, write};

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z é\\n\"]{1,12}", "\\PC{1,6}"]
}

fn block() -> impl Strategy<Value = Json> {
    let cited = (text(), prop::option::of(text())).prop_map(|(text, cited)| {
        let block = Json::from([("type", "text".into()), ("text", text.into())]);
        if let Some(cited) = cited {
            let citation = Json::from([("type", "char_location".into()), ("cited_text", cited.into())]);
            block.set("citations", vec![citation]).unwrap();
        }
        block
    });
    let thinking = (prop_oneof![Just(String::new()), text()], "[A-Z]{1,4}").prop_map(|(text, signature)| {
        Json::from([("type", "thinking".into()), ("thinking", text.into()), ("signature", signature.into())])
    });
    let call = (any::<u32>(), prop::option::of(text())).prop_map(|(id, argument)| {
        let input = argument.map_or_else(Json::object, |text| Json::from([("a", text.into())]));
        let id = format!("c{id}");
        Json::from([("type", "tool_use".into()), ("id", id.into()), ("name", "t".into()), ("input", input)])
    });
    let own = prop_oneof![
        Just(json(r#"{"type":"redacted_thinking","data":"x"}"#)),
        Just(json(r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q"}}"#)),
        Just(json(
            r#"{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"r","url":"u"}]}"#
        )),
    ];
    prop_oneof![3 => cited, 2 => thinking, 2 => call, 1 => own]
}

fn answer() -> impl Strategy<Value = Json> {
    prop::collection::vec(block(), 0..6).prop_map(|blocks| {
        Json::from([
            ("id", "m".into()),
            ("type", "message".into()),
            ("role", "assistant".into()),
            ("model", "claude".into()),
            ("content", blocks.into()),
            ("stop_reason", "end_turn".into()),
            ("stop_sequence", Json::Null),
            ("usage", json(r#"{"input_tokens":1,"cache_creation_input_tokens":2,"cache_read_input_tokens":3,"output_tokens":4}"#)),
        ])
    })
}

/// Its events, cut into pieces of so many characters.
fn events(message: &Json, size: usize) -> Vec<Json> {
    let mut whole = Vec::new();
    for (index, block) in message.at_path("content").items().iter().enumerate() {
        let (start, deltas) = pieces(block, size);
        let of = |kind: &str| Json::from([("type", kind.into()), ("index", index.into())]);
        let begin = of("content_block_start");
        begin.set("content_block", start).unwrap();
        whole.push(begin);
        for piece in deltas {
            let delta = of("content_block_delta");
            delta.set("delta", piece).unwrap();
            whole.push(delta);
        }
        whole.push(of("content_block_stop"));
    }
    let start = message.deep_clone();
    start.set("content", Json::array()).unwrap();
    start.set("stop_reason", Json::Null).unwrap();
    let mut events = vec![Json::from([("type", "message_start".into()), ("message", start)])];
    events.extend(whole);
    events.push(json(
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}"#,
    ));
    events.push(json(r#"{"type":"message_stop"}"#));
    events
}

fn pieces(block: &Json, size: usize) -> (Json, Vec<Json>) {
    let start = block.deep_clone();
    let cut = |text: &str| -> Vec<String> {
        let letters: Vec<char> = text.chars().collect();
        letters.chunks(size).map(|piece| piece.iter().collect()).collect()
    };
    let deltas = |kind: &str, key: &str, text: &str| -> Vec<Json> {
        cut(text).into_iter().map(|piece| Json::from([("type", kind.into()), (key, piece.into())])).collect()
    };
    let mut all = Vec::new();
    match &*block.text("type").unwrap() {
        "text" => {
            all.extend(deltas("text_delta", "text", &start.text("text").unwrap()));
            start.set("text", "").unwrap();
            for citation in start.remove("citations").unwrap_or_default().items() {
                all.push(Json::from([("type", "citations_delta".into()), ("citation", citation)]));
            }
        }
        "thinking" => {
            all.extend(deltas("thinking_delta", "thinking", &start.text("thinking").unwrap()));
            all.extend(deltas("signature_delta", "signature", &start.text("signature").unwrap()));
            start.set("thinking", "").unwrap();
            start.set("signature", "").unwrap();
        }
        "tool_use" | "server_tool_use" => {
            all.extend(deltas("input_json_delta", "partial_json", &start.at_path("input").to_string()));
            start.set("input", Json::object()).unwrap();
        }
        _ => {}
    }
    (start, all)
}

/// Texts that nothing stands between or on are one text.
fn merged(blocks: &[Json]) -> Vec<Json> {
    let is_plain = |block: &Json| block.text("type").unwrap() == "text" && block.get("citations").is_none();
    let mut out: Vec<Json> = Vec::new();
    for block in blocks {
        match out.last().filter(|last| is_plain(last) && is_plain(block)) {
            Some(last) => {
                let all = [last.text("text").unwrap(), block.text("text").unwrap()].concat();
                last.set("text", all).unwrap();
            }
            None => out.push(block.deep_clone()),
        }
    }
    out
}

fn content(message: &Json) -> Json {
    merged(&message.at_path("content").items()).into()
}

/// Any delta of a chat, sensible or not.
fn delta() -> impl Strategy<Value = Json> {
    let texts = ("content|reasoning_content|reasoning|refusal", text())
        .prop_map(|(key, text)| Json::from([(&*key, text.into())]));
    let calls = prop::collection::vec(
        (0..3_i64, prop::option::of("[ab]"), prop::option::of(Just("t")), "[{\"a:1]{0,3}"),
        1..3,
    );
    let calls = calls.prop_map(|calls| {
        let piece = |(index, id, name, arguments): (i64, Option<String>, Option<&str>, String)| {
            let function = Json::from([("name", name.into()), ("arguments", arguments.into())]);
            Json::from([("index", index.into()), ("id", id.into()), ("function", function)])
        };
        Json::from([("tool_calls", calls.into_iter().map(piece).collect::<Vec<_>>().into())])
    });
    let kinds = ["text", "thinking", "tool_use", "server_tool_use", "redacted_thinking"];
    let item =
        (prop::sample::select(kinds.to_vec()), 0..4_i64, 0..9_i64).prop_map(|(kind, index, length)| {
            let item = [
                ("type", kind.into()),
                ("index", index.into()),
                ("length", length.into()),
                ("signature", "s".into()),
                ("id", "a".into()),
            ];
            Json::from([("content_blocks", vec![Json::from(item)].into())])
        });
    prop_oneof![4 => texts, 2 => calls, 2 => item]
}

/// The text of all blocks of a kind, as it went out.
fn sent(events: &[Json], key: &str) -> String {
    let deltas = events.iter().filter_map(|event| event.at_path("delta").text(key));
    deltas.map(String::from).collect()
}

/// A conversation in chat words, sensible or not.
fn conversation() -> impl Strategy<Value = Vec<Json>> {
    let message = |role: &'static str| {
        text().prop_map(move |text| Json::from([("role", role.into()), ("content", text.into())]))
    };
    let parts = text().prop_map(|text| {
        let image = json(r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}"#);
        let parts = vec![Json::from([("type", "text".into()), ("text", text.into())]), image];
        Json::from([("role", "user".into()), ("content", parts.into())])
    });
    let called = (prop::option::of(text()), text(), text()).prop_map(|(content, argument, result)| {
        let arguments = Json::from([("a", argument.into())]).to_string();
        let function = Json::from([("name", "t".into()), ("arguments", arguments.into())]);
        let call = Json::from([("id", "c1".into()), ("type", "function".into()), ("function", function)]);
        let answer = Json::from([
            ("role", "assistant".into()),
            ("content", content.into()),
            ("tool_calls", vec![call].into()),
        ]);
        vec![
            answer,
            Json::from([("role", "tool".into()), ("tool_call_id", "c1".into()), ("content", result.into())]),
        ]
    });
    let one =
        prop_oneof![message("system"), message("developer"), message("user"), message("assistant"), parts];
    let some = prop_oneof![3 => one.prop_map(|one| vec![one]), 1 => called];
    prop::collection::vec(some, 0..6).prop_map(|all| {
        let first = json(r#"{"role":"user","content":"q"}"#);
        [vec![first], all.concat()].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(valvehouse_testkit::cases(500)))]

    #[test]
    fn an_answer_survives_a_round_trip(original in answer(), size in 1..7_usize) {
        let whole = answer::completion(&original);
        let back = answer::write(&whole);
        prop_assert_eq!(content(&back), content(&original));
        prop_assert_eq!(back.at_path("usage"), original.at_path("usage"));
        // Calls end with the reason of calls.
        let has_calls = original.list("content").iter().any(|block| block.text_or_empty("type") == "tool_use");
        let reason = if has_calls { Some("tool_use".into()) } else { original.text("stop_reason") };
        prop_assert_eq!(back.text("stop_reason"), reason);

        let events = events(&original, size);
        let chunks = chunks(&events);
        let streamed = folded(&chunks);
        prop_assert_eq!(response::message_of(&streamed), response::message_of(&whole));
        prop_assert_eq!(folded(&split(&streamed, true)), streamed);
        prop_assert_eq!(content(&assembled(&written(&chunks))), content(&original));
    }

    #[test]
    fn a_withheld_answer_arrives_complete(original in answer()) {
        let held = assembled(&written(&split(&answer::completion(&original), true)));
        // Thoughts come first then and calls last: what they parted may be one text.
        let of = |message: &Json, kinds: &[&str]| -> Vec<Json> {
            let blocks = message.at_path("content").items().into_iter();
            let own = blocks.filter(|block| kinds.contains(&&*block.text("type").unwrap()));
            merged(&own.collect::<Vec<_>>())
        };
        let others = ["text", "redacted_thinking", "server_tool_use", "web_search_tool_result"];
        for kinds in [&["thinking"][..], &["tool_use"], &others] {
            prop_assert_eq!(of(&held, kinds), of(&original, kinds));
        }
    }

    #[test]
    fn a_conversation_survives_a_round_trip(answers in prop::collection::vec(answer(), 1..4)) {
        let mut messages = Vec::new();
        for answer in &answers {
            messages.push(json(r#"{"role":"user","content":[{"type":"text","text":"q"}]}"#));
            let blocks = answer.at_path("content").items();
            if !blocks.is_empty() {
                messages.push(Json::from([("role", "assistant".into()), ("content", merged(&blocks).into())]));
                messages.push(json(r#"{"role":"user","content":[{"type":"text","text":"r"}]}"#));
            }
        }
        let original = Json::from([("model", "m".into()), ("max_tokens", 5_i64.into()), ("messages", messages.into())]);
        let back = write(&read(&original, None).unwrap(), false).unwrap().body;
        let answers = |request: &Json| -> Vec<Json> {
            let messages = request.at_path("messages").items();
            messages.iter().filter(|message| message.text("role").unwrap() == "assistant").map(content).collect()
        };
        prop_assert_eq!(answers(&back), answers(&original));
    }

    #[test]
    fn any_stream_becomes_well_formed_and_complete_events(deltas in prop::collection::vec(delta(), 0..8)) {
        let head = valvehouse_core::chat::Head::with_id("c", "m");
        let chunks: Vec<Json> = deltas.iter().map(|delta| head.chunk(delta.deep_clone(), None)).collect();
        let events = written(&chunks);
        // These arguments are not JSON: the client's to see.
        let readable: Vec<Json> = events.iter().filter(|event| event.at_path("delta").get("partial_json").is_none()).cloned().collect();
        assembled(&readable);
        let texts = |keys: &[&str]| -> String {
            deltas.iter().flat_map(|delta| keys.iter().filter_map(|key| delta.text(key))).map(String::from).collect()
        };
        prop_assert_eq!(sent(&events, "text"), texts(&["content", "refusal"]));
        let mut last = None;
        let thoughts = deltas.iter().map(|delta| String::from(joined_reasoning(delta, &mut last)));
        // Separators end where another block of thinking begins, and the last may have nothing after it.
        let without_separators = |text: String| text.replace("\n\n", "").trim_end_matches('\n').to_owned();
        let thoughts = without_separators(thoughts.collect());
        prop_assert_eq!(without_separators(sent(&events, "thinking")), thoughts);
        let mut sent: Vec<char> = sent(&events, "partial_json").chars().collect();
        let pieces = deltas.iter().flat_map(|delta| delta.at_path("tool_calls").items());
        let mut given: Vec<char> = pieces.flat_map(|call| call.at_path("function").text("arguments").unwrap().chars().collect::<Vec<_>>()).collect();
        sent.sort_unstable();
        given.sort_unstable();
        prop_assert_eq!(sent, given, "a call may wait for another, but loses nothing");
    }

    #[test]
    fn a_chat_request_keeps_its_meaning_in_a_round_trip(messages in conversation()) {
        let request = Json::from([("model", "m".into()), ("max_tokens", 5_i64.into()), ("messages", messages.into())]);
        let there = write(&request, false).unwrap().body;
        let back = read(&there, None).unwrap();
        prop_assert_eq!(write(&back, false).unwrap().body, there);
        let texts = |request: &Json, system: bool| -> String {
            let messages = request.at_path("messages").items().into_iter();
            let is_system = |message: &Json| matches!(&*message.text("role").unwrap(), "system" | "developer");
            messages.filter(|message| is_system(message) == system).map(|message| String::from(valvehouse_core::chat::message::text_of(&message))).collect()
        };
        prop_assert_eq!(texts(&back, false), texts(&request, false));
        prop_assert_eq!(texts(&back, true).replace("\n\n", ""), texts(&request, true).replace("\n\n", ""));
    }
}
