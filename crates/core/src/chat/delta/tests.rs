//! Chunks in the form that providers send: short ones here, and recorded streams.

use super::*;
use crate::chat::{ModelCall, message, response, split};
use valvehouse_testkit::recordings;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn fold(chunks: &[Json]) -> Json {
    let mut fold = Fold::default();
    chunks.iter().for_each(|chunk| fold.push(chunk));
    fold.finish()
}

/// Folds chunks with these deltas and returns the message of the first choice.
fn folded(deltas: &[&str]) -> Json {
    let chunks: Vec<Json> = deltas
        .iter()
        .map(|delta| json(&format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#)))
        .collect();
    response::message_of(&fold(&chunks))
}

#[test]
fn text_and_content_parts_fold_together() {
    let message = folded(&[
        r#"{"role":"assistant","content":""}"#,
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"5 and"}]}]}"#,
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":" 3"}],"closed":true}]}"#,
        r#"{"content":"It is"}"#,
        r#"{"content":[{"type":"text","text":" 8"},{"type":"reference","reference_ids":[1]}]}"#,
        r#"{"content":"."}"#,
    ]);
    assert_eq!(
        message.get("content").unwrap().to_string(),
        concat!(
            r#"[{"type":"thinking","thinking":[{"type":"text","text":"5 and 3"}],"closed":true},"#,
            r#"{"type":"text","text":"It is 8"},{"type":"reference","reference_ids":[1]},"#,
            r#"{"type":"text","text":"."}]"#
        )
    );
    let late = folded(&[r#"{"content":"a"}"#, r#"{"content":[{"type":"text","text":"b"}]}"#]);
    assert_eq!(message::text_of(&late), "ab");
}

#[test]
fn tool_calls_fold_from_every_shape() {
    let cut = [
        r#"{"tool_calls":[{"index":1,"id":"a","type":"function","function":{"name":"x","arguments":""}}]}"#,
        r#"{"tool_calls":[{"index":2,"id":"b","function":{"name":"y","arguments":"{"}}]}"#,
        r#"{"tool_calls":[{"index":1,"id":"","function":{"name":"","arguments":"{\"n\""}}]}"#,
        r#"{"tool_calls":[{"index":2,"id":"","function":{"arguments":"}"}},{"index":1,"function":{"arguments":":1}"}}]}"#,
    ];
    let no_index = [
        r#"{"tool_calls":[{"id":"a","function":{"name":"x","arguments":"{\"n\""}}]}"#,
        r#"{"tool_calls":[{"function":{"arguments":":1}"}},{"id":"b","function":{"name":"y","arguments":"{}"}}]}"#,
    ];
    let same_index = [
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{\"n\":1}"}}]}"#,
        r#"{"tool_calls":[{"index":0,"id":"b","function":{"name":"y","arguments":"{"}}]}"#,
        r#"{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}"#,
    ];
    let objects = [
        r#"{"tool_calls":[{"id":"a","function":{"name":"x","arguments":{"n":1}}},{"id":"b","function":{"name":"y","arguments":{}}}]}"#,
    ];
    for deltas in [&cut[..], &no_index, &same_index, &objects] {
        let message = folded(deltas);
        let calls: Vec<String> = ModelCall::all(&message)
            .iter()
            .map(|call| format!("{} {} {}", call.id, call.name, call.arguments))
            .collect();
        assert_eq!(calls, [r#"a x {"n":1}"#, "b y {}"], "{deltas:?}");
        let first = message.at_path("tool_calls.0");
        assert_eq!(first.text("type").unwrap(), "function");
        assert!(first.get("index").is_none());
        assert_eq!(message.get("content"), Some(Json::Null));
    }
    let nameless = folded(&[
        r#"{"tool_calls":[{"id":"","function":{"name":"x","arguments":"{}"}}]}"#,
        r#"{"tool_calls":[{"id":"","function":{"name":"x","arguments":"{}"}}]}"#,
    ]);
    assert_eq!(ModelCall::all(&nameless).len(), 2);
}

#[test]
fn the_usage_of_groq_and_kimi_is_the_usage_unless_there_is_another() {
    let of_choice =
        json(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"total_tokens":2}}]}"#);
    assert_eq!(fold(&[of_choice]).at_path("usage.total_tokens").as_i64(), Some(2));
    let own = json(r#"{"choices":[],"x_groq":{"usage":{"total_tokens":3}}}"#);
    let usual = json(r#"{"choices":[],"usage":{"total_tokens":4}}"#);
    let total = |chunks: &[Json]| fold(chunks).at_path("usage.total_tokens").as_i64();
    assert_eq!([total(std::slice::from_ref(&own)), total(&[own, usual])], [Some(3), Some(4)]);
}

#[test]
fn unknown_fields_are_kept_with_their_last_value() {
    let answer = fold(&[
        json(r#"{"id":"","created":0,"model":"","object":"","choices":[],"prompt_filter_results":[1]}"#),
        json(r#"{"id":"a","created":5,"model":"m","x":1,"choices":[{"delta":{"channel":"a"},"flag":1}]}"#),
        json(r#"{"id":"b","created":6,"x":2,"choices":[{"delta":{"channel":"b"},"flag":2}],"usage":null}"#),
    ]);
    assert_eq!(
        answer.to_string(),
        concat!(
            r#"{"id":"a","created":5,"model":"m","object":"chat.completion","choices":[{"index":0,"#,
            r#""message":{"role":"assistant","content":null,"channel":"b"},"flag":2}],"#,
            r#""prompt_filter_results":[1],"x":2,"usage":null}"#
        )
    );
}

#[test]
fn folding_invents_no_finish_reason() {
    let mut open = Fold::default();
    open.push(&json(r#"{"choices":[{"delta":{"content":"a"}}]}"#));
    assert!(!open.is_finished());
    assert_eq!(open.text(), "a");
    assert!(
        open.finish()
            .at_path("choices.0")
            .as_object()
            .is_some_and(|choice| !choice.contains("finish_reason"))
    );
    let mut done = Fold::default();
    let last = json(r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#);
    done.push(&last);
    done.push(&json(r#"{"choices":[{"delta":{},"finish_reason":null}]}"#));
    assert!(done.is_finished() && finishes(&last));
    assert_eq!(response::finish_reason_of(&done.finish()).as_deref(), Some("stop"));
}

#[test]
fn reasoning_parts_are_joined_by_their_index() {
    let message = folded(&[
        r#"{"reasoning_details":[{"type":"reasoning.text","text":"a","index":0}]}"#,
        r#"{"reasoning_details":[{"type":"reasoning.text","text":"b","index":0,"signature":"s"}]}"#,
        r#"{"reasoning_details":[{"type":"reasoning.text","text":"c","index":1}]}"#,
    ]);
    assert_eq!(
        message.get("reasoning_details").unwrap().to_string(),
        r#"[{"type":"reasoning.text","text":"ab","index":0,"signature":"s"},{"type":"reasoning.text","text":"c","index":1}]"#
    );
}

#[test]
fn a_folded_value_is_independent_of_its_event() {
    let event = json(r#"{"choices":[],"usage":{"total_tokens":1}}"#);
    let mut fold = Fold::default();
    fold.push(&event);
    event.get("usage").unwrap().set("total_tokens", 2_u64).unwrap();
    assert_eq!(fold.finish().at_path("usage.total_tokens").as_i64(), Some(1));
}

fn events_of(name: &str) -> Option<Vec<Json>> {
    let text = recordings::recorded(name)?;
    let events = text.lines().filter_map(|line| line.strip_prefix("data:")).filter(|data| *data != " [DONE]");
    Some(events.map(json).collect())
}

fn answer(name: &str) -> Option<Json> {
    Some(fold(&events_of(name)?))
}

#[test]
fn every_recorded_stream_folds_into_an_answer() {
    let Some(folder) = recordings::folder() else { return };
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !(name.starts_with("chat.") && name.ends_with(".sse")) {
            continue;
        }
        let chunks = events_of(&name).unwrap();
        let answer = fold(&chunks);
        assert_eq!(answer.text("object").as_deref(), Some("chat.completion"), "{name}");
        assert!(!answer.text("id").unwrap().is_empty(), "{name}");
        let message = response::message_of(&answer);
        assert_eq!(message::role_of(&message), "assistant", "{name}");
        let text: String = chunks
            .iter()
            .filter_map(|chunk| chunk.at_path("choices.0").get("delta"))
            .map(|delta| String::from(delta.text("content").unwrap_or_default()))
            .collect();
        if !name.contains(".n2.") {
            assert_eq!(message::text_of(&message), text, "{name}");
        }
        if !name.contains("error") {
            assert!(response::finish_reason_of(&answer).is_some(), "{name}");
        }
        // A split answer folds to the same answer.
        assert_eq!(fold(&split(&answer, true)), answer, "{name}");
        count += 1;
    }
    assert!(count >= 14, "{count}");
}

#[test]
fn recorded_interleaved_choices_are_separated() {
    let Some(answer) = answer("chat.n2.openai.sse") else { return };
    let choices = answer.get("choices").unwrap().items();
    assert_eq!(choices.len(), 2);
    for choice in &choices {
        let text = message::text_of(&choice.get("message").unwrap());
        assert!(text.starts_with("I'm ") && text.ends_with(['.', '?']), "{text}");
    }
    assert_eq!(answer.at_path("usage.completion_tokens").as_i64(), Some(104));
}

#[test]
fn recorded_tool_calls_fold_completely() {
    let Some(parallel) = answer("chat.tools-parallel.openai.sse") else { return };
    let calls = ModelCall::all(&response::message_of(&parallel));
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|call| call.name == "get_current_weather" && call.parse().is_ok()));
    for (name, count) in [("chat.tools-comments.openrouter.sse", 1), ("chat.tools.ollama-compat.sse", 1)] {
        let calls = ModelCall::all(&response::message_of(&answer(name).unwrap()));
        assert_eq!(calls.len(), count, "{name}");
        assert!(!calls[0].parse().unwrap().is_empty(), "{name}");
    }
    let cut = answer("chat.tool-truncated.openai.sse").unwrap();
    assert!(ModelCall::all(&response::message_of(&cut))[0].parse().is_err());
    assert_eq!(response::finish_reason_of(&cut).as_deref(), Some("length"));
}

#[test]
fn recorded_vendor_fields_survive_folding() {
    let Some(thinking) = answer("chat.reasoning.deepseek.sse") else { return };
    let message = response::message_of(&thinking);
    assert!(message.text("reasoning_content").unwrap().starts_with("Hmm"));
    let refusal = response::message_of(&answer("chat.refusal.openai.sse").unwrap());
    assert!(refusal.text("refusal").unwrap().starts_with("I'm sorry"));
    assert_eq!(refusal.get("content"), Some(Json::Null));
    let logprobs = answer("chat.logprobs.openai.sse").unwrap().at_path("choices.0.logprobs.content");
    let tokens: Vec<_> = logprobs.items().iter().filter_map(|token| token.text("token")).collect();
    assert_eq!(tokens, ["Foo", "!"]);
    let perplexity = answer("chat.text-crlf.perplexity.sse").unwrap();
    assert_eq!(message::text_of(&response::message_of(&perplexity)), "1 2 3");
    assert!(!perplexity.get("citations").unwrap().is_empty());
    let azure = answer("chat.text-filter-results.azure.sse").unwrap();
    assert!(azure.text("id").unwrap().starts_with("chatcmpl-"));
    assert!(!azure.get("prompt_filter_results").unwrap().is_empty());
}

#[test]
fn recorded_whole_answers_can_be_streamed_and_folded_back() {
    let Some(folder) = recordings::folder() else { return };
    for name in [
        "chat.text.openai.json",
        "chat.n2.openai.json",
        "chat.logprobs.openai.json",
        "chat.refusal.openai.json",
        "chat.reasoning.deepseek.json",
        "chat.tools-parallel.openai.json",
    ] {
        let whole = Json::parse(&std::fs::read(folder.join(name)).unwrap()).unwrap();
        assert_eq!(fold(&split(&whole, true)), whole, "{name}");
    }
}
