//! Routes for conversations and their checkpoints.

use crate::api::{Answer, AnyObject, Body, CheckedBody, JsonOf, List, Path, Query, Reply};
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use valvehouse_agent::{
    CheckpointFacts, ConversationFacts, RunFacts, checkpoint_to_json, conversation_to_json, run_to_json,
};
use valvehouse_core::described;
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_store::{Checkpoint, Conversation, Prune, Run};

/// The default number of listed conversations.
const LISTED: u64 = 50;
/// The maximum number of messages or checkpoints per page.
const PAGE: u64 = 1000;

/// The query of the list of conversations.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ConversationsQuery {
    /// Only conversations with this agent.
    agent: Option<String>,
    /// The maximum number, 50 by default.
    limit: Option<u64>,
}

/// Handles `GET /api/v1/agents/conversations`.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Query(query): Query<ConversationsQuery>,
) -> Answer<List<JsonOf<ConversationFacts>>> {
    let limit = query.limit.unwrap_or(LISTED);
    let all = app.runs.store().conversations(query.agent.as_deref(), limit).await?;
    Ok(List::reply(all.iter().map(|one| conversation_to_json(one).into())))
}

/// The path of a conversation.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ConversationPath {
    /// The id of the conversation.
    #[schemars(example = &"chat-1")]
    chat_id: String,
}

/// The messages to return, at most 1000.
#[derive(Deserialize, JsonSchema)]
pub(super) struct MessagesQuery {
    /// The number of the first message, 0 by default.
    from: Option<u64>,
    /// The number after the last message, all by default.
    to: Option<u64>,
}

/// Handles `GET …/conversations/{chat_id}?from=&to=`: returns the messages without compression.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(ConversationPath { chat_id: id }): Path<ConversationPath>,
    Query(query): Query<MessagesQuery>,
) -> Answer<JsonOf<ConversationMessages>> {
    let conversation = app.runs.conversation(&id).await?;
    let from = query.from.unwrap_or(0).min(conversation.length);
    let to = query.to.unwrap_or(conversation.length);
    let to = to.min(conversation.length).min(from.saturating_add(PAGE)).max(from);
    let store = app.runs.store();
    let messages = store.messages(&id, from, to).await?;
    let newest = store.runs(Some(&id), None, 1).await?;
    Ok(Reply(with_messages(&conversation, newest.first(), from, to, messages).into()))
}

described! {
    /// A conversation with some of its messages.
    pub(super) struct ConversationMessages;
    fn with_messages(of: &Conversation, newest: Option<&Run>, from: u64, to: u64, messages: Vec<Json>) {
        ..conversation: ConversationFacts = conversation_to_json(of),
        /// The newest run, or null.
        run: Option<RunFacts> = newest.map(|run| run_to_json(run, &of.agent)),
        /// The number of the first returned message.
        from: u64 = from,
        /// The number after the last returned message.
        to: u64 = to,
        full_messages: Vec<AnyObject> = messages,
    }
}

/// A deleted conversation.
#[derive(Serialize, JsonSchema)]
pub(super) struct DeletedConversation {
    chat_id: String,
    deleted: bool,
}

/// Handles `DELETE …/conversations/{chat_id}`.
pub(super) async fn forget(
    State(app): State<Arc<App>>,
    Path(ConversationPath { chat_id }): Path<ConversationPath>,
) -> Answer<DeletedConversation> {
    app.runs.forget(&chat_id).await?;
    Ok(Reply(DeletedConversation { chat_id, deleted: true }))
}

/// The maximum length of a list.
#[derive(Deserialize, JsonSchema)]
pub(super) struct LimitQuery {
    /// The maximum number of items, 1000 by default.
    limit: Option<u64>,
}

