//! Tests with models whose first answers do not match the format.

use super::provider::FormattedProvider;
use bytes::Bytes;
use futures::future::BoxFuture;
use std::sync::Arc;
use valvehouse_core::chat::{Outline, message, response};
use valvehouse_core::context::{Exchange, FormatCheck, Turn};
use valvehouse_core::error::Error;
use valvehouse_core::provider::{
    Answer, CannedProvider, ForwardRequest, PassthroughAnswer, Provider, Reply, Request,
};
use valvehouse_json::Json;

const PRICE: &str = r#"{"type":"json_schema","json_schema":{"name":"price","schema":
    {"type":"object","properties":{"price":{"type":"number"}},"required":["price"]}}}"#;
const OBJECT: &str = r#"{"type":"json_object"}"#;

fn request(format: &str) -> Request {
    let body = format!(
        r#"{{"model":"m","stream":true,"stream_options":{{"include_usage":true}},"response_format":{format},
            "messages":[{{"role":"system","content":"be brief"}},{{"role":"user","content":"how much?"}}]}}"#
    );
    Request::new(Json::parse(body.as_bytes()).unwrap(), true)
}

async fn ask(
    replies: impl IntoIterator<Item = Reply>,
    format: &str,
) -> (CannedProvider, Result<Json, Error>) {
    let canned = CannedProvider::new(replies);
    let formatted = FormattedProvider::new(Arc::new(canned.clone()), FormattedProvider::RETRIES);
    let answer = formatted.chat(request(format)).await.map(|answer| match answer {
        Answer::Whole(whole) => whole,
        Answer::Stream(_) => panic!("it streams"),
    });
    (canned, answer)
}

