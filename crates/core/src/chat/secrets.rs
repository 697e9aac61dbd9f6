//! The thoughts that a service signed or encrypted for itself: no other service reads them, and most refuse them.

use super::content_blocks::CONTENT_BLOCKS;
use super::items;
use compact_str::CompactString;
use valvehouse_json::{Json, Object};

/// Returns the secret of a block or item of thinking: its signature or its encrypted content.
fn of_block(block: &Json) -> Option<CompactString> {
    let item = items::of_block(block);
    let (holder, name) = match &*item.as_ref().unwrap_or(block).text_or_empty("type") {
        "thinking" => (block, "signature"),
        "redacted_thinking" => (block, "data"),
        "reasoning" => (item.as_ref()?, "encrypted_content"),
        _ => return None,
    };
    holder.text(name).filter(|secret| !secret.is_empty())
}

/// Returns the secrets of a message of a model.
pub fn of_message(message: &Json) -> Vec<CompactString> {
    message.list(CONTENT_BLOCKS).iter().filter_map(of_block).collect()
}

/// Returns a message without the secrets for which a function returns `true`: a block that has nothing else goes, and
/// thinking stays as text. Returns `None` if a message has none.
pub fn without(message: &Json, is_foreign: &dyn Fn(&str) -> bool) -> Option<Json> {
    let blocks = message.get(CONTENT_BLOCKS)?.items();
    let goes = |block: &&Json| of_block(block).is_some_and(|secret| is_foreign(&secret));
    if !blocks.iter().any(|block| goes(&block)) {
        return None;
    }
    let left = blocks.iter().filter_map(|block| match goes(&block) {
        false => Some(block.clone()),
        true if block.is_text("type", "thinking") => {
            let others = block.entries().into_iter().filter(|(key, _)| key != "signature");
            Some(others.collect::<Object>().into())
        }
        true => None,
    });
    let left: Json = left.collect::<Vec<_>>().into();
    let fields = message.entries().into_iter().map(|(key, value)| match key == CONTENT_BLOCKS {
        true => (key, left.clone()),
        false => (key, value),
    });
    Some(fields.collect::<Object>().into())
}
