//! The schemas of conversations with what the routes add to them.
#![expect(dead_code, reason = "their JSON is put together in the handlers")]

use crate::api::AnyObject;
use schemars::JsonSchema;
use serde_json::Value;
use valvehouse_agent::{CheckpointFacts, ConversationFacts, RunFacts};

/// A conversation with some of its messages.
#[derive(JsonSchema)]
pub(super) struct ConversationMessages {
    #[serde(flatten)]
    conversation: ConversationFacts,
    /// The newest run, or null.
    run: Option<RunFacts>,
    /// The number of the first returned message.
    from: u64,
    /// The number after the last returned message.
    to: u64,
    full_messages: Vec<AnyObject>,
}

/// A saved step with the state of its run.
#[derive(JsonSchema)]
pub(super) struct SavedCheckpoint {
    #[serde(flatten)]
    checkpoint: CheckpointFacts,
    state: Value,
}
