//! The chat endpoints: requests in the format of each.

use crate::host::{Answer, TestHost};
use serde_json::{Value, json};

/// The chat endpoints.
pub(crate) const ENDPOINTS: [&str; 4] =
    ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/chat"];

/// Returns a chat of one message in the format of an endpoint.
pub(crate) fn asking(endpoint: &str, model: &str, text: &str, stream: bool) -> Value {
    let messages = json!([{"role": "user", "content": text}]);
    match endpoint {
        "/v1/responses" => json!({"model": model, "stream": stream, "input": text}),
        "/v1/messages" => {
            json!({"model": model, "stream": stream, "messages": messages, "max_tokens": 64})
        }
        _ => json!({"model": model, "stream": stream, "messages": messages}),
    }
}

/// Sends a body to an endpoint.
pub(crate) async fn post(host: &TestHost, endpoint: &str, body: &Value) -> Answer {
    let request = host.request("POST", endpoint).header("content-type", "application/json");
    Answer::of(request.header("anthropic-version", "2023-06-01").body(body.to_string())).await
}
