//! `stream::window` as the author of a filter uses it.

mod final_text;
mod over_http;

use crate::kernel::*;
use std::sync::Arc;
use valvehouse::filter::FilterEntry;
use valvehouse::json::Json;
use valvehouse::provider::Reply;
use valvehouse::script::{Kind, Script, Settings, SourceFile, UserValves};

fn script(text: &str) -> FilterEntry {
    let file = SourceFile::new(Kind::Filter, "key", "filters/key.rhai", text);
    let script = Script::compile(&file, &Settings::default()).unwrap_or_else(|problems| {
        panic!("{}", problems.iter().map(ToString::to_string).collect::<String>())
    });
    assert!(script.warnings.is_empty(), "{:?}", script.warnings);
    Arc::new(script).into_filter(Arc::new(UserValves::default()))
}

const WINDOW: &str =
    r#"stream::window(event, state, 20, |text| regex::replace(text, "sk-[a-z0-9]{6,12}", "[key]"))"#;

fn window() -> FilterEntry {
    script(&format!("fn stream(event, state) {{ {WINDOW} }}"))
}

async fn streamed(filter: &FilterEntry, pieces: Reply) -> String {
    let streamed = stream(&asking([pieces]).0.filter(filter.clone()).build()).await;
    streamed.answer.as_ref().unwrap();
    streamed.text()
}

#[tokio::test]
async fn a_window_finds_a_match_across_chunks() {
    let (text, expected) =
        ("first sk-0a1b2c3d4, then sk-zzzzzz; at last sk-short", "first [key], then [key]; at last sk-short");
    let filter = window();
    for at in 0..text.len() {
        let pieces = Reply::chunks([&text[..at], &text[at..]]);
        assert_eq!(streamed(&filter, pieces).await, format!("{expected}|stop"), "cut at {at}");
    }
    let letters: Vec<&str> = (0..text.len()).map(|at| &text[at..=at]).collect();
    assert_eq!(streamed(&filter, Reply::chunks(letters)).await, format!("{expected}|stop"));
    let whole = asking([Reply::text(text)]).0.filter(filter).build();
    assert_eq!(chat(&whole, "hi").await.unwrap().text(), expected);
}

