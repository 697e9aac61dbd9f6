//! `stream::window` as the author of a filter uses it.

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
