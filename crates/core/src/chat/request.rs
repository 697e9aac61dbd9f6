//! Validation of chat requests, and access to the fields that the host reads.

use super::{history, message};
use crate::error::Error;
use compact_str::CompactString;
use valvehouse_json::{Array, Json};

/// A validated chat request: `{model, messages, …}` in the format of the OpenAI chat API.
///
/// The request wraps the client's JSON, so unknown fields, key order and number spelling are preserved. The
/// JSON is live: other handles of the body see the changes that filters make.
#[derive(Debug, Clone)]
pub struct ChatRequest(Json);

impl ChatRequest {
    /// Validates a body: it needs a `model`, at least one of `messages`, each with a role, and a boolean
    /// `stream` if any. An answer with tool calls that the client split into several messages becomes one message
    /// again, because services reject messages between calls and their results.
    ///
    /// # Errors
    /// Returns a request error that names the invalid field by its path, such as `messages[3].role`.
    pub fn new(body: impl Into<Json>) -> Result<Self, Error> {
        let body = body.into();
        check(&body)?;
        history::join_split_answers(&body);
        Ok(Self(body))
    }

    /// Validates the `messages` of any body: at least one, each with a role.
    ///
    /// # Errors
    /// Returns a request error that names the invalid field by its path.
    pub fn check_messages(body: &Json) -> Result<(), Error> {
        check_list(&body.field("messages"))
    }

    /// Returns the name of the model.
    pub fn model(&self) -> CompactString {
        self.0.text_or_empty("model")
    }

    /// Returns the conversation, a non-empty list.
    pub fn messages(&self) -> Json {
        self.0.field("messages")
    }

    /// Returns `true` if the client requests a streamed answer.
    pub fn is_streamed(&self) -> bool {
        wants_stream(&self.0)
    }

    /// Returns the complete body.
    pub fn body(&self) -> &Json {
        &self.0
    }

    /// Replaces the messages. The list must not be empty.
    #[must_use]
    pub fn with_messages(self, messages: Vec<Json>) -> Self {
        if self.0.set("messages", messages).is_err() {
            tracing::error!("cannot replace the messages of a request: its body is read-only");
        }
        self
    }

    /// Returns the body for the turn that runs the request.
    pub(crate) fn into_body(self) -> Json {
        self.0
    }
}

/// Checks the fields that the host relies on; the provider validates the others.
///
/// An error names the field by its path: `messages[3].role`.
fn check(body: &Json) -> Result<(), Error> {
    check_all_but_messages(body)?;
    check_list(&body.field("messages"))
}

fn check_list(messages: &Json) -> Result<(), Error> {
    let Json::Array(list) = messages else {
        return Err(wrong("messages", "an array of messages", messages, Some("messages")));
    };
    if list.is_empty() {
        return Err(Error::invalid(
            "invalid messages: expected at least one message, got an empty array",
            Some("messages"),
        ));
    }
    check_each(list)
}

/// Checks that messages are objects with a role.
///
/// # Errors
/// Returns a request error that names the invalid field by its path, such as `messages[3].role`.
pub fn check_each(messages: &Array) -> Result<(), Error> {
    messages
        .with(|list| list.iter().enumerate().try_for_each(|(index, message)| check_message(index, message)))
}

/// Checks a changed body. The messages are skipped if they are unchanged since the last check.
pub(crate) fn check_again(body: &Json, messages: &Json) -> Result<(), Error> {
    let is_as_before = body.get("messages").is_some_and(|own| own.ptr_eq(messages)) && !messages.is_changed();
    if is_as_before { check_all_but_messages(body) } else { check(body) }
}

fn check_all_but_messages(body: &Json) -> Result<(), Error> {
    if body.as_object().is_none() {
        return Err(wrong("request body", "a JSON object", body, None));
    }
    match body.get("model") {
        Some(Json::Text(model)) if !model.is_empty() => {}
        other => return Err(wrong("model", "the name of a model", &other.into(), Some("model"))),
    }
    match body.get("stream") {
        None | Some(Json::Null | Json::Bool(_)) => Ok(()),
        Some(other) => Err(wrong("stream", "true or false", &other, Some("stream"))),
    }
}

