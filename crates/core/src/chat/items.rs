//! Items of the Responses API without an equivalent in chats: encrypted reasoning, and calls of the provider's
//! own tools. They are stored unchanged in the blocks of a message and are sent only to providers with the
//! Responses API.

use super::CONTENT_BLOCKS;
use valvehouse_json::Json;

/// The type of a block that holds an item.
pub const ITEM: &str = "response_item";

/// The type of an input item with tools for the rest of the conversation.
pub const ADDITIONAL_TOOLS: &str = "additional_tools";

/// Wraps an item in a block; `calls` is the number of tool calls before the item in its answer.
pub fn block(item: Json, calls: usize) -> Json {
    Json::from([("type", ITEM.into()), ("item", item), ("calls", calls.into())])
}

/// Returns the item in a block; `None` for other blocks.
pub fn of_block(block: &Json) -> Option<Json> {
    let is_item = block.is_text("type", ITEM);
    block.get("item").filter(|item| is_item && item.as_object().is_some())
}

/// Returns the number of tool calls before the item in a block.
pub fn calls_before(block: &Json) -> usize {
    block.integer("calls").and_then(|calls| usize::try_from(calls).ok()).unwrap_or(0)
}

/// Returns the items of a message.
pub fn of(message: &Json) -> Vec<Json> {
    message.list(CONTENT_BLOCKS).iter().filter_map(of_block).collect()
}
