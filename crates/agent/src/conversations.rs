//! Management of conversations: reading, branching, export, import and deletion.

use super::memory;
use super::pending::conflict;
use super::saved::RunSnapshot;
use crate::runs::Runs;
use valvehouse_core::described;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_json::Json;
use valvehouse_store::{Checkpoint, Conversation, OWNER, StoreError, StoreErrorKind};

described! {
    /// A conversation with an agent.
    #[cfg(feature = "typed")]
    pub struct ConversationFacts as "Conversation";
    /// Converts a conversation to JSON, without its messages.
    pub fn conversation_to_json(conversation: &Conversation) {
        chat_id: String = conversation.id.as_str(),
        /// The name of the model.
        agent: String = conversation.agent.as_str(),
        /// The number of messages.
        length: u64 = conversation.length,
        /// The user who owns the conversation, or null.
        user: serde_json::Value = conversation.kept.get("user").map(|user| user.deep_clone()),
        conversation_summary: serde_json::Value =
            conversation.kept.at_path("summarization.summary").deep_clone(),
        forked_from: Option<ForkOrigin> = conversation.forked_from.as_ref().map(fork_origin),
        /// The time in milliseconds since 1970.
        created_at: i64 = conversation.created_at,
        /// The time in milliseconds since 1970.
        updated_at: i64 = conversation.updated_at,
    }
}

described! {
    /// The conversation that a conversation was forked from.
    #[cfg(feature = "typed")]
    pub struct ForkOrigin;
    fn fork_origin(origin: &(String, u64)) {
        chat_id: String = origin.0.as_str(),
        /// The number of messages that both conversations share.
        length: u64 = origin.1,
    }
}

described! {
    /// A saved step of a run.
    #[cfg(feature = "typed")]
    pub struct CheckpointFacts as "Checkpoint";
    /// Converts a checkpoint to JSON, without its state.
    pub fn checkpoint_to_json(checkpoint: &Checkpoint) {
        checkpoint_id: String = checkpoint.id.as_str(),
        chat_id: String = checkpoint.conversation.as_str(),
        run_id: String = checkpoint.run.as_str(),
        step: u64 = checkpoint.step,
        name: String = checkpoint.name.as_str(),
        /// The number of messages at that time.
        length: u64 = checkpoint.length,
        /// The time in milliseconds since 1970.
        saved_at: i64 = checkpoint.saved_at,
    }
}

impl Runs {
    /// Returns the conversation of an id.
    ///
    /// # Errors
    /// Returns an error if it does not exist or the store fails.
    pub async fn conversation(&self, id: &str) -> Result<Conversation, Error> {
        let conversation = self.store().conversation(id).await?;
        conversation.ok_or_else(|| {
            missing(format!("unknown conversation `{id}`"), "chat_id", "conversation_not_found")
        })
    }

    /// Returns the checkpoint of an id.
    ///
    /// # Errors
    /// Returns an error if it does not exist or the store fails.
    pub async fn checkpoint(&self, id: &str) -> Result<Checkpoint, Error> {
        let checkpoint = self.store().checkpoint(id).await?;
        checkpoint.ok_or_else(|| {
            let message = format!(
                "unknown checkpoint `{id}`: it may have been deleted; `valvehouse runs checkpoints CHAT` lists them"
            );
            missing(message, "checkpoint_id", "checkpoint_not_found")
        })
    }

    /// Creates a conversation with this id that continues from a checkpoint of another.
    ///
    /// # Errors
    /// Returns an error if the id is empty or in use, if the checkpoint does not exist, or if the store fails.
    pub async fn fork(&self, checkpoint: &str, id: &str) -> Result<Conversation, Error> {
        if id.is_empty() {
            return Err(Error::invalid("missing `chat_id`; name the new conversation", Some("chat_id")));
        }
        let checkpoint = self.checkpoint(checkpoint).await?;
        let saved = RunSnapshot::from_json(&checkpoint.state)?;
        let original = self.conversation(&checkpoint.conversation).await?;
        let messages = self.store().messages(&original.id, 0, checkpoint.length).await?;
        let kept = kept_then(&original, &saved, &messages);
        let forked = self.store().fork(&original.id, checkpoint.length, id, &kept).await;
        if !forked.map_err(refused)? {
            return Err(taken(id));
        }
        self.conversation(id).await
    }

    /// Exports a conversation with all its data as one object.
    ///
    /// # Errors
    /// Returns an error if it does not exist or the store fails.
    pub async fn export(&self, id: &str) -> Result<Json, Error> {
        let exported = self.store().export(id).await?;
        match exported {
            Some(exported) => Ok(exported),
            // The call returns the error for a missing conversation.
            None => self.conversation(id).await.map(|_| Json::Null),
        }
    }

    /// Imports an exported conversation, under its own id or another.
    ///
    /// # Errors
    /// Returns an error if the export is invalid, if the id is in use, or if the store fails.
    pub async fn import(&self, exported: &Json, id: Option<&str>) -> Result<Conversation, Error> {
        let own = exported.text_or_empty("id");
        let id = id.unwrap_or(&own);
        if !self.store().import(exported, Some(id)).await.map_err(refused)? {
            return Err(taken(id));
        }
        self.conversation(id).await
    }

    /// Deletes a conversation with all its data.
    ///
    /// # Errors
    /// Returns an error if it does not exist or the store fails.
    pub async fn forget(&self, id: &str) -> Result<(), Error> {
        if self.store().forget_conversation(id).await? {
            return Ok(());
        }
        self.conversation(id).await.map(drop)
    }
}

/// Returns the stored values of a conversation as they were when it had only these messages.
fn kept_then(original: &Conversation, saved: &RunSnapshot, messages: &[Json]) -> Json {
    let before = Json::object();
    // The values and the object are new, so the writes cannot fail.
    for key in ["user", OWNER] {
        if let Some(user) = original.kept.get(key) {
            before.edit(key, user.deep_clone());
        }
    }
    memory::leaving(&memory::remembering(&before, messages), saved)
}

fn missing(message: String, param: &'static str, code: &'static str) -> Error {
    Error::Request { message, param: Some(param), code: Some(code), kind: RequestErrorKind::NotFound }
}

fn taken(id: &str) -> Error {
    conflict(format!(
        "cannot create the conversation `{id}`: it already exists; choose another chat_id or delete it first"
    ))
}

/// Converts an error of the store that the caller's input caused.
fn refused(error: StoreError) -> Error {
    match error.kind {
        StoreErrorKind::Refused => Error::Request {
            message: format!("cannot {}: {}", error.doing, error.cause),
            param: None,
            code: None,
            kind: RequestErrorKind::Unusable,
        },
        _ => error.into(),
    }
}
