//! Results of tools for services that accept only texts in them.

use super::draft::Draft;
use valvehouse_core::chat::tool_results;

/// Moves images, audio and files out of results.
pub(super) fn write_texts(draft: &mut Draft) {
    let hears = draft.list("modalities").iter().any(|kind| kind.as_str() == Some("audio"));
    if let Some(messages) = tool_results::as_texts(draft.messages(), hears) {
        draft.replace(messages, "messages.content");
    }
}
