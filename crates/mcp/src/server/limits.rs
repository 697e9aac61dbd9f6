//! Limits of the texts in requests, and of the parts of a message that outlive its response.
//!
//! A session or a standing stream retains the id of a request, its progress token, the facts about the
//! client, and the resources that it subscribes to. Each of them is limited before it is retained.

use rmcp::ErrorData;
use serde::Deserialize;
use serde_json::Value;

/// The maximum length of a resource's URI, in characters.
pub(super) const MAX_URI: usize = 2_048;
/// The maximum length of a name, request id, progress token or method, in characters.
const MAX_NAME: usize = 256;
/// The maximum length of a cursor, in characters.
const MAX_CURSOR: usize = 64 << 10;
/// The maximum size of an `initialize` message in bytes, because its client data is stored for the session.
const MAX_INITIALIZE: usize = 64 << 10;
/// The maximum size of a `subscriptions/listen` message in bytes, because its filter is retained for the
/// stream.
const MAX_LISTEN: usize = 1 << 20;

/// The method that starts a session.
const INITIALIZE: &str = "initialize";
/// The method that opens a standing stream without a session.
const LISTEN: &str = "subscriptions/listen";

/// The parts of a message that are checked before it is parsed completely.
#[derive(Debug, Deserialize)]
pub(super) struct MessageHead {
    #[serde(default)]
    id: Value,
    method: Option<String>,
    params: Option<HeadParams>,
}

#[derive(Debug, Deserialize)]
struct HeadParams {
    #[serde(rename = "_meta")]
    meta: Option<HeadMeta>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadMeta {
    #[serde(default)]
    progress_token: Value,
}

impl MessageHead {
    /// Reads the head of a message, and checks its limits.
    ///
    /// # Errors
    /// Returns the JSON-RPC code and the reason for rejecting the message.
    pub(super) fn read(body: &[u8]) -> Result<Self, (i32, String)> {
        let head: Self = serde_json::from_slice(body).map_err(|error| {
            (
                -32_700,
                format!("cannot read the message: {error}; send one JSON-RPC message with params of MCP"),
            )
        })?;
        let invalid = |message: String| Err((-32_600, message));
        for (what, value) in [("id", Some(&head.id)), ("_meta.progressToken", head.progress_token())] {
            let Some(value) = value else { continue };
            match value {
                Value::Null | Value::Number(_) => {}
                Value::String(text) if text.chars().count() <= MAX_NAME => {}
                Value::String(_) => {
                    return invalid(format!("`{what}` exceeded its limit of {MAX_NAME} characters"));
                }
                _ => return invalid(format!("invalid `{what}`: expected a string or a number")),
            }
        }
        // A response of the client has no method.
        let Some(method) = head.method.as_deref() else { return Ok(head) };
        if method.chars().count() > MAX_NAME {
            return invalid(format!("`method` exceeded its limit of {MAX_NAME} characters"));
        }
        let max = match method {
            INITIALIZE => MAX_INITIALIZE,
            LISTEN => MAX_LISTEN,
            _ => usize::MAX,
        };
        if body.len() > max {
            return invalid(format!("the message `{method}` exceeded its limit of {} KiB", max >> 10));
        }
        Ok(head)
    }

    /// Returns `true` if the message starts a session.
    pub(super) fn is_initialize(&self) -> bool {
        self.method.as_deref() == Some(INITIALIZE)
    }

    /// Returns `true` if the message opens a standing stream.
    pub(super) fn is_listen(&self) -> bool {
        self.method.as_deref() == Some(LISTEN)
    }

    fn progress_token(&self) -> Option<&Value> {
        self.params.as_ref()?.meta.as_ref().map(|meta| &meta.progress_token)
    }
}

/// Checks the URI of a request.
///
/// # Errors
/// Returns a protocol error if it is too long.
pub(super) fn check_uri(uri: &str) -> Result<(), ErrorData> {
    check("uri", uri, MAX_URI)
}

/// Checks a name of a request.
///
/// # Errors
/// Returns a protocol error if it is too long.
pub(super) fn check_name(name: &str) -> Result<(), ErrorData> {
    check("name", name, MAX_NAME)
}

/// Checks a cursor.
///
/// # Errors
/// Returns a protocol error if it is too long.
pub(super) fn check_cursor(cursor: &str) -> Result<(), ErrorData> {
    check("cursor", cursor, MAX_CURSOR)
}

// The text is not part of the error, because the responses of a session are cached.
fn check(what: &str, text: &str, max: usize) -> Result<(), ErrorData> {
    if text.len() > max && text.chars().count() > max {
        return Err(ErrorData::invalid_params(
            format!("`{what}` exceeded its limit of {max} characters"),
            None,
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn stored_parts_of_a_message_are_bounded() {
        let read = |message: Value| MessageHead::read(message.to_string().as_bytes());
        let (long, fits) = ("x".repeat(MAX_NAME + 1), "ä".repeat(MAX_NAME));
        let call = |id: &str, token: &str| {
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
                "arguments": { "text": "x".repeat(3 << 20) }, "_meta": { "progressToken": token } } })
        };
        assert!(read(call(&fits, &fits)).is_ok());
        for (message, part) in [
            (call(&long, ""), "`id`"),
            (call("", &long), "`_meta.progressToken`"),
            (json!({ "id": [1], "method": "ping" }), "`id`"),
            (json!({ "id": 1, "method": long }), "`method`"),
            (
                json!({ "id": 1, "method": "initialize", "params": { "clientInfo": "x".repeat(70_000) } }),
                "64 KiB",
            ),
            (
                json!({ "id": 1, "method": "subscriptions/listen", "params": { "x": "x".repeat(2 << 20) } }),
                "1024 KiB",
            ),
        ] {
            let (code, why) = read(message).unwrap_err();
            assert!(code == -32_600 && why.contains(part), "{code} {why}");
        }
        let spelled = br#"{"id":1,"\u006dethod":"\u0069nitialize"}"#;
        assert!(MessageHead::read(spelled).unwrap().is_initialize());
        // A duplicate field would be checked only once.
        assert!(MessageHead::read(br#"{"id":1,"id":2,"method":"ping"}"#).is_err());
        assert!(MessageHead::read(b"{").is_err_and(|(code, _)| code == -32_700));
    }
}
