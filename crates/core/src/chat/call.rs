//! The tool calls of a message: names, ids and arguments.

use compact_str::CompactString;
use std::fmt;
use valvehouse_json::Json;

/// A tool call in a model's message.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCall {
    /// The id that the result refers to.
    pub id: CompactString,
    /// The tool's name.
    pub name: CompactString,
    /// The arguments as the model wrote them, which may be invalid JSON.
    pub arguments: CompactString,
}

/// Invalid arguments of a tool call; the error text is written for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadArguments {
    /// Invalid JSON, often cut off by a token limit.
    Malformed {
        /// The tool's name.
        tool: CompactString,
        /// The error of the parser.
        reason: String,
    },
    /// Valid JSON that is not an object.
    NoObject {
        /// The tool's name.
        tool: CompactString,
        /// The type of the value.
        kind: &'static str,
    },
}

impl fmt::Display for BadArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { tool, reason } => {
                write!(f, "invalid arguments for {tool}: expected one complete JSON object: {reason}")
            }
            Self::NoObject { tool, kind } => write!(
                f,
                "invalid arguments for {tool}: expected a JSON object with a key for each argument, got {kind}"
            ),
        }
    }
}

impl std::error::Error for BadArguments {}

/// A tool call of a service that no client and no filter could read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadCall {
    /// The name is not a text; the value is its type.
    NameKind(&'static str),
    /// The name is missing.
    NoName,
}

impl fmt::Display for BadCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameKind(kind) => {
                write!(f, "a tool call with an invalid name: expected a text, got {kind}")
            }
            Self::NoName => f.write_str("a tool call without the name of its tool"),
        }
    }
}

impl std::error::Error for BadCall {}

impl ModelCall {
    /// Returns the tool calls of an assistant message in order, an empty list for other messages.
    pub fn all(message: &Json) -> Vec<Self> {
        let calls = message.field("tool_calls");
        calls.items().iter().filter_map(Self::read).collect()
    }

    fn read(call: &Json) -> Option<Self> {
        let (kind, input) = keys_of(call);
        let called = call.get(kind)?;
        Some(Self {
            id: call.text_or_empty("id"),
            name: called.text_or_empty("name"),
            arguments: match called.get(input) {
                Some(Json::Text(text)) => text.into(),
                None | Some(Json::Null) => CompactString::default(),
                // Some servers send the arguments as an object instead of a string.
                Some(value) => value.to_string().into(),
            },
        })
    }

    /// Converts the call to its form in a message: `{id, type: "function", function: {name, arguments}}`.
    pub fn to_json(&self) -> Json {
        let function =
            Json::from([("name", self.name.clone().into()), ("arguments", self.arguments.clone().into())]);
        Json::from([("id", self.id.clone().into()), ("type", "function".into()), ("function", function)])
    }

