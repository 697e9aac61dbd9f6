//! Responses in the requested format, from models that need a correction.

use crate::kernel::{asking, calls, echo, stream_body};
use std::sync::Arc;
use valvehouse::error::Error;
use valvehouse::kernel::Kernel;
use valvehouse::llm::FormattedProvider;
use valvehouse::provider::{CannedProvider, Reply};

const ASKS: &str = r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},
    "messages":[{"role":"user","content":"how much?"}],
    "response_format":{"type":"json_schema","json_schema":{"name":"price","schema":
        {"type":"object","properties":{"price":{"type":"number"}},"required":["price"]}}}}"#;

fn kernel(replies: impl IntoIterator<Item = Reply>) -> (Kernel, CannedProvider) {
    let (builder, model) = asking(replies);
    let formatted = FormattedProvider::new(Arc::new(model.clone()), FormattedProvider::RETRIES);
    (builder.provider(Arc::new(formatted)).tool(echo()).build(), model)
}

#[tokio::test]
async fn a_streaming_client_receives_only_the_valid_answer() {
    let (kernel, model) = kernel([Reply::text("three"), Reply::text("```json\n{\"price\":3}\n```")]);
    let streamed = stream_body(&kernel, ASKS).await;
    assert_eq!(streamed.text(), r#"{"price":3}|stop"#);
    assert_eq!(model.requests().len(), 2);
    // The rejected responses are not part of the conversation.
    assert_eq!(streamed.answer(), r#"{"price":3}"#);
}

#[tokio::test]
async fn tools_are_called_before_a_typed_answer() {
    let replies = [calls("let me see", &[("echo", r#"{"x":1}"#)]), Reply::text(r#"{"price":4}"#)];
    let (kernel, model) = kernel(replies);
    let streamed = stream_body(&kernel, ASKS).await;
    assert_eq!(streamed.answer(), r#"{"price":4}"#);
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn a_model_that_never_matches_the_schema_fails_before_any_output() {
    let (kernel, model) = kernel([Reply::text("three")]);
    let streamed = stream_body(&kernel, ASKS).await;
    assert!(matches!(streamed.answer, Err(Error::Misshapen { .. })), "{:?}", streamed.answer);
    assert!(streamed.pieces.is_empty());
    assert_eq!(model.requests().len(), 3);
}
