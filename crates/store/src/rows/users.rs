//! The rows of a user.

use super::vectors;
use crate::record::{UserRecords, scope_of};
use crate::sql::{Row, Session, query, query_scalar};
use crate::vectors::VectorOwner;
use sqlx::Error;

/// Returns the owner of the user's rows in the Responses API.
fn owner_of(user: &str) -> String {
    format!("user {user}")
}

pub(crate) async fn count(session: &mut Session, user: &str) -> Result<UserRecords, Error> {
    let (scope, owner) = (scope_of(user), owner_of(user));
    let number = async |session: &mut Session, text: &'static str, value: &str| -> Result<u64, Error> {
        Ok(query_scalar::<i64>(text).bind(value).fetch_one(session).await?.unsigned_abs())
    };
    let responses = number(session, "SELECT count(*) FROM responses WHERE owner = ?", &owner).await?;
    let talks =
        number(session, "SELECT count(*) FROM response_conversations WHERE owner = ?", &owner).await?;
    Ok(UserRecords {
        memories: number(session, "SELECT count(*) FROM vectors WHERE plugin = '' AND scope = ?", &scope)
            .await?,
        vectors: number(session, "SELECT count(*) FROM vectors WHERE plugin <> '' AND scope = ?", &scope)
            .await?,
        conversations: number(session, "SELECT count(*) FROM conversations WHERE verified_user = ?", user)
            .await?,
        valves: number(session, "SELECT count(*) FROM valves WHERE user_id = ?", user).await?,
        entries: number(session, "SELECT count(*) FROM kv WHERE scope = ?", &scope).await?,
        responses: responses + talks,
    })
}

/// Deletes the rows of a user, except kv entries: hosts have to delete those themselves to notice it.
pub(crate) async fn forget(session: &mut Session, user: &str) -> Result<UserRecords, Error> {
    let records = count(session, user).await?;
    let (scope, owner) = (scope_of(user), owner_of(user));
    let spaces = query("SELECT plugin FROM vector_spaces WHERE scope = ?").bind(&scope).fetch_all(session);
    let plugins =
        spaces.await?.iter().map(|row: &Row| row.try_get("plugin")).collect::<Result<Vec<String>, _>>()?;
    for plugin in plugins {
        // The empty space remains, so that hosts with its vectors in memory notice the new version.
        vectors::delete(session, &VectorOwner { plugin, scope: scope.clone() }, None).await?;
    }
    for (text, value) in [
        ("DELETE FROM conversations WHERE verified_user = ?", user),
        ("DELETE FROM valves WHERE user_id = ?", user),
        (
            "DELETE FROM response_events WHERE response IN (SELECT id FROM responses WHERE owner = ?)",
            owner.as_str(),
        ),
        ("DELETE FROM responses WHERE owner = ?", &owner),
        (
            "DELETE FROM response_conversation_items WHERE conversation IN
                (SELECT id FROM response_conversations WHERE owner = ?)",
            &owner,
        ),
        ("DELETE FROM response_conversations WHERE owner = ?", &owner),
    ] {
        query(text).bind(value).execute(session).await?;
    }
    Ok(records)
}
