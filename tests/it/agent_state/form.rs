//! `response_format` of a model with a memory, over HTTP. The tests of the state cover agents of the library.

use crate::host::TestHost;
use crate::upstream::{Reply, UpstreamRequest};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const CHECK: &str = "x-valvehouse-response-format";
const REMEMBERS: &str =
    "[[models]]\nname = \"assistant\"\nprovider = \"mock\"\nmodel = \"mock-1\"\nmemory = true";

/// Starts a host whose model gives these answers and repeats the last one.
async fn host(answers: &'static [&'static str]) -> TestHost {
    let host = TestHost::new().config(REMEMBERS).start().await;
    let given = AtomicUsize::new(0);
    host.upstream.script(move |request: &UpstreamRequest| {
        let place = given.fetch_add(1, Relaxed).min(answers.len() - 1);
        Reply::fitting(request, answers[place])
    });
    host
}

fn object() -> Value {
    json!({"type": "json_object"})
}

fn price() -> Value {
    json!({"type": "json_schema", "json_schema": {"name": "price", "schema": {
        "type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]}}})
}

fn asks(format: &Value, stream: bool) -> Value {
    json!({"model": "assistant", "chat_id": "c", "stream": stream, "response_format": format,
        "messages": [{"role": "user", "content": "how much?"}]})
}

#[tokio::test]
async fn a_wrong_answer_is_retried_and_only_the_right_one_is_returned_and_stored() {
    for (format, wrong, right) in
        [(object(), "three", r#"{"a":3}"#), (price(), r#"{"price":"three"}"#, r#"{"price":3}"#)]
    {
        let answers: &'static [&'static str] = Box::leak(Box::new([wrong, right]));
        let host = host(answers).await;
        let answer = host.chat(&asks(&format, false)).await;
        assert_eq!(answer.text(), right, "{format}");
        assert!(answer.header(CHECK).is_none());
        assert_eq!(host.upstream.requests().len(), 2);
        let remembered = host.store().messages("c", 0, 99).await.unwrap();
        assert_eq!(super::lines(&remembered), ["user: how much?".to_owned(), format!("assistant: {right}")]);
    }
}

#[tokio::test]
async fn a_stream_is_passed_on_unchecked() {
    let host = host(&["three"]).await;
    let answer = host.chat(&asks(&object(), true)).await;
    assert_eq!((answer.is_stream(), answer.text().as_str()), (true, "three"));
    assert_eq!(answer.header(CHECK), Some("unchecked"));
    let requests = host.upstream.requests();
    assert_eq!((requests.len(), &requests[0].json()["stream"]), (1, &json!(true)));
}

#[tokio::test]
async fn an_answer_that_never_matches_is_delivered_with_a_header() {
    for (format, answers) in [(object(), &["three"]), (price(), &["{}"])] {
        let host = host(answers).await;
        let answer = host.chat(&asks(&format, false)).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, answers[0]), "{}", answer.body());
        assert_eq!(answer.header(CHECK), Some("mismatch"));
        assert_eq!(host.upstream.requests().len(), 3);
    }
}

#[tokio::test]
async fn nothing_is_checked_unless_the_model_says_so() {
    for (setting, is_checked) in [("", false), ("check_response_format = true", true)] {
        let model = "[[models]]\nname = \"assistant\"\nprovider = \"mock\"\nmodel = \"mock-1\"";
        let host = TestHost::new().config(&format!("{model}\n{setting}")).start().await;
        host.upstream.script(|request| Reply::fitting(request, "three"));
        let answer = host.chat(&asks(&object(), false)).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "three"));
        assert_eq!(host.upstream.requests().len(), if is_checked { 3 } else { 1 });
        assert_eq!(answer.header(CHECK).is_some(), is_checked);
    }
}
