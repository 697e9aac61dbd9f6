//! The rows of a user.

use super::vectors;
use crate::record::{UserChat, UserRecords, scope_of, scope_of_chat, scopes_of_chats};
use crate::sql::{Row, Session, query, query_scalar};
use crate::vectors::VectorOwner;
use sqlx::Error;
use std::collections::HashSet;
use valvehouse_json::Json;

/// The number of conversations in a batch.
const BATCH: i64 = 256;

/// Returns the owner of the user's rows in the Responses API.
fn owner_of(user: &str) -> String {
    format!("user {user}")
}

/// Returns the conversations of a user. A conversation without a verified user belongs to the user that its
/// requests named.
pub(crate) async fn chats(session: &mut Session, user: &str) -> Result<Vec<UserChat>, Error> {
    let chat = |row: &Row| Ok(UserChat { number: row.try_get("number")?, id: row.try_get("id")? });
    let verified = query("SELECT number, id FROM conversations WHERE verified_user = ?").bind(user);
    let mut chats: Vec<UserChat> =
        verified.fetch_all(session).await?.iter().map(chat).collect::<Result<_, Error>>()?;
    let mut after = i64::MIN;
    loop {
        let rows = query(
            "SELECT number, id, kept FROM conversations
             WHERE verified_user IS NULL AND number > ? ORDER BY number LIMIT ?",
        );
        let rows = rows.bind(after).bind(BATCH).fetch_all(session).await?;
        let Some(last) = rows.last() else { return Ok(chats) };
        after = last.try_get("number")?;
        for row in &rows {
            let kept: String = row.try_get("kept")?;
            let named = Json::parse(kept.as_bytes()).ok().and_then(|kept| kept.get("user"));
            let is_named = |named: Json| match named.as_str() {
                Some(named) => named == user,
                None => !named.is_null() && named.to_string() == user,
            };
            if named.is_some_and(is_named) {
                chats.push(chat(row)?);
            }
        }
    }
}

pub(crate) async fn count(
    session: &mut Session,
    user: &str,
    chats: &[UserChat],
) -> Result<UserRecords, Error> {
    let (scope, owner) = (scope_of(user), owner_of(user));
    let number = async |session: &mut Session, text: &'static str, value: &str| -> Result<u64, Error> {
        Ok(query_scalar::<i64>(text).bind(value).fetch_one(session).await?.unsigned_abs())
    };
    let responses = number(session, "SELECT count(*) FROM responses WHERE owner = ?", &owner).await?;
    let talks =
        number(session, "SELECT count(*) FROM response_conversations WHERE owner = ?", &owner).await?;
    let mut entries = number(session, "SELECT count(*) FROM kv WHERE scope = ?", &scope).await?;
    let of_chats: HashSet<String> = chats.iter().map(|chat| scope_of_chat(&chat.id, None)).collect();
    let own_chats = scopes_of_chats(user);
    let scopes = query(
        "SELECT scope, count(*) AS entries FROM kv
         WHERE scope LIKE 'chat/%' OR scope LIKE 'own-chat/%' GROUP BY scope",
    );
    for row in scopes.fetch_all(session).await? {
        let scope: String = row.try_get("scope")?;
        if of_chats.contains(&scope) || scope.starts_with(&own_chats) {
            entries += row.try_get::<i64>("entries")?.unsigned_abs();
        }
    }
    Ok(UserRecords {
        memories: number(session, "SELECT count(*) FROM vectors WHERE plugin = '' AND scope = ?", &scope)
            .await?,
        vectors: number(session, "SELECT count(*) FROM vectors WHERE plugin <> '' AND scope = ?", &scope)
            .await?,
        conversations: chats.len() as u64,
        valves: number(session, "SELECT count(*) FROM valves WHERE user_id = ?", user).await?,
        entries,
        responses: responses + talks,
    })
}

/// Deletes the rows of a user, except kv entries: hosts have to delete those themselves to notice it.
pub(crate) async fn forget(
    session: &mut Session,
    user: &str,
    chats: &[UserChat],
) -> Result<UserRecords, Error> {
    let records = count(session, user, chats).await?;
    for chat in chats {
        query("DELETE FROM conversations WHERE number = ?").bind(chat.number).execute(session).await?;
    }
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
