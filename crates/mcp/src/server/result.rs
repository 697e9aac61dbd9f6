//! Conversion of a tool's value to a result of MCP.

use rmcp::model::{CallToolResult, ContentBlock, GetPromptResult, ReadResourceResult, ResultType};
use serde_json::{Value, json};
use valvehouse_core::error::Error;
use valvehouse_json::Json;

/// The content types of MCP.
const CONTENT: [&str; 5] = ["text", "image", "audio", "resource", "resource_link"];

/// Converts a tool's value. `#{ content: […], structuredContent, isError }` is passed on as a result of MCP,
/// and a text as text. Any other value is encoded as JSON; an object is also the structured content.
pub(super) fn of_tool(value: &Json, has_schema: bool) -> CallToolResult {
    let plain = Value::from(value);
    if is_result(&plain) {
        match serde_json::from_value::<CallToolResult>(plain.clone()) {
            Ok(mut result) => {
                result.result_type = Some(ResultType::COMPLETE);
                return result;
            }
            Err(error) => {
                return failure(format!("the tool returned content that is not valid in MCP: {error}"));
            }
        }
    }
    if plain.get("type").is_some_and(is_content_type)
        && let Ok(content) = serde_json::from_value::<ContentBlock>(plain.clone())
    {
        return CallToolResult::success(vec![content]);
    }
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    if plain.is_object() || has_schema && !plain.is_null() {
        result.structured_content = Some(plain);
    }
    result
}

/// Returns a failure for the client's model.
pub(super) fn failure(message: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message)])
}

fn is_result(value: &Value) -> bool {
    let blocks = value.get("content").and_then(Value::as_array);
    blocks.is_some_and(|blocks| blocks.iter().all(|block| block.get("type").is_some_and(is_content_type)))
}

fn is_content_type(word: &Value) -> bool {
    word.as_str().is_some_and(|word| CONTENT.contains(&word))
}

/// Converts a prompt's value. A text is one message of the user; a list has messages, or texts of the user; a
/// map has `messages` and `description`.
pub(super) fn of_prompt(value: &Json, described: &Json) -> Result<GetPromptResult, String> {
    let given = Value::from(value);
    let (messages, description) = match &given {
        Value::Object(map) if map.contains_key("messages") => {
            (map["messages"].clone(), map.get("description").cloned())
        }
        other => (other.clone(), None),
    };
    let messages: Vec<Value> = match messages {
        Value::Array(messages) => messages.into_iter().map(message).collect(),
        one => vec![message(one)],
    };
    let description = description.or_else(|| described.text("description").map(|text| json!(text.as_str())));
    let mut result = json!({ "messages": messages });
    if let Some(description) = description {
        result["description"] = description;
    }
    let result = serde_json::from_value::<GetPromptResult>(result);
    let mut result = result.map_err(|error| {
        format!("invalid result of the prompt: expected a list of `#{{ role, content }}`: {error}")
    })?;
    result.result_type = Some(ResultType::COMPLETE);
    Ok(result)
}

fn message(given: Value) -> Value {
    let text = |text: String| json!({ "type": "text", "text": text });
    match given {
        Value::String(words) => json!({ "role": "user", "content": text(words) }),
        Value::Object(mut map) if map.contains_key("content") => {
            map.entry("role").or_insert_with(|| json!("user"));
            if let Some(Value::String(words)) = map.get("content").cloned() {
                map.insert("content".into(), text(words));
            }
            Value::Object(map)
        }
        // A content block without a role.
        Value::Object(map) if map.get("type").is_some_and(is_content_type) => {
            json!({ "role": "user", "content": map })
        }
        other => other,
    }
}

