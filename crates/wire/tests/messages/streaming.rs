//! Streams as services really send them, and as clients need them.

use super::{assembled, chunks, folded, json, written};
use valvehouse_core::chat::{Head, ModelCall, event, response, split};
use valvehouse_json::Json;
use valvehouse_wire::StreamReader;
use valvehouse_wire::messages::answer;
use valvehouse_wire::messages::stream::{MessagesReader, MessagesWriter};

const START: &str = r#"{"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"claude","content":[],"usage":{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":1}}}"#;
const STOP: &str = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}}"#;
const END: &str = r#"{"type":"message_stop"}"#;

fn events(lines: &[&str]) -> Vec<Json> {
    lines.iter().map(|line| json(line)).collect()
}

fn begin(index: usize, block: &str) -> String {
    format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
}

fn delta(index: usize, delta: &str) -> String {
    format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)
}

fn folded_message(lines: &[&str]) -> Json {
    response::message_of(&folded(&chunks(&events(lines))))
}

#[test]
fn usage_adds_up_and_the_last_report_counts() {
    let answer = folded(&chunks(&events(&[START, STOP, END])));
    assert_eq!(
        answer.at_path("usage").to_string(),
        r#"{"prompt_tokens":7,"completion_tokens":7,"total_tokens":14,"cache_read_input_tokens":4,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":0}}"#
    );
    let counts = answer::write(&answer).at_path("usage");
    assert_eq!(
        counts.to_string(),
        r#"{"input_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":4,"output_tokens":7}"#
    );
    let mut silent = MessagesReader::default();
    let all: Vec<Json> = events(&[START, STOP, END]).iter().flat_map(|event| silent.read(event)).collect();
    assert!(silent.is_complete() && all.iter().all(|chunk| chunk.get("usage").is_none()));
}