fn check_message(index: usize, message: &Json) -> Result<(), Error> {
    let Json::Object(fields) = message else {
        return Err(wrong(
            &format!("messages[{index}]"),
            "an object with role and content",
            message,
            Some("messages"),
        ));
    };
    if fields.has_text("role") {
        return Ok(());
    }
    let role = fields.field("role");
    Err(wrong(&format!("messages[{index}].role"), "a string such as \"user\"", &role, Some("messages")))
}

fn wrong(path: &str, expected: &str, found: &Json, param: Option<&'static str>) -> Error {
    let found = match found {
        Json::Null => return Error::invalid(format!("missing {path}: expected {expected}"), param),
        Json::Text(text) if text.is_empty() => "an empty string",
        Json::Text(_) => "a string",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    };
    Error::invalid(format!("invalid {path}: expected {expected}, got {found}"), param)
}

/// Returns `true` if the client requests a streamed answer.
pub fn wants_stream(body: &Json) -> bool {
    body.get("stream").and_then(|stream| stream.as_bool()).unwrap_or(false)
}

/// Returns `true` if the client requests the usage at the end of a streamed answer.
pub fn wants_usage(body: &Json) -> bool {
    body.at_path("stream_options.include_usage").as_bool().unwrap_or(false)
}

/// Returns the position of the last user message.
pub fn last_user(messages: &[Json]) -> Option<usize> {
    messages.iter().rposition(|message| message::role_of(message) == "user")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_validated_again_after_changes() {
        let unlike: [fn(&Json) -> bool; 5] = [
            |body| body.set("model", "").is_ok(),
            |body| body.set("messages", Json::array()).is_ok(),
            |body| body.set("messages", Json::from(vec![Json::Null])).is_ok(),
            |body| body.get("messages").unwrap().items()[1].set("role", "").is_ok(),
            |body| body.get("messages").unwrap().items()[1].remove("role").is_some(),
        ];
        let text =
            br#"{"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}"#;
        for change in unlike {
            let body = Json::parse(text).unwrap();
            let messages = body.get("messages").unwrap();
            body.set("user", "ann").unwrap();
            assert!(check_again(&body, &messages).is_ok());
            assert!(change(&body));
            assert!(check_again(&body, &messages).is_err(), "{body}");
        }
    }

    fn problem(body: &str) -> String {
        match check(&Json::parse(body.as_bytes()).unwrap()) {
            Err(error) => error.to_string(),
            Ok(()) => "fine".to_owned(),
        }
    }

    #[test]
    fn an_invalid_field_is_named_by_its_path() {
        for (body, expected) in [
            ("[]", "invalid request body: expected a JSON object, got an array"),
            ("{}", "missing model: expected the name of a model"),
            (r#"{"model":1}"#, "invalid model: expected the name of a model, got a number"),
            (r#"{"model":""}"#, "invalid model: expected the name of a model, got an empty string"),
            (r#"{"model":"m"}"#, "missing messages: expected an array of messages"),
            (
                r#"{"model":"m","messages":"hi"}"#,
                "invalid messages: expected an array of messages, got a string",
            ),
            (r#"{"model":"m","stream":"true"}"#, "invalid stream: expected true or false, got a string"),
            (
                r#"{"model":"m","messages":[]}"#,
                "invalid messages: expected at least one message, got an empty array",
            ),
            (
                r#"{"model":"m","messages":[1]}"#,
                "invalid messages[0]: expected an object with role and content, got a number",
            ),
            (
                r#"{"model":"m","messages":[{"role":"user"},{}]}"#,
                "missing messages[1].role: expected a string such as \"user\"",
            ),
            (r#"{"model":"m","messages":[{"role":"user"}]}"#, "fine"),
        ] {
            assert_eq!(problem(body), expected, "{body}");
        }
    }

    #[test]
    fn reply_options_are_parsed() {
        let body = Json::parse(br#"{"stream":true,"stream_options":{"include_usage":true}}"#).unwrap();
        assert!(wants_stream(&body) && wants_usage(&body));
        assert!(!wants_stream(&Json::object()) && !wants_usage(&Json::object()));
    }
}
