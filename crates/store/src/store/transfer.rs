//! Export and import of whole conversations.

use super::database::Store;
use super::{checkpoints, conversations, runs};
use crate::conversation::{Checkpoint, Run};
use crate::error::StoreResult;
use crate::export::ConversationExport;
use crate::rows::json::refused;
use crate::sql::{Lock, Session};
use uuid::Uuid;
use valvehouse_json::Json;

/// Export and import of whole conversations.
impl Store {
    /// Returns a conversation with its messages, runs and checkpoints as one JSON object; `None` if it does
    /// not exist. The owners of its runs are left out, because they do not exist where it is imported.
    pub async fn export(&self, conversation: &str) -> StoreResult<Option<Json>> {
        self.work("export a conversation", async {
            let mut session = self.swift.snapshot().await?;
            let id = conversation;
            let Some(conversation) = conversations::find(&mut session, id).await? else { return Ok(None) };
            let messages = conversations::messages(&mut session, id, 0, conversation.length).await?;
            let mut all = Vec::new();
            for run in runs::of_conversation(&mut session, id).await? {
                let checkpoints = checkpoints::of_run(&mut session, &run.id).await?;
                all.push((run, checkpoints));
            }
            Ok(Some(ConversationExport { conversation, messages, runs: all }.to_json()))
        })
        .await
    }

    /// Imports an exported conversation under its own id or another one, completely or not at all. Returns
    /// `false` if the id is in use. Its runs and checkpoints keep their ids, unless one of them is in use
    /// here: then all get new ones.
    pub async fn import(&self, exported: &Json, id: Option<&str>) -> StoreResult<bool> {
        self.work("import a conversation", async {
            let exported = ConversationExport::read(exported).map_err(|wrong| {
                refused(format!("invalid export of a conversation: {wrong}; export it again"))
            })?;
            let ConversationExport { mut conversation, messages, runs } = exported;
            if let Some(id) = id {
                id.clone_into(&mut conversation.id);
            }
            let mut transaction = self.begin(Lock::Conversation(&conversation.id)).await?;
            if conversations::number_of(&mut transaction, &conversation.id).await?.is_some() {
                return Ok(false);
            }
            let renamed = uses_known_ids(&mut transaction, &runs).await?;
            let number = conversations::insert(&mut transaction, &conversation).await?;
            conversations::append(&mut transaction, number, 0, &messages).await?;
            for (mut run, checkpoints) in runs {
                if renamed {
                    run.id = Uuid::now_v7().to_string();
                }
                let run = runs::insert(&mut transaction, number, &run).await?;
                for checkpoint in &checkpoints {
                    let id = (!renamed).then_some(checkpoint.id.as_str());
                    checkpoints::insert(&mut transaction, run, id, &checkpoint.into()).await?;
                }
            }
            transaction.commit_with(true).await
        })
        .await
    }
}

/// Returns `true` if runs or checkpoints with any of these ids exist.
async fn uses_known_ids(session: &mut Session, runs: &[(Run, Vec<Checkpoint>)]) -> sqlx::Result<bool> {
    for (run, checkpoints) in runs {
        if runs::is_known(session, &run.id).await? {
            return Ok(true);
        }
        for checkpoint in checkpoints {
            if checkpoints::is_known(session, &checkpoint.id).await? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
