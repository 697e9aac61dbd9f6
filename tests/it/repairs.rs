//! Repairs of responses in which services omit, repeat or misplace fields: a streaming client receives one
//! consistent format.

use crate::kernel::{StreamedTurn, asking, echo, json, script, stream};
use valvehouse::chat::Fold;
use valvehouse::filter::FilterEntry;
use valvehouse::json::Json;
use valvehouse::kernel::{Kernel, ModelDefaults};
use valvehouse::provider::Reply;

/// Returns an event with one choice or without choices.
fn chunk(choices: &str) -> Json {
    chunk_with(choices, "")
}

fn chunk_with(choices: &str, more: &str) -> Json {
    json(&format!(r#"{{"id":"c","object":"chat.completion.chunk","choices":[{choices}]{more}}}"#))
}

fn delta(delta: &str) -> Json {
    chunk(&format!(r#"{{"index":0,"delta":{delta},"finish_reason":null}}"#))
}

fn end(why: &str) -> Json {
    chunk(&format!(r#"{{"index":0,"delta":{{}},"finish_reason":"{why}"}}"#))
}

/// Runs the same model without a filter, with one that reads and with one that changes; each stream must be
/// well formed.
async fn each_way(pieces: &[Json]) -> [StreamedTurn; 3] {
    let looks = script("looks", "fn stream(event) { event }");
    let touches = script("touches", "fn stream(event) { event.touched = true; }");
    let kernel = |filters: Vec<FilterEntry>| {
        asking([Reply::chunks(pieces.iter().cloned())]).0.filters(filters).build()
    };
    let kernels = [kernel(vec![]), kernel(vec![looks]), kernel(vec![touches])];
    let mut all = Vec::new();
    for kernel in &kernels {
        all.push(stream(kernel).await);
    }
    all.try_into().unwrap_or_else(|_| unreachable!("three went in"))
}

async fn assert_text(pieces: &[Json], expected: &str) {
    for streamed in each_way(pieces).await {
        assert_eq!(streamed.text(), expected, "{pieces:?}");
    }
}

fn folded(streamed: &StreamedTurn) -> Json {
    let mut fold = Fold::default();
    streamed.pieces.iter().for_each(|piece| fold.push(&piece.event));
    fold.finish()
}

#[tokio::test]
async fn a_missing_role_is_added_and_a_repeated_one_removed() {
    assert_text(&[delta(r#"{"content":"a"}"#), end("stop")], "a|stop").await;
    let again = delta(r#"{"role":"assistant","content":"a"}"#);
    assert_text(&[again.clone(), again, end("stop")], "aa|stop").await;
    assert_text(&[end("content_filter")], "|content_filter").await;
}

#[tokio::test]
async fn an_answer_without_a_finish_reason_gets_a_plausible_one() {
    assert_text(&[delta(r#"{"content":"a"}"#)], "a|stop").await;
    let call = r#"{"tool_calls":[{"id":"i","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    assert_text(&[delta(call)], "|tool_calls").await;
}

#[tokio::test]
async fn an_answer_ends_once_without_content_afterwards() {
    let text = delta(r#"{"content":"a"}"#);
    assert_text(&[text.clone(), end("stop"), end("stop")], "a|stop").await;
    assert_text(&[text.clone(), end("length"), text.clone(), end("stop")], "aa|stop").await;
    let at_once = chunk(r#"{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}"#);
    assert_text(&[text, at_once.clone(), at_once], "abb|stop").await;
}

#[tokio::test]
async fn usage_is_sent_once_after_all_choices() {
    let usage = |total: u32| chunk_with("", &format!(r#","usage":{{"total_tokens":{total}}}"#));
    let counted = chunk_with(
        r#"{"index":0,"delta":{"content":"a"},"finish_reason":null}"#,
        r#","usage":{"total_tokens":1}"#,
    );
    for pieces in [
        vec![counted.clone(), counted, end("stop"), usage(3)],
        vec![delta(r#"{"content":"aa"}"#), usage(1), usage(2), end("stop"), usage(3)],
    ] {
        for streamed in each_way(&pieces).await {
            assert_eq!(streamed.text(), "aa|stop");
            assert_eq!(folded(&streamed).at_path("usage.total_tokens").as_i64(), Some(3));
        }
    }
}

#[tokio::test]
async fn a_changing_missing_or_late_id_becomes_one_id() {
    let with_id = |id: &str, text: &str| {
        json(&format!(
            r#"{{"id":"{id}","object":"","model":"m","choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#
        ))
    };
    assert_text(&[with_id("a", "1"), with_id("b", "2"), with_id("", "3"), end("stop")], "123|stop").await;
    assert_text(&[with_id("", "1"), with_id("", "2")], "12|stop").await;
    let azure = json(r#"{"choices":[],"id":"","model":"","object":"","prompt_filter_results":[{"a":1}]}"#);
    let pieces = [azure, with_id("a", "1"), end("stop")];
    assert_text(&pieces, "1|stop").await;
    for streamed in each_way(&pieces).await {
        let first = &streamed.pieces[0].event;
        assert_eq!(first.at_path("prompt_filter_results.0.a").as_i64(), Some(1));
        assert_eq!((first.text("id").unwrap().as_str(), first.text("model").unwrap().as_str()), ("a", "m"));
    }
}

#[tokio::test]
async fn a_message_field_is_treated_as_a_delta() {
    let both = chunk(r#"{"index":0,"delta":{"content":"a"},"message":{"content":"a"}}"#);
    let done = chunk(r#"{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}"#);
    assert_text(&[both, done], "a|stop").await;
    let whole = |text: &str| chunk(&format!(r#"{{"index":0,"message":{{"content":"{text}"}}}}"#));
    assert_text(&[whole("a"), whole("ab"), end("stop")], "ab|stop").await;
    let shout = script("shout", "fn stream(event) { event.text = event.text.to_upper(); }");
    let kernel = asking([Reply::chunks([whole("a"), whole("ab")])]).0.filter(shout).build();
    assert_eq!(stream(&kernel).await.text(), "AB|stop");
}

#[tokio::test]
async fn cumulative_messages_are_dropped_if_a_filter_changes_the_text() {
    let both = |piece: &str, whole: &str| {
        chunk(&format!(
            r#"{{"index":0,"delta":{{"role":"assistant","content":"{piece}"}},"message":{{"content":"{whole}"}}}}"#
        ))
    };
    let events = [both("a", "a"), both("b", "ab"), both("c", "abc"), end("stop")];
    let body =
        events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>() + "data: [DONE]\n\n";
    let wholes = async |text: &str| -> Vec<bool> {
        let host = crate::host::TestHost::new().filter("looks", text).start().await;
        host.upstream.reply(crate::upstream::Reply::raw("text/event-stream", body.as_str()));
        let answer = host.stream("hi").await;
        answer.events().iter().map(|event| !event["choices"][0]["message"].is_null()).collect()
    };
    assert_eq!(wholes("fn stream(event) { event }").await, [true, true, true, false]);
    let changes = r#"fn stream(event) { if event.text == "b" { event.text = "*"; } }"#;
    assert_eq!(wholes(changes).await, [true, false, false, false]);
    let drops = r#"fn stream(event) { if event.text == "b" { return []; } }"#;
    assert_eq!(wholes(drops).await, [true, false, false]);
}

#[tokio::test]
async fn tool_calls_are_numbered_from_zero_and_start_once() {
    let piece = |call: &str| delta(&format!(r#"{{"tool_calls":[{call}]}}"#));
    let expected = r#"[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]"#;
    let rest = r#""function":{"arguments":":1}"}"#;
    for (first, second, third) in [
        // The index starts at one, as behind an Anthropic gateway; later deltas have no id.
        (
            r#""index":1,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\""}"#.to_owned(),
            format!(r#""index":1,{rest}"#),
            r#""index":2,"id":"b","type":"function","function":{"name":"g","arguments":"{}"}"#,
        ),
        // Qwen: later deltas have an empty id and name; other services repeat everything.
        (
            r#""index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\""}"#.to_owned(),
            r#""index":0,"id":"","function":{"name":"","arguments":":1}"}"#.to_owned(),
            r#""index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{}"}"#,
        ),
        (
            r#""index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\""}"#.to_owned(),
            r#""index":0,"id":"a","type":"function","function":{"name":"f","arguments":":1}"}"#.to_owned(),
            r#""index":0,"id":"b","type":"function","function":{"name":"g","arguments":{}}"#,
        ),
        // No index and no type.
        (
            r#""id":"a","function":{"name":"f","arguments":"{\"x\""}"#.to_owned(),
            rest.to_owned(),
            r#""id":"b","function":{"name":"g","arguments":"{}"}"#,
        ),
    ] {
        let calls = [first.as_str(), &second, third].map(|call| piece(&format!("{{{call}}}")));
        for streamed in each_way(&[&calls[..], &[end("tool_calls")]].concat()).await {
            assert_eq!(streamed.text(), "|tool_calls");
            assert_eq!(folded(&streamed).at_path("choices.0.message.tool_calls").to_string(), expected);
        }
    }
    let nameless = piece(r#"{"index":0,"function":{"name":"f","arguments":"{}"}}"#);
    for streamed in each_way(&[nameless, end("tool_calls")]).await {
        streamed.text();
        let ours = streamed.answer.as_ref().unwrap().at_path("choices.0.message.tool_calls.0.id");
        assert_eq!(folded(&streamed).at_path("choices.0.message.tool_calls.0.id"), ours, "one id for both");
    }
}

#[tokio::test]
async fn interleaved_choices_each_have_a_role_and_an_end() {
    let of = |index: u32, delta: &str| chunk(&format!(r#"{{"index":{index},"delta":{delta}}}"#));
    let pieces = [
        of(0, r#"{"content":"a"}"#),
        of(1, r#"{"content":"A"}"#),
        of(0, r#"{"role":"assistant","content":"b"}"#),
        chunk(r#"{"index":1,"delta":{"content":"B"},"finish_reason":"length"},{"index":0,"delta":{}}"#),
    ];
    for streamed in each_way(&pieces).await {
        assert_eq!((streamed.text().as_str(), streamed.text_of(1).as_str()), ("ab|stop", "AB|length"));
    }
}

#[tokio::test]
async fn a_choice_without_delta_or_index_gets_both() {
    let bare = json(r#"{"id":"c","choices":[{"finish_reason":"stop","delta":null}]}"#);
    assert_text(&[delta(r#"{"content":"a"}"#), bare], "a|stop").await;
}

#[tokio::test]
async fn a_finish_reason_set_by_a_filter_is_streamed() {
    let cut = script("cut", r#"fn post_chat(ctx) { ctx.result.finish_reason = "content_filter"; }"#);
    let kernel = asking([Reply::chunks(["a"])]).0.filter(cut).build();
    let streamed = stream(&kernel).await;
    assert_eq!(streamed.text(), "a|content_filter");
    assert_eq!(streamed.answer.unwrap().at_path("choices.0.finish_reason"), "content_filter".into());
}

#[tokio::test]
async fn an_error_event_of_a_filter_ends_the_stream() {
    let stops = script(
        "stops",
        r#"fn stream(event) { if event.text == "b" { #{ error: #{ message: "no more" } } } }"#,
    );
    let kernel = asking([Reply::chunks(["a", "b", "c"])]).0.filter(stops).build();
    let streamed = stream(&kernel).await;
    assert_eq!(streamed.texts(), ["a"]);
    let (plugin, message, _) = crate::kernel::rejection(streamed.answer);
    assert_eq!((plugin.as_str(), message.as_str()), ("stops", "no more"));
}

#[tokio::test]
async fn text_appended_by_an_outlet_after_tool_rounds_arrives_as_deltas() {
    let note = || script("note", r#"fn outlet(body) { body.messages[-1].content += " (noted)"; }"#);
    let two = || {
        let choice = |index: u32, text: &str| {
            format!(
                r#"{{"index":{index},"message":{{"role":"assistant","content":"{text}"}},"finish_reason":"stop"}}"#
            )
        };
        let choices = [choice(0, "done"), choice(1, "finished")].join(",");
        Reply::whole(json(&format!(r#"{{"id":"x","object":"chat.completion","choices":[{choices}]}}"#)))
    };
    for hold in [false, true] {
        let settings = ModelDefaults { hold, ..ModelDefaults::default() };
        let first = crate::kernel::calls("let me see, ", &[("echo", "{}")]);
        let kernel: Kernel = asking([first, two()]).0.tool(echo()).filter(note()).settings(settings).build();
        let streamed = stream(&kernel).await;
        assert_eq!(streamed.text(), "let me see, \n\ndone (noted)|stop", "hold: {hold}");
        assert_eq!(streamed.text_of(1), "finished (noted)|stop");
        assert_eq!(streamed.answer(), "let me see, \n\ndone (noted)");
    }
}

#[tokio::test]
async fn a_held_answer_contains_complete_client_tool_calls() {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"tools":[{"type":"function","function":{"name":"open_door"}}]}"#;
    let settings = ModelDefaults { hold: true, ..ModelDefaults::default() };
    let reply = crate::kernel::calls("", &[("open_door", r#"{"n":1}"#), ("open_door", r#"{"n":2}"#)]);
    let note = script("note", "fn outlet(body) { body }");
    let kernel = asking([reply]).0.tool(echo()).filter(note).settings(settings).build();
    let streamed = crate::kernel::stream_body(&kernel, body).await;
    assert_eq!(streamed.text(), "|tool_calls");
    let calls = folded(&streamed).at_path("choices.0.message.tool_calls");
    assert_eq!(calls.items().len(), 2);
    assert_eq!(calls.at(1).unwrap().at_path("function.arguments"), r#"{"n":2}"#.into());
}

#[tokio::test]
async fn an_event_returned_twice_is_two_events() {
    let twice = script("twice", "fn stream(event) { [event, event] }");
    let kernel = asking([Reply::chunks(["a", "b"])]).0.filter(twice).build();
    assert_eq!(stream(&kernel).await.text(), "aabb|stop");
    let later = r#"fn stream(event, state) { state.ensure("all", []).push(event); event.text = "<" + event.text; }
        fn stream_end(state) { state.all }"#;
    let kernel = asking([Reply::chunks(["a", "b"])]).0.filter(script("later", later)).build();
    assert_eq!(stream(&kernel).await.text(), "<a<b<<a<b<|stop");
}

#[tokio::test]
async fn dropping_the_first_chunk_of_a_call_drops_the_call() {
    let first = delta(r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}"#);
    let rest = delta(r#"{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}"#);
    let drops = script(
        "drops",
        r#"fn stream(event) { let calls = event.tool_calls; if !empty(calls) && calls[0].id == "a" { [] } }"#,
    );
    let kernel = asking([Reply::chunks([first, rest, end("stop")])]).0.filter(drops).build();
    let streamed = stream(&kernel).await;
    assert_eq!(streamed.text(), "|stop");
    assert!(folded(&streamed).at_path("choices.0.message.tool_calls").is_null());
}
