//! Export and import of whole conversations.

use super::rows::refused;
use super::{checkpoints, messages, runs};
use crate::conversation::{Checkpoint, Run};
use crate::export::ConversationExport;
use crate::sql::Session;
use sqlx::Error;
use uuid::Uuid;
use valvehouse_json::Json;

pub(crate) async fn export(connection: &mut Session, id: &str) -> Result<Option<Json>, Error> {
    let Some(conversation) = messages::conversation(connection, id).await? else { return Ok(None) };
    let messages = messages::messages(connection, id, 0, conversation.length).await?;
    let mut all = Vec::new();
    for run in runs::runs(connection, Some(id), None, u64::MAX).await?.into_iter().rev() {
        let checkpoints = checkpoints::of_run(connection, &run.id).await?;
        all.push((run, checkpoints));
    }
    Ok(Some(ConversationExport { conversation, messages, runs: all }.to_json()))
}

/// Reads an exported conversation, which gets this id.
pub(crate) fn read(json: &Json, id: Option<&str>) -> Result<ConversationExport, Error> {
    let mut exported = ConversationExport::read(json)
        .map_err(|wrong| refused(format!("invalid export of a conversation: {wrong}; export it again")))?;
    if let Some(id) = id {
        id.clone_into(&mut exported.conversation.id);
    }
    Ok(exported)
}

pub(crate) async fn import(connection: &mut Session, exported: ConversationExport) -> Result<bool, Error> {
    let ConversationExport { conversation, messages, runs } = exported;
    if messages::find(connection, &conversation.id).await?.is_some() {
        return Ok(false);
    }
    let renamed = uses_known_ids(connection, &runs).await?;
    let number = messages::insert(connection, &conversation).await?;
    messages::append(connection, number, 0, &messages).await?;
    for (mut run, checkpoints) in runs {
        if renamed {
            run.id = Uuid::now_v7().to_string();
        }
        let run = runs::insert(connection, number, &run).await?;
        for checkpoint in &checkpoints {
            let id = (!renamed).then_some(checkpoint.id.as_str());
            checkpoints::insert(connection, run, id, &checkpoint.into()).await?;
        }
    }
    Ok(true)
}

/// Returns `true` if runs or checkpoints with any of these ids exist.
async fn uses_known_ids(connection: &mut Session, runs: &[(Run, Vec<Checkpoint>)]) -> Result<bool, Error> {
    for (run, checkpoints) in runs {
        if runs::is_known(connection, &run.id).await? {
            return Ok(true);
        }
        for checkpoint in checkpoints {
            if checkpoints::is_known(connection, &checkpoint.id).await? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
