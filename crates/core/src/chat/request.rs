//! The fields that a chat request must have before anything runs, and those that the host reads.

use super::message;
use crate::fault::Fault;
use compact_str::CompactString;
use valvehouse_json::Json;

/// A chat request that was checked: `{model, messages, …}` in the shape of OpenAI's chat API.
///
/// The JSON stays inside, so that unknown fields, their order and the spelling of numbers travel. It is live: who holds
/// the body it was made from sees what filters make of it.
#[derive(Debug, Clone)]
pub struct ChatRequest(Json);

impl ChatRequest {
    /// Takes a body that has a `model`, at least one of `messages`, each with a role, and whose `stream` is a boolean.
    ///
    /// # Errors
    /// Returns a request fault that names what is wrong by its path, such as `messages[3].role`.
    pub fn new(body: Json) -> Result<Self, Fault> {
        check(&body)?;
        Ok(Self(body))
    }

    /// The name of the model.
    pub fn model(&self) -> CompactString {
        self.0.text_or_empty("model")
    }

    /// The conversation, a list that is never empty.
    pub fn messages(&self) -> Json {
        self.0.field("messages")
    }

    /// Returns `true` if the answer shall come in pieces.
    pub fn is_streamed(&self) -> bool {
        wants_stream(&self.0)
    }

    /// The whole body.
    pub fn body(&self) -> &Json {
        &self.0
    }

    /// The same request with other messages, at least one of which is there.
    #[must_use]
    pub fn with_messages(self, messages: Vec<Json>) -> Self {
        if self.0.set("messages", messages).is_err() {
            tracing::error!("cannot replace the messages of a request: its body is read-only");
        }
        self
    }

    /// The body, for who runs the request.
    pub(crate) fn into_body(self) -> Json {
        self.0
    }
}

/// Checks the little that everything else relies on; the rest is the service's business.
///
/// An error names the place: `messages[3].role`.
fn check(body: &Json) -> Result<(), Fault> {
    check_all_but_messages(body)?;
    let messages = body.field("messages");
    let Json::Array(list) = &messages else {
        return Err(wrong("messages", "an array of messages", &messages, Some("messages")));
    };
    if list.is_empty() {
        return Err(Fault::invalid("messages is empty; send at least one message", Some("messages")));
    }
    list.with(|list| list.iter().enumerate().try_for_each(|(index, message)| check_message(index, message)))
}

/// The same for a body that was well with these messages: who left them alone need not look at them all.
pub(crate) fn check_again(body: &Json, messages: &Json) -> Result<(), Fault> {
    let is_as_before =
        body.get("messages").is_some_and(|own| own.is_same(messages)) && !messages.is_changed();
    if is_as_before { check_all_but_messages(body) } else { check(body) }
}

fn check_all_but_messages(body: &Json) -> Result<(), Fault> {
    if body.as_object().is_none() {
        return Err(wrong("the request body", "a JSON object", body, None));
    }
    match body.get("model") {
        Some(Json::Text(model)) if !model.is_empty() => {}
        Some(Json::Text(_)) => return Err(Fault::invalid("model is empty; name a model", Some("model"))),
        other => return Err(wrong("model", "a string", &other.into(), Some("model"))),
    }
    match body.get("stream") {
        None | Some(Json::Null | Json::Bool(_)) => Ok(()),
        Some(other) => Err(wrong("stream", "true or false", &other, Some("stream"))),
    }
}

fn check_message(index: usize, message: &Json) -> Result<(), Fault> {
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

fn wrong(path: &str, expected: &str, found: &Json, param: Option<&'static str>) -> Fault {
    let found = match found {
        Json::Null => "missing",
        Json::Text(text) if text.is_empty() => "an empty string",
        Json::Text(_) => "a string",
        other => other.kind(),
    };
    Fault::invalid(format!("{path} is {found}; it must be {expected}"), param)
}

/// Returns `true` if the answer shall come in pieces.
pub fn wants_stream(body: &Json) -> bool {
    body.get("stream").and_then(|stream| stream.as_bool()).unwrap_or(false)
}

/// Returns `true` if a streamed answer shall end with its usage.
pub fn wants_usage(body: &Json) -> bool {
    body.at_path("stream_options.include_usage").as_bool().unwrap_or(false)
}

/// The place of the last message of the user.
pub fn last_user(messages: &[Json]) -> Option<usize> {
    messages.iter().rposition(|message| message::role_of(message) == "user")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_became_of_messages_is_checked_again() {
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
            Err(fault) => fault.to_string(),
            Ok(()) => "fine".to_owned(),
        }
    }

    #[test]
    fn what_is_wrong_is_named_by_its_path() {
        for (body, expected) in [
            ("[]", "the request body is array; it must be a JSON object"),
            ("{}", "model is missing; it must be a string"),
            (r#"{"model":1}"#, "model is number; it must be a string"),
            (r#"{"model":""}"#, "model is empty; name a model"),
            (r#"{"model":"m"}"#, "messages is missing; it must be an array of messages"),
            (r#"{"model":"m","messages":"hi"}"#, "messages is a string; it must be an array of messages"),
            (r#"{"model":"m","stream":"true"}"#, "stream is a string; it must be true or false"),
            (r#"{"model":"m","messages":[]}"#, "messages is empty; send at least one message"),
            (
                r#"{"model":"m","messages":[1]}"#,
                "messages[0] is number; it must be an object with role and content",
            ),
            (
                r#"{"model":"m","messages":[{"role":"user"},{}]}"#,
                "messages[1].role is missing; it must be a string such as \"user\"",
            ),
            (r#"{"model":"m","messages":[{"role":"user"}]}"#, "fine"),
        ] {
            assert_eq!(problem(body), expected, "{body}");
        }
    }

    #[test]
    fn wishes_are_read() {
        let body = Json::parse(br#"{"stream":true,"stream_options":{"include_usage":true}}"#).unwrap();
        assert!(wants_stream(&body) && wants_usage(&body));
        assert!(!wants_stream(&Json::object()) && !wants_usage(&Json::object()));
    }
}
