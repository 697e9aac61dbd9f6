//! The schemas of runs and conversations, whose JSON `valvehouse_agent` writes.
#![expect(dead_code, reason = "they describe JSON that is written elsewhere; a test compares both")]

use crate::api::AnyObject;
use schemars::JsonSchema;
use serde_json::Value;

/// A run of an agent.
#[derive(JsonSchema)]
pub(super) struct Run {
    run_id: String,
    /// The id of the conversation.
    chat_id: String,
    /// The name of the model; empty if the conversation was deleted.
    agent: String,
    #[schemars(extend("enum" = ["running", "paused", "done", "failed", "cancelled", "interrupted"]))]
    status: String,
    /// The number of steps.
    step: u64,
    /// The question that the run waits for, or null.
    pending_action: Value,
    error: Option<String>,
    /// The time in milliseconds since 1970.
    created_at: i64,
    /// The time in milliseconds since 1970.
    updated_at: i64,
}

/// The complete state of a run.
#[derive(JsonSchema)]
pub(super) struct RunState {
    #[serde(flatten)]
    run: Run,
    /// The tool call in progress, or null.
    in_flight: Value,
    /// The messages that the model receives.
    messages: Vec<AnyObject>,
    /// All messages of the conversation.
    full_messages: Vec<AnyObject>,
    system_prompt: Option<String>,
    /// The tools that the model receives.
    tools: Vec<AnyObject>,
    max_iterations: Option<u64>,
    iteration: u64,
    scratchpad: Vec<Value>,
    /// The listeners of each callback.
    callbacks: AnyObject,
    callback_meta: AnyObject,
    last_content: Option<String>,
    tool_calls: Vec<Value>,
    tool_results: Vec<Value>,
    finish_reason: Option<String>,
    last_response: Value,
    /// The variables of the turn.
    context: AnyObject,
    compression_applied: bool,
    conversation_summary: Option<String>,
}

/// A conversation with an agent.
#[derive(JsonSchema)]
pub(super) struct Conversation {
    chat_id: String,
    /// The name of the model.
    agent: String,
    /// The number of messages.
    length: u64,
    /// The user who owns the conversation, or null.
    user: Value,
    conversation_summary: Value,
    forked_from: Option<ForkOrigin>,
    /// The time in milliseconds since 1970.
    created_at: i64,
    /// The time in milliseconds since 1970.
    updated_at: i64,
}

/// The conversation that a conversation was forked from.
#[derive(JsonSchema)]
pub(super) struct ForkOrigin {
    chat_id: String,
    /// The number of messages that both conversations share.
    length: u64,
}

/// A conversation with some of its messages.
#[derive(JsonSchema)]
pub(super) struct ConversationMessages {
    #[serde(flatten)]
    conversation: Conversation,
    /// The newest run, or null.
    run: Option<Run>,
    /// The number of the first returned message.
    from: u64,
    /// The number after the last returned message.
    to: u64,
    full_messages: Vec<AnyObject>,
}

/// A saved step of a run.
#[derive(JsonSchema)]
pub(super) struct Checkpoint {
    checkpoint_id: String,
    chat_id: String,
    run_id: String,
    step: u64,
    name: String,
    /// The number of messages at that time.
    length: u64,
    /// The time in milliseconds since 1970.
    saved_at: i64,
}

/// A saved step with the state of its run.
#[derive(JsonSchema)]
pub(super) struct SavedCheckpoint {
    #[serde(flatten)]
    checkpoint: Checkpoint,
    state: Value,
}

/// A run with its answer.
#[derive(JsonSchema)]
pub(super) struct Outcome {
    run_id: String,
    chat_id: String,
    status: String,
    /// The text of the answer, or null.
    answer: Option<String>,
    /// The question that the run waits for, or null.
    pending_action: Value,
    error: Option<String>,
    /// The answer as a chat completion, or null.
    response: Value,
}
