//! `response_format` of a model with a memory, over HTTP. The tests of the state cover agents of the library.

use crate::host::TestHost;
use crate::upstream::{Reply, UpstreamRequest};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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
        for stream in [false, true] {
            let answers: &'static [&'static str] = Box::leak(Box::new([wrong, right]));
            let host = host(answers).await;
            let answer = host.chat(&asks(&format, stream)).await;
            assert_eq!((answer.is_stream(), answer.text().as_str()), (stream, right), "{format}");
            assert_eq!(host.upstream.requests().len(), 2);
            let remembered = host.store().messages("c", 0, 99).await.unwrap();
            assert_eq!(
                super::lines(&remembered),
                ["user: how much?".to_owned(), format!("assistant: {right}")]
            );
        }
    }
}

#[tokio::test]
async fn a_model_that_never_matches_the_schema_is_a_502_with_its_own_code() {
    for (format, answers) in [(object(), &["three"]), (price(), &["{}"])] {
        let host = host(answers).await;
        let answer = host.chat(&asks(&format, false)).await;
        assert_eq!(answer.status, 502, "{}", answer.body());
        assert_eq!(answer.error()["code"], "response_format");
        assert_eq!(host.upstream.requests().len(), 3);
        let streamed = host.chat(&asks(&format, true)).await;
        assert_eq!(streamed.error()["code"], "response_format", "{}", streamed.body());
    }
}

#[tokio::test]
async fn a_conversation_continues_after_an_answer_that_never_matched() {
    let host = host(&["three", "three", "three", "fine"]).await;
    assert_eq!(host.chat(&asks(&object(), false)).await.status, 502);
    let mut next = asks(&object(), false);
    next.as_object_mut().unwrap().remove("response_format");
    next["messages"] = json!([{"role": "user", "content": "then in words"}]);
    assert_eq!(host.chat(&next).await.text(), "fine");
    let remembered = super::lines(&host.store().messages("c", 0, 99).await.unwrap());
    assert_eq!(remembered, ["user: how much?", "user: then in words", "assistant: fine"]);
}