/// Handles `GET …/conversations/{chat_id}/checkpoints?limit=`: lists the checkpoints without their states,
/// the newest first.
pub(super) async fn checkpoints(
    State(app): State<Arc<App>>,
    Path(ConversationPath { chat_id: id }): Path<ConversationPath>,
    Query(query): Query<LimitQuery>,
) -> Answer<List<JsonOf<CheckpointFacts>>> {
    app.runs.conversation(&id).await?;
    let all = app.runs.store().checkpoints(&id, query.limit.unwrap_or(PAGE)).await?;
    Ok(List::reply(all.iter().map(|one| checkpoint_to_json(one).into())))
}

/// The path of a checkpoint.
#[derive(Deserialize, JsonSchema)]
pub(super) struct CheckpointPath {
    /// The id of the checkpoint.
    id: String,
}

/// Handles `GET /api/v1/agents/checkpoints/{id}`.
pub(super) async fn checkpoint(
    State(app): State<Arc<App>>,
    Path(path): Path<CheckpointPath>,
) -> Answer<JsonOf<SavedCheckpoint>> {
    Ok(Reply(with_state(app.runs.checkpoint(&path.id).await?).into()))
}

described! {
    /// A saved step with the state of its run.
    pub(super) struct SavedCheckpoint;
    fn with_state(checkpoint: Checkpoint) {
        ..checkpoint: CheckpointFacts = checkpoint_to_json(&checkpoint),
        state: serde_json::Value = checkpoint.state,
    }
}

/// The conversation that a fork creates.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Fork {
    /// The id of the new conversation.
    #[schemars(length(min = 1))]
    chat_id: String,
}

/// Handles `POST /api/v1/agents/checkpoints/{id}/fork`.
pub(super) async fn fork(
    State(app): State<Arc<App>>,
    Path(path): Path<CheckpointPath>,
    Body(Fork { chat_id }): Body<Fork>,
) -> Answer<JsonOf<ConversationFacts>> {
    Ok(Reply(conversation_to_json(&app.runs.fork(&path.id, &chat_id).await?).into()))
}

/// Handles `GET …/conversations/{chat_id}/export`.
pub(super) async fn export(
    State(app): State<Arc<App>>,
    Path(ConversationPath { chat_id }): Path<ConversationPath>,
) -> Answer<JsonOf<AnyObject>> {
    Ok(Reply(app.runs.export(&chat_id).await?.into()))
}

/// The query of an import.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ImportQuery {
    /// The id of the imported conversation; by default the exported one.
    chat_id: Option<String>,
}

/// Handles `POST /api/v1/agents/conversations/import?chat_id=`: imports an exported conversation, under its
/// own id or another.
pub(super) async fn import(
    State(app): State<Arc<App>>,
    Query(query): Query<ImportQuery>,
    exported: CheckedBody<AnyObject>,
) -> Answer<JsonOf<ConversationFacts>> {
    let imported = app.runs.import(&exported.0, query.chat_id.as_deref()).await?;
    Ok(Reply(conversation_to_json(&imported).into()))
}

/// The checkpoints to keep.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PruneRequest {
    /// Only checkpoints of this conversation.
    chat_id: Option<String>,
    /// The number of newest runs that keep all checkpoints.
    whole_runs: Option<u64>,
    /// The number of newest runs that keep their last checkpoint.
    runs: Option<u64>,
}

/// The number of deleted checkpoints.
#[derive(Serialize, JsonSchema)]
pub(super) struct PruneResult {
    dropped: u64,
}

/// Handles `POST /api/v1/agents/prune`.
pub(super) async fn prune(
    State(app): State<Arc<App>>,
    Body(request): Body<PruneRequest>,
) -> Answer<PruneResult> {
    let usual = Prune::default();
    let whole_runs = request.whole_runs.unwrap_or(usual.whole_runs);
    let runs = request.runs.unwrap_or(usual.runs.max(whole_runs));
    if let Some(id) = &request.chat_id {
        app.runs.conversation(id).await?;
    }
    let keep = Prune { whole_runs, runs };
    let dropped = app.runs.store().prune(request.chat_id.as_deref(), keep).await?;
    Ok(Reply(PruneResult { dropped }))
}