    /// Parses the arguments as an object. Empty arguments are an empty object: models send them for tools
    /// without parameters.
    ///
    /// # Errors
    /// Returns an error with a text for the model if the arguments are not a JSON object.
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

/// Writes the `function_call` of OpenAI's first version in a choice's message and delta as a tool call, the only form
/// that filters, tools and other protocols read. A message has at most one. Returns `true` if the choice was changed.
pub fn write_function_call(choice: &Json) -> bool {
    let is_end = choice.is_text("finish_reason", "function_call");
    if is_end {
        choice.edit("finish_reason", "tool_calls");
    }
    ["delta", "message"].into_iter().fold(is_end, |changed, key| write_call(choice, key) || changed)
}

fn write_call(choice: &Json, key: &str) -> bool {
    let Some(message) = choice.get(key) else { return false };
    let function = message.field("function_call");
    if !function.is_object() {
        return false;
    }
    message.remove("function_call");
    let has_call = ["name", "arguments"].iter().any(|key| !function.field(key).is_empty());
    if has_call && message.field("tool_calls").is_empty() {
        let begins = !function.field("name").is_empty();
        let call = Json::from([("index", 0_i64.into()), ("type", "function".into()), ("function", function)]);
        if begins {
            tidy(&call);
        }
        message.edit("tool_calls", vec![call]);
    }
    true
}

/// Returns the keys of a tool call under which the tool and its input are: `custom` and `input` for a custom tool, whose
/// input is free-form text, and `function` and `arguments` for all others.
pub fn keys_of(call: &Json) -> (&'static str, &'static str) {
    let is_custom = call.get("custom").is_some_and(|custom| custom.as_object().is_some());
    if is_custom { ("custom", "input") } else { ("function", "arguments") }
}

/// Returns the name in a tool call or in its delta; "" if it has none.
///
/// # Errors
/// Returns an error if the name is not a text.
pub fn name_of(call: &Json) -> Result<CompactString, BadCall> {
    text_name(&call.field(keys_of(call).0))
}

/// Returns the `name` of the tool in a call of any protocol; "" if it has none.
///
/// # Errors
/// Returns an error if the name is not a text.
pub fn text_name(tool: &Json) -> Result<CompactString, BadCall> {
    match tool.get("name") {
        None | Some(Json::Null) => Ok(CompactString::default()),
        Some(Json::Text(name)) => Ok(name.into()),
        Some(other) => Err(BadCall::NameKind(other.kind())),
    }
}

/// Adds what a tool call or its first delta lacks: an id, the type, and the input as a text, because some servers send
/// the arguments as an object. Returns `true` if the call was changed.
pub fn tidy(call: &Json) -> bool {
    let (kind, input) = keys_of(call);
    let mut changed = ensure_id(call);
    changed |= call.get("type").is_none_or(|given| given.is_empty()) && call.set("type", kind).is_ok();
    let called = call.field(kind);
    match called.get(input) {
        Some(Json::Text(_)) => changed,
        None | Some(Json::Null) => called.set(input, "").is_ok() || changed,
        Some(value) => called.set(input, value.to_string()).is_ok() || changed,
    }
}

/// Adds what the tool calls of a complete message lack, `{}` in place of no arguments, and gives each its own id.
///
/// # Errors
/// Returns an error for a call without a name, and for one whose name is not a text.
pub fn tidy_all(message: &Json) -> Result<(), BadCall> {
    let mut ids: Vec<CompactString> = Vec::new();
    for call in message.list("tool_calls") {
        if name_of(&call)?.is_empty() {
            return Err(BadCall::NoName);
        }
        if ids.contains(&call.text_or_empty("id")) {
            call.remove("id");
        }
        tidy(&call);
        let function = call.field("function");
        if function.text("arguments").is_some_and(|text| text.trim().is_empty()) {
            function.edit("arguments", "{}");
        }
        ids.push(call.text_or_empty("id"));
    }
    Ok(())
}

/// Removes the tool calls of a message that match. Returns `true` if there were any.
pub fn remove(message: &Json, matches: impl Fn(&ModelCall) -> bool) -> bool {
    let calls = message.list("tool_calls");
    let is_kept = |call: &&Json| !ModelCall::read(call).is_some_and(|call| matches(&call));
    let kept: Vec<Json> = calls.iter().filter(is_kept).cloned().collect();
    match kept.len() {
        left if left == calls.len() => false,
        0 => message.remove("tool_calls").is_some(),
        _ => message.set("tool_calls", kept).is_ok(),
    }
}

/// Adds an id to each tool call that has none, because a result refers to its call by id.
pub fn ensure_ids(message: &Json) {
    for call in message.list("tool_calls") {
        ensure_id(&call);
    }
}

/// Adds an id to a tool call that has none. Returns `true` if an id was added.
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
    fn tool_calls_are_parsed_and_written() {
        let message = Json::from([("tool_calls", vec![call(r#"{"city":"Bonn"}"#).to_json()].into())]);
        let calls = ModelCall::all(&message);
        assert_eq!(calls, [call(r#"{"city":"Bonn"}"#)]);
        assert_eq!(calls[0].parse().unwrap().text("city").unwrap(), "Bonn");
        assert_eq!(ModelCall::all(&Json::object()), []);
    }

    #[test]
    fn object_and_absent_arguments_are_accepted() {
        let text = br#"{"tool_calls":[{"id":"","function":{"name":"a","arguments":{"b":1}}}]}"#;
        let message = Json::parse(text).unwrap();
        assert_eq!(ModelCall::all(&message)[0].arguments, r#"{"b":1}"#);
        assert_eq!(call(" ").parse().unwrap(), Json::object());
        ensure_ids(&message);
        assert!(ModelCall::all(&message)[0].id.starts_with("call_"));
    }

    #[test]
    fn complete_calls_without_arguments_have_an_empty_object() {
        let text = br#"{"tool_calls":[{"id":"a","function":{"name":"f","arguments":""}},{"id":"a","custom":{"name":"g"}}]}"#;
        let message = Json::parse(text).unwrap();
        tidy_all(&message).unwrap();
        let calls = ModelCall::all(&message);
        assert_eq!((&*calls[0].arguments, &*calls[1].arguments), ("{}", ""));
        assert_ne!(calls[0].id, calls[1].id);
    }

    #[test]
    fn invalid_arguments_are_explained_to_the_model() {
        let cut = call(r#"{"city":"Bo"#).parse().unwrap_err().to_string();
        assert!(
            cut.starts_with("invalid arguments for weather: expected one complete JSON object: EOF"),
            "{cut}"
        );
        let list = call("[1]").parse().unwrap_err().to_string();
        assert!(list.contains("a key for each argument, got array"), "{list}");
    }
}