#[tokio::test]
async fn two_windows_have_separate_state() {
    let filter = script(
        r#"fn stream(event, state) {
            stream::window(event, state.ensure("one", #{}), 5, |text| text::replace(text, "abc", "d"));
            stream::window(event, state.ensure("two", #{}), 3, |text| text::replace(text, "dd", "e"));
        }"#,
    );
    let text = "x abcabc yabcab cabc abcabcabc z";
    for step in 1..8 {
        let pieces: Vec<&str> =
            (0..text.len()).step_by(step).map(|at| &text[at..(at + step).min(text.len())]).collect();
        assert_eq!(streamed(&filter, Reply::chunks(pieces)).await, "x e ydab cd ed z|stop", "{step}");
    }
}

#[tokio::test]
async fn an_answer_without_an_end_releases_all_of_its_text() {
    let piece = |delta: &str| {
        json(&format!(
            r#"{{"id":"c","model":"m","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#
        ))
    };
    let pieces =
        [piece(r#"{"role":"assistant","content":"the end is sk-01"}"#), piece(r#"{"content":"23456 near"}"#)];
    let with_end = format!("fn stream(event, state) {{ {WINDOW} }} fn stream_end(state) {{ \"!\" }}");
    for (filter, expected) in
        [(window(), "the end is [key] near"), (script(&with_end), "the end is [key] near!")]
    {
        let kernel = asking([Reply::chunks(pieces.clone())]).0.filter(filter).build();
        let streamed = stream(&kernel).await;
        assert_eq!(streamed.texts().concat(), expected);
        let same = |piece: &Json| piece.text("id").unwrap() == "c" && piece.text("model").unwrap() == "m";
        assert!(streamed.pieces.iter().all(|piece| same(&piece.event)), "{:?}", streamed.pieces);
    }
}

#[tokio::test]
async fn a_failing_fail_open_filter_loses_no_text_and_keeps_the_order() {
    let text = "one two three four five six seven eight nine ten";
    for at in 0..9 {
        let filter = script(&format!(
            "/*\non_error: continue\n*/\nfn stream(event, state) {{ state.n = (state.n ?? -1) + 1; {WINDOW}; if state.n == {at} {{ throw \"no\" }} if state.n == {at} + 2 {{ let x = 1 / 0; }} }}"
        ));
        let pieces: Vec<&str> = text.split_inclusive(' ').collect();
        assert_eq!(streamed(&filter, Reply::chunks(pieces)).await, format!("{text}|stop"), "{at}");
    }
}

#[tokio::test]
async fn a_fail_open_filter_with_an_open_breaker_releases_its_buffered_text() {
    let filter = script(&format!(
        "/*\non_error: continue\n*/\nfn stream(event, state) {{ {WINDOW}; if event.finish_reason == () && \"!\" in state.held[\"0\"].content.text {{ let x = 1 / 0; }} }}"
    ));
    let pieces = ["a ", "b ", "c! ", "d! ", "e! ", "f! ", "g! ", "h! ", "i ", "j"];
    assert_eq!(streamed(&filter, Reply::chunks(pieces)).await, format!("{}|stop", pieces.concat()));
}

#[tokio::test]
async fn invalid_window_arguments_are_reported_with_help() {
    let cases = [
        (
            "stream::window(event.copy().choices, state, 5, |text| text)",
            "`event` must be the parameter `event` of the hook",
        ),
        ("stream::window(event, #{}, 5, |text| text)", "`state` must be the parameter `state`"),
        ("stream::window(event, state, -5, |text| text)", "must not be negative"),
        ("stream::window(event, state, 5_000_000, |text| text)", "limit of 1048576 characters"),
        ("stream::window(event, state, 5, |text| { })", "return the text"),
        (
            "stream::window(event, state, 5, |text| text, 7)",
            "`tail` must be a pattern or a closure, not number",
        ),
        ("stream::window(event, state, 5, |text| text, \"(\")", "unclosed group"),
        ("stream::window(event, state, 5, |text| text, |text| \"?\")", "expected an end of the text"),
    ];
    for (call, words) in cases {
        let filter = script(&format!("fn stream(event, state) {{ {call}; }}"));
        let kernel = asking([Reply::chunks(["hello ", "you"])]).0.filter(filter).build();
        let (plugin, _, cause) = failure(stream(&kernel).await.answer);
        assert!(plugin == "key" && cause.contains(words), "{call}: {cause}");
    }
}

/// Returns the texts of all events by their paths, joined as a client joins them, and each by itself.
fn texts_by_path(events: impl Iterator<Item = Json>) -> Vec<String> {
    // A part of an id can equal a text by chance.
    fn is_random(key: &str) -> bool {
        key == "id" || key == "digest" || key.ends_with("_id")
    }
    fn walk(
        value: &Json,
        path: &str,
        found: &mut std::collections::BTreeMap<String, String>,
        each: &mut Vec<String>,
    ) {
        match value {
            Json::Text(text) => {
                found.entry(path.to_owned()).or_default().push_str(text);
                each.push(text.to_string());
            }
            Json::Array(items) => items.items().iter().for_each(|item| walk(item, path, found, each)),
            Json::Object(fields) => {
                let entries = fields.entries().into_iter().filter(|(key, _)| !is_random(key));
                entries.for_each(|(key, value)| walk(&value, &format!("{path}.{key}"), found, each));
            }
            _ => {}
        }
    }
    let (mut found, mut each) = (std::collections::BTreeMap::new(), Vec::new());
    events.for_each(|event| walk(&event, "", &mut found, &mut each));
    found.into_values().chain(each).collect()
}

#[tokio::test]
async fn a_key_reaches_the_client_in_no_field_of_an_event() {
    const KEY: &str = "sk-0a1b2c3d4";
    let filter = window();
    let whole = [
        r#"{"zork":"my sk-0a1b2c3d4 is"}"#,
        r#"{"zork":{"a":["my sk-0a1b2c3d4 is"]}}"#,
        r#"{"content":[{"type":"zork","zork":"my sk-0a1b2c3d4 is"}]}"#,
        r#"{"tool_calls":[{"index":0,"zork":"my sk-0a1b2c3d4 is"}]}"#,
        r#"{"content_blocks":[{"type":"response_item","item":{"type":"web_search_call","action":{"type":"search","query":"my sk-0a1b2c3d4","queries":["sk-0a1b2c3d4"]}},"calls":0}]}"#,
        r#"{"content_blocks":[{"type":"response_item","item":{"type":"code_interpreter_call","code":"sk-0a1b2c3d4","outputs":[{"type":"logs","logs":"sk-0a1b2c3d4"}]},"calls":0}]}"#,
        r#"{"content_blocks":[{"type":"web_search_tool_result","content":[{"type":"web_search_result","title":"sk-0a1b2c3d4","url":"https://x/sk-0a1b2c3d4"}]}]}"#,
        r#"{"annotations":[{"type":"char_location","document_title":"sk-0a1b2c3d4","source":"sk-0a1b2c3d4"}]}"#,
        r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a\":\"sk\\u002d0a1b2c3d4\"}"}}]}"#,
    ];
    let split = [
        [r#"{"content":"my sk-0a1"}"#, r#"{"content":"b2c3d4 is"}"#],
        [
            r#"{"thinking_blocks":[{"type":"thinking","thinking":"my sk-0a1"}]}"#,
            r#"{"thinking_blocks":[{"type":"thinking","thinking":"b2c3d4 is"}]}"#,
        ],
        [
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"my sk-0a1"}]}]}"#,
            r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"b2c3d4 is"}]}]}"#,
        ],
        [r#"{"reasoning_text":"my sk-0a1"}"#, r#"{"reasoning_text":"b2c3d4 is"}"#],
        [
            r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a\":\"sk\\u00"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"2d0a1b2c3d4\"}"}}]}"#,
        ],
        [
            r#"{"content":[{"type":"text","text":"my sk-0a1"},{"type":"text","text":"b2c3d4 is"}]}"#,
            r#"{"content":""}"#,
        ],
    ];
    let event = |delta: &str, beside: &str| {
        json(&format!(r#"{{"choices":[{{"index":0,"delta":{delta}{beside}}}]}}"#))
    };
    let mut cases: Vec<Vec<Json>> = whole.iter().map(|delta| vec![event(delta, "")]).collect();
    cases.extend(split.iter().map(|deltas| deltas.iter().map(|delta| event(delta, "")).collect()));
    // Text after the end of its choice.
    cases.push(vec![
        event(r#"{"content":"my sk-0a1"}"#, r#","finish_reason":"stop""#),
        event(r#"{"content":"b2c3d4 is"}"#, ""),
    ]);
    // Log probabilities without their text, and alternatives.
    cases.push(vec![event("{}", r#","logprobs":{"content":[{"token":"sk-0a1"},{"token":"b2c3d4"}]}"#)]);
    let alternative =
        r#","logprobs":{"content":[{"token":"hello","top_logprobs":[{"token":"sk-0a1b2c3d4"}]}]}"#;
    cases.push(vec![event(r#"{"content":"hello"}"#, alternative)]);
    // The stop text of a service, in place of a word for the ending.
    for state in ["finish_reason", "native_finish_reason", "stop_reason", "matched_stop"] {
        cases.push(vec![event("{}", &format!(r#","{state}":"sk-0a1b2c3d4""#))]);
        let beside = if state == "finish_reason" { "" } else { r#","finish_reason":"stop""# };
        cases.push(vec![event("{}", &format!(r#"{beside},"{state}":"my sk-0a1b2c3d4""#))]);
    }
    // The blocks of a service that clients join.
    cases.push(vec![
        event(r#"{"content":"my sk-0a1"}"#, ""),
        event(r#"{"content_blocks":[{"type":"text"}]}"#, ""),
        event(r#"{"content":"b2c3d4 is"}"#, ""),
    ]);
    for mut case in cases {
        let shown = format!("{case:?}");
        if !shown.contains("finish_reason") {
            case.push(event("{}", r#","finish_reason":"stop""#));
        }
        let streamed = stream(&asking([Reply::chunks(case)]).0.filter(filter.clone()).build()).await;
        streamed.answer.as_ref().unwrap();
        let texts = texts_by_path(streamed.pieces.iter().map(|piece| piece.event.clone()));
        let decoded = texts.iter().map(|text| text.replace("\\u002d", "-"));
        assert!(!decoded.clone().any(|text| text.contains(KEY)), "{shown}: {texts:?}");
    }
}

#[tokio::test]
async fn a_match_that_continues_after_another_text_is_not_sent_twice() {
    let event = |delta: &str| json(&format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#));
    let events = [
        event(r#"{"content":"x sk-0a1"}"#),
        event(r#"{"reasoning_content":"hm"}"#),
        event(r#"{"content":"b2c3d4 y"}"#),
        json(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#),
    ];
    let streamed = stream(&asking([Reply::chunks(events)]).0.filter(window()).build()).await;
    assert_eq!(streamed.texts().concat(), "x sk-0a1[key] y");
}

#[tokio::test]
async fn what_a_window_does_not_change_keeps_its_place() {
    let filter = script("fn stream(event, state) { stream::window(event, state, 60, |text| text); }");
    let content =
        r#"[{"type":"text","text":"a"},{"type":"reference","reference_ids":[1]},{"type":"text","text":"b"}]"#;
    let whole = format!(
        r#"{{"choices":[{{"index":0,"message":{{"role":"assistant","content":{content}}},"finish_reason":"stop"}}]}}"#
    );
    let kernel = asking([Reply::whole(json(&whole))]).0.filter(filter.clone()).build();
    let answer = chat(&kernel, "hi").await.unwrap();
    assert_eq!(answer.response.at_path("choices.0.message.content"), json(content));
    let call = r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]},"logprobs":{"content":[{"token":"{}"}]}"#;
    let event =
        json(&format!(r#"{{"choices":[{{"index":0,"delta":{call},"finish_reason":"tool_calls"}}]}}"#));
    let streamed = stream(&asking([Reply::chunks([event])]).0.filter(filter).build()).await;
    let tokens: usize = streamed
        .pieces
        .iter()
        .map(|piece| piece.event.at_path("choices.0.logprobs.content").items().len())
        .sum();
    assert_eq!(tokens, 1);
}