/// Converts a resource's value: a text, `#{ text | blob, mimeType }`, a list of those, or any other value as
/// JSON. Returns `None` if the resource does not exist.
pub(super) fn of_resource(
    value: &Json,
    uri: &str,
    mime: Option<&str>,
) -> Option<Result<ReadResourceResult, String>> {
    let given = Value::from(value);
    let contents = match given {
        Value::Null => return None,
        Value::Object(map) if map.get("contents").is_some_and(Value::is_array) => map["contents"].clone(),
        other => other,
    };
    let one = |given: Value| {
        let mut content = match given {
            Value::String(text) => json!({ "text": text, "mimeType": mime.unwrap_or("text/plain") }),
            Value::Object(map) if map.contains_key("text") || map.contains_key("blob") => Value::Object(map),
            other => json!({ "text": other.to_string(), "mimeType": "application/json" }),
        };
        if content.get("uri").is_none() {
            content["uri"] = json!(uri);
        }
        if let (None, Some(mime)) = (content.get("mimeType"), mime) {
            content["mimeType"] = json!(mime);
        }
        content
    };
    let is_part = |part: &Value| part.get("text").is_some() || part.get("blob").is_some();
    let contents: Vec<Value> = match contents {
        Value::Array(parts) if !parts.is_empty() && parts.iter().all(is_part) => {
            parts.into_iter().map(one).collect()
        }
        other => vec![one(other)],
    };
    let result = serde_json::from_value::<ReadResourceResult>(json!({ "contents": contents }));
    let complete = |mut result: ReadResourceResult| {
        result.result_type = Some(ResultType::COMPLETE);
        result
    };
    Some(
        result
            .map(complete)
            .map_err(|error| format!("the resource returned content that is not valid in MCP: {error}")),
    )
}

/// Returns the message of an error for a client. Details for operators are only logged.
pub(super) fn words(error: &Error) -> String {
    match error {
        Error::Rejected(rejection) => rejection.message.clone(),
        Error::Request { message, .. } | Error::TooOften { message, .. } | Error::TooBusy { message, .. } => {
            message.clone()
        }
        Error::Broken(failure) => {
            format!(
                "the plugin `{}` failed in its {}; the host's log has the reason",
                failure.plugin, failure.hook
            )
        }
        Error::Unguarded { message, .. } => message.clone(),
        Error::Paused => "this call needs the approval of a user, and this client does not support elicitation: approve it elsewhere, or use a client with elicitation".into(),
        Error::Host(_) => "the host failed; the host's log has the reason".into(),
        Error::Provider { message, .. } | Error::Unanswered { message, .. } | Error::Unstored { message, .. } | Error::BreakerOpen { message, .. } => {
            message.public().into()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(text: &str) -> Value {
        serde_json::to_value(of_tool(&Json::parse(text.as_bytes()).unwrap(), false)).unwrap()
    }

    #[test]
    fn a_value_becomes_text_and_structured_content() {
        assert_eq!(tool("\"hi\"")["content"], json!([{ "type": "text", "text": "hi" }]));
        assert_eq!(tool("\"hi\"").get("structuredContent"), None);
        assert_eq!(tool(r#"{"a": 1}"#)["structuredContent"], json!({ "a": 1 }));
        assert_eq!(tool(r#"{"a": 1}"#)["content"][0]["text"], "{\"a\":1}");
        let image = tool(
            r#"{"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}], "isError": true}"#,
        );
        assert_eq!(
            (&image["content"][0]["mimeType"], &image["isError"]),
            (&json!("image/png"), &json!(true))
        );
        // A field with that name in a tool's value is data.
        assert_eq!(tool(r#"{"content": ["x"]}"#)["structuredContent"], json!({ "content": ["x"] }));
        let wrong = tool(r#"{"content": [{"type": "image"}]}"#);
        assert_eq!(wrong["isError"], true, "{wrong}");
    }

    #[test]
    fn prompts_and_resources_are_written_shortly() {
        let prompt = |text: &str| {
            let value = Json::parse(text.as_bytes()).unwrap();
            serde_json::to_value(of_prompt(&value, &Json::object()).unwrap()).unwrap()["messages"].clone()
        };
        assert_eq!(
            prompt("\"hi\""),
            json!([{ "role": "user", "content": { "type": "text", "text": "hi" } }])
        );
        assert_eq!(prompt(r#"[{"role": "assistant", "content": "x"}]"#)[0]["content"]["text"], "x");
        assert!(of_prompt(&Json::from(5_i64), &Json::object()).is_err());
        let resource = |text: &str| {
            let value = Json::parse(text.as_bytes()).unwrap();
            of_resource(&value, "n://1", None)
                .map(|result| serde_json::to_value(result.unwrap()).unwrap()["contents"][0].clone())
        };
        assert_eq!(
            resource("\"hi\"").unwrap(),
            json!({ "uri": "n://1", "text": "hi", "mimeType": "text/plain" })
        );
        assert_eq!(resource(r#"{"blob": "aGk="}"#).unwrap()["blob"], "aGk=");
        assert_eq!(resource("[1]").unwrap()["text"], "[1]");
        assert!(resource("null").is_none());
    }
}
