//! The response of a stream of OpenAI's Responses API.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A response that is assembled from events.
#[derive(Debug, Default)]
pub(crate) struct ReceivedResponse {
    /// The response of the last event.
    pub(crate) response: Value,
    /// The code and the message of an error.
    pub(crate) error: Option<Value>,
    /// The events that plugins emitted.
    pub(crate) emitted: Vec<Value>,
}

/// An item that is assembled from events: as it began, its texts, and as it ended.
struct ReceivedItem {
    begun: Value,
    texts: Texts,
    done: Option<Value>,
}

/// The texts of an item by kind and place.
type Texts = BTreeMap<(String, u64), String>;

impl ReceivedResponse {
    /// Assembles the response. Panics unless the events are numbered without gaps and all have the same response id,
    /// each item has its own place and id, starts before its deltas, equals them and ends once, and the last event
    /// contains all items.
    #[track_caller]
    pub(crate) fn of(events: &[(String, Value)]) -> Self {
        let mut received = Self::default();
        let kinds: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(kinds[..2], ["response.created", "response.in_progress"], "{kinds:?}");
        let id = &events[0].1["response"]["id"];
        let mut items: Vec<ReceivedItem> = Vec::new();
        for (number, (name, event)) in events.iter().enumerate() {
            assert_eq!((&event["type"], &event["sequence_number"]), (&json!(name), &json!(number)));
            assert!(received.response.is_null(), "{name} after the end: {kinds:?}");
            if let Some(response) = event.get("response") {
                assert_eq!(&response["id"], id, "{name}");
            }
            match name.as_str() {
                "response.output_item.added" => begin(&mut items, event),
                "error" => received.error = Some(event.clone()),
                "valvehouse:event" => received.emitted.push(event["event"].clone()),
                "response.completed" | "response.incomplete" | "response.failed" => {
                    received.response = event["response"].clone();
                }
                _ => grow(&mut items, name, event),
            }
        }
        let done = items.into_iter().map(|item| item.done.expect("each item ends")).collect::<Vec<_>>();
        assert_eq!(received.response["output"], json!(done), "a response ends with its items: {kinds:?}");
        let is_failed = received.response["status"] == "failed";
        assert_eq!(received.error.is_some(), is_failed, "{kinds:?}");
        received
    }
}

fn begin(items: &mut Vec<ReceivedItem>, event: &Value) {
    let begun = event["item"].clone();
    assert_eq!(event["output_index"], items.len(), "items have places of their own");
    // Items that only their service can read keep its ids, which are the same in each round here.
    let is_foreign = begun["id"].as_str().is_some_and(|id| matches!(&id[..3], "ws_" | "rs_"));
    let is_new = items.iter().all(|item| item.begun["id"] != begun["id"]);
    assert!(is_new || is_foreign, "items have ids of their own: {begun}");
    items.push(ReceivedItem { begun, texts: Texts::new(), done: None });
}

/// Adds an event to its item, if it belongs to one.
fn grow(items: &mut [ReceivedItem], name: &str, event: &Value) {
    let Some(place) = event["output_index"].as_u64() else { return };
    let item = items.get_mut(usize::try_from(place).unwrap()).expect("an item begins before it grows");
    assert_eq!(item.done, None, "{name} follows the end of its item");
    let own = event.get("item_id").unwrap_or(&event["item"]["id"]);
    assert_eq!(*own, item.begun["id"], "{name}");
    if name == "response.output_item.done" {
        let done = &event["item"];
        assert_eq!(done["call_id"], item.begun["call_id"]);
        assert_eq!(texts_of(done), item.texts, "the deltas are the texts of {done}");
        item.done = Some(done.clone());
    } else if let Some(kind) = name.strip_prefix("response.").and_then(|name| name.strip_suffix(".delta")) {
        let index = ["content_index", "summary_index"].into_iter().find_map(|key| event[key].as_u64());
        let more = event["delta"].as_str().expect("a text");
        assert!(!more.is_empty(), "an empty delta: {event}");
        *item.texts.entry((kind.to_owned(), index.unwrap_or(0))).or_default() += more;
    }
}

/// Returns the texts of a whole item that are not empty.
fn texts_of(item: &Value) -> Texts {
    let mut texts = Texts::new();
    let mut add = |kind: &str, index: usize, text: &Value| {
        if let Some(text) = text.as_str().filter(|text| !text.is_empty()) {
            texts.insert((kind.to_owned(), index as u64), text.to_owned());
        }
    };
    for (list, prefix) in [("content", ""), ("summary", "reasoning_")] {
        for (index, part) in item[list].as_array().into_iter().flatten().enumerate() {
            let kind = part["type"].as_str().expect("a part has a type");
            add(&format!("{prefix}{kind}"), index, part.get("refusal").unwrap_or(&part["text"]));
        }
    }
    add("function_call_arguments", 0, &item["arguments"]);
    add("custom_tool_call_input", 0, &item["input"]);
    texts
}
