//! Answers of servers that the library cannot read. They are read where they are unambiguous, and otherwise fail
//! their calls, which would wait for them until their time limit.

use futures::{StreamExt as _, TryStreamExt as _};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream,
};
use valvehouse_json::without_lone_surrogates;

/// The maximum length of a line, beyond which the library drops it.
const MAX_LINE: u64 = 16 << 20;
/// The bytes of lines that wait for the library.
const BUFFER: usize = 64 << 10;
/// The JSON-RPC code of an internal error.
const INTERNAL: i32 = -32603;
/// The numbers of other languages that JSON lacks.
const NO_NUMBERS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// Returns an answer in place of one that cannot be read; `None` for any other message.
fn repaired(message: &[u8]) -> Option<String> {
    if serde_json::from_slice::<ServerJsonRpcMessage>(message).is_ok() {
        return None;
    }
    let whole = without_lone_surrogates(message);
    let text = String::from_utf8_lossy(whole.as_deref().unwrap_or(message));
    let answer: Value = serde_json::from_str(&as_json(text.trim_start_matches('\u{feff}'))).ok()?;
    let given = |key: &str| answer.get(key).filter(|value| !value.is_null());
    let id = given("id").filter(|_| given("method").is_none())?;
    let (key, value) = match (given("error"), answer.get("result")) {
        (None, Some(result)) => ("result", result.clone()),
        (error, _) => ("error", failure(error.unwrap_or(&Value::Null))),
    };
    let repaired = json!({ "jsonrpc": "2.0", "id": id, key: value });
    serde_json::from_value::<ServerJsonRpcMessage>(repaired.clone()).ok()?;
    tracing::debug!("repaired an answer of an MCP server that is not valid JSON-RPC");
    Some(repaired.to_string())
}

