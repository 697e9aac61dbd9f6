//! Items of a Responses service that a chat has no words for: reasoning that it encrypted, calls of its own tools. They
//! stand in the blocks of a message, as their service sent them, and only a service of that kind is sent them again.

use crate::anthropic::CONTENT_BLOCKS;
use valvehouse_json::Json;

/// The type of a block that holds an item.
pub const ITEM: &str = "response_item";

/// Returns the block of an item; `calls` is the number of calls before it in its answer.
pub fn block(item: Json, calls: usize) -> Json {
    Json::from([("type", ITEM.into()), ("item", item), ("calls", calls.into())])
}

/// Returns the item of a block.
pub fn of_block(block: &Json) -> Option<Json> {
    let is_item = block.text("type").is_some_and(|kind| kind == ITEM);
    block.get("item").filter(|item| is_item && item.as_object().is_some())
}

/// Returns the items of a message, each with the number of calls before it.
pub fn of(message: &Json) -> Vec<(usize, Json)> {
    let of = |block: &Json| {
        let calls = block.get("calls").and_then(|calls| calls.as_i64());
        let calls = calls.and_then(|calls| usize::try_from(calls).ok()).unwrap_or(0);
        Some((calls, of_block(block)?))
    };
    message.list(CONTENT_BLOCKS).iter().filter_map(of).collect()
}
