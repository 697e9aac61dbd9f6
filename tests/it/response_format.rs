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
async fn a_client_that_streams_gets_the_answer_that_fits_and_nothing_of_the_others() {
    let (kernel, model) = kernel([Reply::text("three"), Reply::text("```json\n{\"price\":3}\n```")]);
    let streamed = stream_body(&kernel, ASKS).await;
    assert_eq!(streamed.text(), r#"{"price":3}|stop"#);
    assert_eq!(model.requests().len(), 2);
    // The rejected responses are not part of the conversation.
    assert_eq!(streamed.answer(), r#"{"price":3}"#);
}

#[tokio::test]
async fn tools_are_called_on_the_way_to_the_answer() {
    let replies = [calls("let me see", &[("echo", r#"{"x":1}"#)]), Reply::text(r#"{"price":4}"#)];
    let (kernel, model) = kernel(replies);
    let streamed = stream_body(&kernel, ASKS).await;
    assert_eq!(streamed.answer(), r#"{"price":4}"#);
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn a_model_that_never_fits_fails_the_turn_before_anything_is_sent() {
    let (kernel, model) = kernel([Reply::text("three")]);
    let streamed = stream_body(&kernel, ASKS).await;
    assert!(matches!(streamed.answer, Err(Error::Misshapen { .. })), "{:?}", streamed.answer);
    assert!(streamed.pieces.is_empty());
    assert_eq!(model.requests().len(), 3);
}