/// Returns an error in the form of JSON-RPC.
fn failure(error: &Value) -> Value {
    let code = error["code"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(INTERNAL);
    let message = match [&error["message"], error].into_iter().find_map(Value::as_str) {
        Some(message) => message.to_owned(),
        None if error.is_null() => "the answer has neither a result nor an error".to_owned(),
        None => error.to_string(),
    };
    json!({ "code": code, "message": message })
}

/// Returns a text in which `null` replaces numbers that JSON lacks, and a space raw control characters in texts.
fn as_json(text: &str) -> String {
    let (mut out, mut rest, mut is_text) = (String::with_capacity(text.len()), text, false);
    while let Some(letter) = rest.chars().next() {
        let number = NO_NUMBERS.iter().find(|number| !is_text && rest.starts_with(**number));
        let (length, written) = match (letter, number) {
            (_, Some(number)) => (number.len(), Some("null")),
            ('\\', _) => (1 + rest[1..].chars().next().map_or(0, char::len_utf8), None),
            ('\0'..' ', _) => (1, Some(" ")),
            _ => (letter.len_utf8(), None),
        };
        is_text ^= letter == '"';
        let (taken, more) = rest.split_at(length);
        out.push_str(written.unwrap_or(taken));
        rest = more;
    }
    out
}

/// Passes the lines of a program on, repaired.
pub(super) fn repaired_lines(output: impl AsyncRead + Unpin + Send + 'static) -> DuplexStream {
    let (mut to, from) = tokio::io::duplex(BUFFER);
    tokio::spawn(async move {
        let (mut output, mut is_start) = (BufReader::new(output), true);
        loop {
            let mut line = Vec::new();
            let read = (&mut output).take(MAX_LINE).read_until(b'\n', &mut line).await;
            if read.is_err() || line.is_empty() {
                return;
            }
            // A part of a line that is too long has no repair.
            let (was_start, ends) = (is_start, line.ends_with(b"\n"));
            is_start = ends;
            if let Some(repaired) = Some(&line).filter(|_| was_start && ends).and_then(|line| repaired(line))
            {
                line = format!("{repaired}\n").into_bytes();
            }
            if to.write_all(&line).await.is_err() {
                return;
            }
        }
    });
    from
}

/// An HTTP client of which the events are repaired.
#[derive(Clone)]
pub(super) struct RepairingClient<C>(pub(super) C);

type Headers = HashMap<http::HeaderName, http::HeaderValue>;
type Failure<C> = StreamableHttpError<<C as StreamableHttpClient>::Error>;

impl<C: StreamableHttpClient + Sync> StreamableHttpClient for RepairingClient<C> {
    type Error = C::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure<C>> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, token, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure<C>> {
        let answer = self.0.post_message_with_response_limits(uri, message, session, token, headers, limits);
        Ok(match answer.await? {
            StreamableHttpPostResponse::Sse(events, session) => {
                StreamableHttpPostResponse::Sse(repaired_events(events), session)
            }
            answer => answer,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure<C>> {
        self.0.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<BoxedSseResponse, Failure<C>> {
        self.0.get_stream(uri, session, last, token, headers).await.map(repaired_events)
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        token: Option<String>,
        headers: Headers,
        max: usize,
    ) -> Result<BoxedSseResponse, Failure<C>> {
        let events = self.0.get_stream_with_max_sse_event_size(uri, session, last, token, headers, max);
        events.await.map(repaired_events)
    }
}

fn repaired_events(events: BoxedSseResponse) -> BoxedSseResponse {
    let events = events.map_ok(|mut event| {
        let repaired = event.data.as_ref().and_then(|data| repaired(data.as_bytes()));
        event.data = repaired.or(event.data);
        event
    });
    events.boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &str) -> Value {
        serde_json::from_str(&repaired(message.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn unreadable_answers_are_read_or_end_their_calls() {
        let nan = r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"NaN \" ok"}],"structuredContent":{"x":NaN,"y":[-Infinity]}}}"#;
        assert_eq!(read(nan)["result"]["structuredContent"], json!({ "x": null, "y": [null] }));
        assert_eq!(read(nan)["result"]["content"][0]["text"], "NaN \" ok");
        let half = r#"{"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"text","text":"\\ud83d a\ud83d b \ud83d\ude00"}]}}"#;
        assert_eq!(read(half)["result"]["content"][0]["text"], "\\ud83d a\u{fffd} b \u{1f600}");
        let both = r#"{"jsonrpc":"2.0","id":7,"result":{"content":[]},"error":null}"#;
        assert_eq!(read(both), json!({ "jsonrpc": "2.0", "id": 7, "result": { "content": [] } }));
        let error =
            |error: &str| read(&format!(r#"{{"jsonrpc":"2.0","id":7,"error":{error}}}"#))["error"].clone();
        assert_eq!(error(r#""boom""#), json!({ "code": INTERNAL, "message": "boom" }));
        assert_eq!(
            error(r#"{"code":"E1","message":"boom"}"#),
            json!({ "code": INTERNAL, "message": "boom" })
        );
        assert_eq!(error(r#"{"reason":1}"#), json!({ "code": INTERNAL, "message": r#"{"reason":1}"# }));
        assert!(error("null")["message"].as_str().unwrap().contains("neither"));
        for other in [
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":NaN,"data":1}}"#,
            "[INFO] {not json}",
        ] {
            assert_eq!(repaired(other.as_bytes()), None, "{other}");
        }
    }

    #[tokio::test]
    async fn lines_are_repaired_and_others_pass() {
        let sent = b"Starting\n{\"id\":1,\"result\":NaN}\n{\"id\":2,";
        let mut passed = String::new();
        repaired_lines(&sent[..]).read_to_string(&mut passed).await.unwrap();
        let lines: Vec<&str> = passed.split('\n').collect();
        assert_eq!((lines[0], lines[2]), ("Starting", "{\"id\":2,"));
        assert_eq!(serde_json::from_str::<Value>(lines[1]).unwrap()["result"], Value::Null);
    }
}
