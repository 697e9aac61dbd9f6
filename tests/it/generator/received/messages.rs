//! The message of a stream of Anthropic's API.

use serde_json::{Value, json};

/// A message that is assembled from events.
#[derive(Debug, Default)]
pub(crate) struct ReceivedMessage {
    pub(crate) blocks: Vec<Value>,
    /// The stop reason and the fields beside it.
    pub(crate) ending: Value,
    pub(crate) usage: Value,
    pub(crate) error: Option<Value>,
    /// The events that plugins emitted.
    pub(crate) emitted: Vec<Value>,
}

impl ReceivedMessage {
    /// Assembles the message. Panics if a block begins before the end of another, grows outside of its limits or has
    /// another place, if an event follows the end, or if there is neither an end nor an error.
    #[track_caller]
    pub(crate) fn of(events: &[Value]) -> Self {
        let mut message = Self::default();
        let (mut open, mut input, mut is_ended) = (None, String::new(), false);
        for event in events {
            assert!(!is_ended, "an event after the end: {event}");
            let (index, place) = (event["index"].as_u64(), message.blocks.len() as u64);
            match event["type"].as_str().unwrap_or_default() {
                "message_start" => message.usage = event["message"]["usage"].clone(),
                "content_block_start" => {
                    assert_eq!((open, index), (None, Some(place)), "{event}");
                    open = index;
                    input.clear();
                    message.blocks.push(event["content_block"].clone());
                }
                "content_block_delta" => {
                    assert!(open.is_some() && open == index, "{event}");
                    grow(message.blocks.last_mut().unwrap(), &mut input, &event["delta"]);
                }
                "content_block_stop" => {
                    assert!(open.take().is_some_and(|open| Some(open) == index), "{event}");
                    if !input.is_empty() {
                        // A service may end inside a call.
                        let input = serde_json::from_str(&input).unwrap_or_else(|_| json!(input));
                        message.blocks.last_mut().unwrap()["input"] = input;
                    }
                }
                "message_delta" => {
                    message.ending = event["delta"].clone();
                    for (key, count) in event["usage"].as_object().into_iter().flatten() {
                        message.usage[key] = count.clone();
                    }
                }
                "message_stop" => is_ended = true,
                "error" => message.error = Some(event["error"].clone()),
                _ => message.emitted.extend(event.get("event").cloned()),
            }
        }
        assert!(message.error.is_some() != is_ended, "one end or one error: {events:?}");
        assert!(message.error.is_some() || open.is_none(), "a block has no end: {events:?}");
        message
    }
}

/// Adds a delta to a block. The input of a call is assembled separately.
fn grow(block: &mut Value, input: &mut String, delta: &Value) {
    for (key, more) in delta.as_object().unwrap().iter().filter(|(key, _)| *key != "type") {
        match (key.as_str(), more) {
            ("partial_json", _) => input.push_str(more.as_str().unwrap()),
            ("citation", _) => match block["citations"].as_array_mut() {
                Some(citations) => citations.push(more.clone()),
                None => block["citations"] = json!([more]),
            },
            (_, Value::String(more)) => {
                block[key] = json!([block[key].as_str().unwrap_or_default(), more].concat());
            }
            _ => block[key] = more.clone(),
        }
    }
}