#[test]
fn an_estimate_stands_until_the_service_counts() {
    let head = Head::new("m");
    let counted = head.usage_chunk(json(r#"{"prompt_tokens":9,"completion_tokens":2}"#));
    for (last, expected) in [(None, 7), (Some(counted), 9)] {
        let mut writer = MessagesWriter::default().with_estimate(7);
        let text = head.chunk(json(r#"{"content":"a"}"#), Some("stop"));
        let mut events: Vec<Json> =
            [text].iter().chain(&last).flat_map(|chunk| writer.write(chunk)).collect();
        events.extend(writer.end());
        assert_eq!(assembled(&events).at_path("usage.input_tokens").as_i64(), Some(expected));
    }
}

#[test]
fn a_repeated_start_event_within_a_call_is_ignored() {
    let call = begin(0, r#"{"type":"tool_use","id":"c","name":"t","input":{}}"#);
    let first = delta(0, r#"{"type":"input_json_delta","partial_json":"{\"n\":"}"#);
    let second = delta(0, r#"{"type":"input_json_delta","partial_json":"1}"}"#);
    let folded_message = folded_message(&[
        START,
        &call,
        &first,
        START,
        &second,
        r#"{"type":"content_block_stop","index":0}"#,
        STOP,
    ]);
    assert_eq!(ModelCall::all(&folded_message)[0].arguments, r#"{"n":1}"#);
    assert_eq!(folded_message.at_path("tool_calls").items().len(), 1);
}

#[test]
fn tool_calls_are_numbered_from_zero_and_may_have_no_arguments() {
    let text = begin(0, r#"{"type":"text","text":""}"#);
    let one = begin(1, r#"{"type":"tool_use","id":"a","name":"t","input":{},"caller":{"type":"direct"}}"#);
    let two = begin(2, r#"{"type":"tool_use","id":"b","name":"u","input":{"k":1}}"#);
    let stop = |index: usize| format!(r#"{{"type":"content_block_stop","index":{index}}}"#);
    let lines = [START, &text, &stop(0), &one, &stop(1), &two, &stop(2), STOP];
    let deltas: Vec<Json> = chunks(&events(&lines)).iter().filter_map(event::delta).collect();
    let indices: Vec<_> =
        deltas.iter().filter_map(|delta| delta.at_path("tool_calls.0.index").as_i64()).collect();
    assert_eq!(indices, [0, 0, 1, 1]);
    let folded_message = folded_message(&lines);
    let calls: Vec<String> =
        ModelCall::all(&folded_message).iter().map(|call| call.arguments.to_string()).collect();
    assert_eq!(calls, ["{}", r#"{"k":1}"#]);
    assert_eq!(folded_message.at_path("tool_calls.0.caller.type"), Json::from("direct"));
}

#[test]
fn missing_start_and_stop_events_are_tolerated() {
    let folded_message = folded_message(&[
        &delta(0, r#"{"type":"thinking_delta","thinking":"hm"}"#),
        &delta(1, r#"{"type":"text_delta","text":"yes"}"#),
        STOP,
    ]);
    assert_eq!(folded_message.text("reasoning_content").unwrap(), "hm");
    assert_eq!(folded_message.text("content").unwrap(), "yes");
}

#[test]
fn unknown_blocks_are_kept_unchanged() {
    let odd = begin(0, r#"{"type":"compaction","content":"so"}"#);
    let more = delta(0, r#"{"type":"compaction_delta","content":" far"}"#);
    let lines = [START, &odd, &more, r#"{"type":"content_block_stop","index":0}"#, STOP];
    let answer = folded(&chunks(&events(&lines)));
    assert_eq!(
        answer::write(&answer).at_path("content").to_string(),
        r#"[{"type":"compaction","content":"so far"}]"#
    );
}

#[test]
fn stop_reasons_are_reported_in_both_formats() {
    for (native, finish) in [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
    ] {
        let stop = STOP.replace("end_turn", native).replace("null", "\"x\"");
        let answer = folded(&chunks(&events(&[START, &stop])));
        assert_eq!(response::finish_reason_of(&answer).unwrap(), finish);
        let back = answer::write(&answer);
        assert_eq!(
            (&*back.text("stop_reason").unwrap(), back.at_path("stop_sequence")),
            (native, "x".into())
        );
    }
    for (finish, native) in
        [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal"), ("eos", "end_turn")]
    {
        let answer = Head::new("m").completion(json(r#"{"role":"assistant","content":"a"}"#), finish);
        assert_eq!(answer::write(&answer).text("stop_reason").unwrap(), native);
    }
    // The stream ends without a finish reason.
    let open = written(&[Head::new("m").chunk(json(r#"{"content":"a"}"#), None)]);
    assert!(assembled(&open).at_path("stop_reason").is_null());
}

/// Chunks of deltas, and an end.
fn stream(deltas: &[&str], finish: &str) -> Vec<Json> {
    let head = Head::with_id("c1", "m");
    let mut chunks: Vec<Json> = deltas.iter().map(|delta| head.chunk(json(delta), None)).collect();
    chunks.push(head.chunk(Json::object(), Some(finish)));
    chunks
}

#[test]
fn other_services_streams_become_well_formed_events() {
    let deltas = [
        r#"{"role":"assistant","content":""}"#,
        r#"{"reasoning":"hm "}"#,
        r#"{"reasoning":"so"}"#,
        r#"{"content":[{"type":"text","text":"I "}]}"#,
        r#"{"content":"call"}"#,
        r#"{"tool_calls":[{"index":1,"id":"a","function":{"name":"t","arguments":""}}]}"#,
        r#"{"tool_calls":[{"index":1,"id":"","function":{"arguments":"{\"n\":"}},{"index":2,"id":"b","function":{"name":"u","arguments":"{}"}}]}"#,
        r#"{"tool_calls":[{"index":1,"function":{"arguments":"1}"}}]}"#,
    ];
    let message = assembled(&written(&stream(&deltas, "stop")));
    assert_eq!(
        message.at_path("content").to_string(),
        concat!(
            r#"[{"type":"thinking","thinking":"hm so","signature":""},{"type":"text","text":"I call"},"#,
            r#"{"type":"tool_use","id":"a","name":"t","input":{"n":1}},{"type":"tool_use","id":"b","name":"u","input":{}}]"#
        )
    );
    assert_eq!(message.text("stop_reason").unwrap(), "tool_use");
    assert_eq!((message.text("id").unwrap(), message.text("model").unwrap()), ("c1".into(), "m".into()));
}

#[test]
fn a_complete_call_is_sent_before_the_next_one_starts() {
    let head = Head::new("m");
    let call = |index: usize, text: &str| {
        head.chunk(json(&format!(r#"{{"tool_calls":[{{"index":{index},"id":"c{index}","function":{{"name":"t","arguments":"{text}"}}}}]}}"#)), None)
    };
    let mut writer = MessagesWriter::default();
    writer.write(&call(0, "{}"));
    let names: Vec<_> = writer.write(&call(1, "{")).iter().map(|event| event.text("type").unwrap()).collect();
    assert_eq!(names, ["content_block_stop", "content_block_start", "content_block_delta"]);
}

#[test]
fn a_refusal_becomes_text_and_a_stop_reason() {
    let message = assembled(&written(&stream(&[r#"{"refusal":"No."}"#], "stop")));
    assert_eq!(message.at_path("content").to_string(), r#"[{"type":"text","text":"No."}]"#);
    assert_eq!(message.text("stop_reason").unwrap(), "refusal");
}

#[test]
fn an_empty_answer_is_valid() {
    let message = assembled(&written(&[]));
    assert_eq!(message.at_path("content").to_string(), "[]");
    assert_eq!(message.at_path("usage.output_tokens").as_i64(), Some(0));
}

#[test]
fn a_client_receives_the_text_as_changed_by_a_filter() {
    let cited = begin(0, r#"{"type":"text","text":"secret","citations":[{"type":"c","cited_text":"q"}]}"#);
    let search = begin(1, r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"k"}}"#);
    let after = begin(2, r#"{"type":"text","text":"after"}"#);
    let stop = |index: usize| format!(r#"{{"type":"content_block_stop","index":{index}}}"#);
    let lines = [START, &cited, &stop(0), &search, &stop(1), &after, &stop(2), STOP];
    let chunks = chunks(&events(&lines));
    let texts = |message: &Json| {
        let blocks = message.at_path("content").items();
        blocks
            .iter()
            .map(|block| block.text("text").unwrap_or_else(|| block.text("type").unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(texts(&assembled(&written(&chunks))), ["secret", "server_tool_use", "after"]);
    for chunk in &chunks {
        if event::text(chunk) == "secret" {
            event::set_text(chunk, "[hidden]");
        }
    }
    assert_eq!(texts(&assembled(&written(&chunks))), ["[hidden]", "server_tool_use", "after"]);
    let answer = folded(&chunks);
    assert_eq!(texts(&answer::write(&answer)), ["[hidden]after", "server_tool_use"]);
    let held = assembled(&written(&split(&answer, true)));
    assert_eq!(texts(&held).concat().replace("server_tool_use", ""), "[hidden]after");
}

#[test]
fn an_answer_in_the_first_event_is_read_unless_blocks_follow() {
    let content =
        r#""content":[{"type":"text","text":"hi"},{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}]"#;
    let start = START.replace(r#""content":[]"#, content);
    let whole = folded_message(&[&start, STOP, END]);
    assert_eq!(whole.text_or_empty("content"), "hi");
    let calls = ModelCall::all(&whole);
    assert_eq!((calls.len(), calls[0].arguments.as_str()), (1, r#"{"a":1}"#));
    let block = begin(0, r#"{"type":"text","text":""}"#);
    let text = delta(0, r#"{"type":"text_delta","text":"hi"}"#);
    let streamed = folded_message(&[&start, &block, &text, STOP, END]);
    assert_eq!((streamed.text_or_empty("content").as_str(), ModelCall::all(&streamed).len()), ("hi", 0));
}
