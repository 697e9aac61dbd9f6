//! Tool calls of a message: who is called, with what.

use compact_str::CompactString;
use std::fmt;
use valvehouse_json::Json;

/// One call a model asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCall {
    /// The id that its result refers to.
    pub id: CompactString,
    /// The tool's name.
    pub name: CompactString,
    /// The arguments as the model wrote them, which may not be JSON at all.
    pub arguments: CompactString,
}

/// Arguments no tool can be run with; the text is for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadArguments {
    /// No JSON: often cut off by a token limit.
    Malformed {
        /// The tool's name.
        tool: CompactString,
        /// The error of the parser.
        reason: String,
    },
    /// JSON, but without names.
    NoObject {
        /// The tool's name.
        tool: CompactString,
        /// The kind of value that came instead.
        kind: &'static str,
    },
}

impl fmt::Display for BadArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { tool, reason } => {
                write!(
                    f,
                    "the arguments of {tool} are not valid JSON: {reason}; send one complete JSON object"
                )
            }
            Self::NoObject { tool, kind } => write!(
                f,
                "the arguments of {tool} are of type {kind}; send a JSON object with a key for each argument"
            ),
        }
    }
}

impl std::error::Error for BadArguments {}

impl ModelCall {
    /// The calls of an assistant message, in their order; none for other messages.
    pub fn all(message: &Json) -> Vec<Self> {
        let calls = message.field("tool_calls");
        calls.items().iter().filter_map(Self::read).collect()
    }

    fn read(call: &Json) -> Option<Self> {
        // The input of a custom tool is a text of any form.
        let (called, input) = match call.get("function") {
            Some(function) => (function, "arguments"),
            None => (call.get("custom").filter(|custom| custom.as_object().is_some())?, "input"),
        };
        Some(Self {
            id: call.text_or_empty("id"),
            name: called.text_or_empty("name"),
            arguments: match called.get(input) {
                Some(Json::Text(text)) => text.into(),
                None | Some(Json::Null) => CompactString::default(),
                // Some servers send the object itself instead of its text.
                Some(value) => value.to_string().into(),
            },
        })
    }

    /// The call as it stands in a message.
    pub fn to_json(&self) -> Json {
        let function =
            Json::from([("name", self.name.clone().into()), ("arguments", self.arguments.clone().into())]);
        Json::from([("id", self.id.clone().into()), ("type", "function".into()), ("function", function)])
    }

    /// The arguments as an object. None at all is how models call a tool that needs none.
    pub fn parse(&self) -> Result<Json, BadArguments> {
        if self.arguments.trim().is_empty() {
            return Ok(Json::object());
        }
        match Json::parse(self.arguments.as_bytes()) {
            Ok(object @ Json::Object(_)) => Ok(object),
            Ok(other) => Err(BadArguments::NoObject { tool: self.name.clone(), kind: other.kind() }),
            Err(error) => Err(BadArguments::Malformed { tool: self.name.clone(), reason: error.to_string() }),
        }
    }
}

/// Gives calls without an id one of their own: an answer has to name the call it belongs to.
pub fn ensure_ids(message: &Json) {
    for call in message.list("tool_calls") {
        ensure_id(&call);
    }
}

/// Gives a call without an id one of its own; true where it had none.
pub fn ensure_id(call: &Json) -> bool {
    let has_one = call.text("id").is_some_and(|id| !id.is_empty());
    // A call that is not an object has no id to set.
    !has_one && call.set("id", format!("call_{}", uuid::Uuid::new_v4().simple())).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &str) -> ModelCall {
        ModelCall { id: "1".into(), name: "weather".into(), arguments: arguments.into() }
    }

    #[test]
    fn calls_are_read_and_written() {
        let message = Json::from([("tool_calls", vec![call(r#"{"city":"Bonn"}"#).to_json()].into())]);
        let calls = ModelCall::all(&message);
        assert_eq!(calls, [call(r#"{"city":"Bonn"}"#)]);
        assert_eq!(calls[0].parse().unwrap().text("city").unwrap(), "Bonn");
        assert_eq!(ModelCall::all(&Json::object()), []);
    }

    #[test]
    fn arguments_as_an_object_and_no_arguments_are_fine() {
        let text = br#"{"tool_calls":[{"id":"","function":{"name":"a","arguments":{"b":1}}}]}"#;
        let message = Json::parse(text).unwrap();
        assert_eq!(ModelCall::all(&message)[0].arguments, r#"{"b":1}"#);
        assert_eq!(call(" ").parse().unwrap(), Json::object());
        ensure_ids(&message);
        assert!(ModelCall::all(&message)[0].id.starts_with("call_"));
    }

    #[test]
    fn wrong_arguments_are_explained_to_the_model() {
        let cut = call(r#"{"city":"Bo"#).parse().unwrap_err().to_string();
        assert!(cut.starts_with("the arguments of weather are not valid JSON: EOF"), "{cut}");
        let list = call("[1]").parse().unwrap_err().to_string();
        assert!(list.contains("of type array; send a JSON object"), "{list}");
    }
}