async fn text(replies: impl IntoIterator<Item = Reply>, format: &str) -> String {
    match ask(replies, format).await.1 {
        Ok(answer) => message::text_of(&response::message_of(&answer)).into(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_valid_typed_answer_passes_unchanged() {
    for (format, reply) in [(PRICE, r#"{"price": 1e1, "for": "tea"}"#), (OBJECT, "{}")] {
        let (canned, answer) = ask([Reply::text(reply)], format).await;
        assert_eq!(message::text_of(&response::message_of(&answer.unwrap())), reply);
        let request = &canned.requests()[0];
        // Only a complete answer can be checked.
        assert_eq!(request.get("stream").unwrap().as_bool(), Some(false));
        assert!(request.get("stream_options").is_none());
        assert_eq!(
            request.get("response_format").unwrap().deep_clone(),
            Json::parse(format.as_bytes()).unwrap()
        );
    }
}

#[tokio::test]
async fn json_is_extracted_from_a_code_block() {
    for reply in [
        "```json\n{\"price\":3}\n```",
        "Here you are:\n\n```\n{\"price\":3}\n```\nAnything else?",
        "```text\nno JSON\n```\n```JSON\n{\"price\":3}\n  ```",
        " \n{\"price\":3}\n",
    ] {
        assert_eq!(text([Reply::text(reply)], PRICE).await, r#"{"price":3}"#, "{reply}");
    }
}

#[tokio::test]
async fn a_model_receives_the_mismatch_and_is_called_again() {
    let replies = ["about 3", r#"{"price":"3"}"#, r#"{"price":3}"#].map(Reply::text);
    let (canned, answer) = ask(replies, PRICE).await;
    let requests = canned.requests();
    assert_eq!(requests.len(), 3);
    let messages_of = |request: usize| requests[request].get("messages").unwrap().items();
    assert_eq!(messages_of(0).len(), 2);
    assert_eq!(messages_of(1)[2].to_string(), r#"{"role":"assistant","content":"about 3"}"#);
    assert!(message::text_of(&messages_of(1)[3]).contains("it is not valid JSON"));
    assert!(message::text_of(&messages_of(2)[5]).contains(r#"/price: "3" is not of type "number""#));
    let answer = answer.unwrap();
    assert_eq!(message::text_of(&response::message_of(&answer)), r#"{"price":3}"#);
    // The usage includes every attempt.
    let prompt: i64 = requests
        .iter()
        .flat_map(|body| body.get("messages").unwrap().items())
        .map(|message| message::text_of(&message).split_whitespace().count() as i64)
        .sum();
    assert_eq!(answer.at_path("usage.prompt_tokens").as_i64(), Some(prompt));
    assert_eq!(answer.at_path("usage.completion_tokens").as_i64(), Some(4));
}

#[tokio::test]
async fn a_model_that_never_matches_the_schema_is_an_error_with_the_mismatch() {
    let (canned, answer) = ask([Reply::text("{}")], PRICE).await;
    assert_eq!(canned.requests().len(), 3);
    let error = answer.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the response of provider canned does not match response_format after 3 attempts: \"price\" is a required property"
    );
    assert!(matches!(error, Error::Misshapen { .. }));
    assert!(
        text([Reply::text("[1]")], OBJECT).await.contains("it is of type array; it must be a JSON object")
    );
    assert!(text([Reply::text("")], OBJECT).await.contains("it is empty"));
}

#[tokio::test]
async fn a_truncated_answer_is_not_retried() {
    let cut = r#"{"choices":[{"message":{"content":"{\"pri"},"finish_reason":"length"}]}"#;
    let (canned, answer) = ask([Reply::whole(Json::parse(cut.as_bytes()).unwrap())], PRICE).await;
    assert_eq!(canned.requests().len(), 1);
    assert!(answer.unwrap_err().to_string().contains("raise max_tokens"));
}

#[tokio::test]
async fn tool_calls_and_refusals_are_not_checked_against_the_schema() {
    for message in [
        r#"{"role":"assistant","content":"let me see","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]}"#,
        r#"{"role":"assistant","content":null,"refusal":"I will not"}"#,
    ] {
        let message = Json::parse(message.as_bytes()).unwrap();
        let (canned, answer) = ask([Reply::message(message.deep_clone())], PRICE).await;
        assert_eq!(response::message_of(&answer.unwrap()), message);
        assert_eq!(canned.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_invalid_schema_is_a_client_error_before_any_call() {
    for (schema, why) in [
        (r#"{"schema":{"type":"nope"}}"#, "/type: "),
        (r#"{"schema":{"patternProperties":{"(":{}}}}"#, "regex"),
        (r#"{"schema":{"$ref":"file:///etc/passwd"}}"#, "file:///etc/passwd"),
        (r#"{"schema":7}"#, "expected a JSON schema, got number"),
        ("{}", "expected a JSON schema, got null"),
    ] {
        let (canned, answer) =
            ask(["{}".into()], &format!(r#"{{"type":"json_schema","json_schema":{schema}}}"#)).await;
        let error = answer.unwrap_err();
        assert!(error.to_string().starts_with("invalid schema in response_format: "), "{error}");
        assert!(error.to_string().contains(why), "{error}");
        assert!(matches!(error, Error::Request { param: Some("response_format"), .. }));
        assert!(canned.requests().is_empty());
    }
}

#[tokio::test]
async fn circular_schemas_are_bounded() {
    for schema in [
        r##"{"$ref":"#"}"##,
        r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}"##,
        r##"{"allOf":[{"$ref":"#"}]}"##,
        r##"{"$dynamicRef":"#x","$dynamicAnchor":"x"}"##,
    ] {
        let format = format!(r#"{{"type":"json_schema","json_schema":{{"schema":{schema}}}}}"#);
        assert_eq!(text(["{}".into()], &format).await, "{}", "{schema}");
    }
}

/// A provider that forwards every body.
struct Forwarding(CannedProvider);

impl Provider for Forwarding {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn models(&self) -> BoxFuture<'_, Result<Vec<Json>, Error>> {
        self.0.models()
    }
    fn chat(&self, request: Request) -> BoxFuture<'_, Result<Answer, Error>> {
        self.0.chat(request)
    }
    fn forward<'a>(
        &'a self,
        _: ForwardRequest<'a>,
    ) -> Option<BoxFuture<'a, Result<PassthroughAnswer, Error>>> {
        Some(Box::pin(std::future::ready(Err(Error::Host("passed on".into())))))
    }
}

/// Asks a provider that delivers answers that do not match. Returns its number of calls, the answer, and the
/// result of the check.
async fn deliver(
    replies: impl IntoIterator<Item = Reply>,
    stream: bool,
) -> (usize, Answer, Option<FormatCheck>) {
    let canned = CannedProvider::new(replies);
    let formatted = FormattedProvider::delivering(Arc::new(canned.clone()), FormattedProvider::RETRIES);
    let turn = Turn::default();
    let request = Request { stream, turn: Some(turn.clone()), ..request(PRICE) };
    let answer = formatted.chat(request).await.unwrap();
    (canned.requests().len(), answer, turn.exchange().format_check())
}

#[tokio::test]
async fn an_answer_that_never_matches_is_delivered_with_a_note() {
    let cut = r#"{"choices":[{"message":{"content":"{\"pri"},"finish_reason":"length"}]}"#;
    let cut = Reply::whole(Json::parse(cut.as_bytes()).unwrap());
    for (replies, calls, text, check) in [
        (vec![Reply::text("three")], 3, "three", Some(FormatCheck::Mismatch)),
        (vec![cut], 1, r#"{"pri"#, Some(FormatCheck::Truncated)),
        (vec![Reply::text("three"), Reply::text(r#"{"price":3}"#)], 2, r#"{"price":3}"#, None),
    ] {
        let (made, answer, found) = deliver(replies, false).await;
        let Answer::Whole(answer) = answer else { panic!("it streams") };
        assert_eq!(message::text_of(&response::message_of(&answer)), text);
        assert_eq!((made, found), (calls, check), "{text}");
    }
}

#[tokio::test]
async fn a_stream_passes_unchecked_where_answers_are_delivered() {
    let (made, answer, check) = deliver([Reply::text("three")], true).await;
    assert!(matches!(answer, Answer::Stream(_)));
    assert_eq!((made, check), (1, Some(FormatCheck::Unchecked)));
}

#[tokio::test]
async fn requests_without_a_response_format_pass_unchanged() {
    let formatted = FormattedProvider::new(Arc::new(Forwarding(CannedProvider::new(["no JSON"]))), 2);
    for body in [r#"{"model":"m"}"#, r#"{"response_format":{"type":"text"}}"#, r#"{"response_format":null}"#]
    {
        let body = Json::parse(body.as_bytes()).unwrap();
        assert!(matches!(formatted.chat(Request::new(body, true)).await, Ok(Answer::Stream(_))));
    }
    let exchange = Exchange::default();
    let forward = |body: &'static [u8]| {
        let outline = Outline::read(body).unwrap();
        let body = Bytes::from_static(body);
        let request =
            ForwardRequest { body, outline: &outline, stream: true, model: "m", exchange: &exchange };
        formatted.forward(request).is_some()
    };
    assert!(forward(br#"{"model":"m"}"#));
    assert!(!forward(br#"{"model":"m","response_format":{"type":"json_object"}}"#));
}
