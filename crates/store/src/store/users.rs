//! The records of a user.

use super::database::Store;
use super::{traces, vectors};
use crate::error::StoreResult;
use crate::kv::Kv;
use crate::record::{UserRecords, scope_of, scope_of_chat, scopes_of_chats};
use crate::rows::generation::commit_raised;
use crate::sql::{Lock, Row, Session, query, values};
use crate::sqlite::erase::erase;
use crate::vectors::VectorOwner;
use std::collections::HashSet;
use valvehouse_json::Json;

/// The number of conversations in a batch.
const BATCH: i64 = 256;

/// The records of a user.
impl Store {
    /// Returns the numbers of a user's stored records.
    pub async fn user_records(&self, user: &str) -> StoreResult<UserRecords> {
        self.work("count the records of a user", async {
            let mut session = self.swift.session().await?;
            let chats = chats(&mut session, user).await?;
            count(&mut session, user, &chats).await
        })
        .await
    }

    /// Deletes a user's records with its conversations, and returns their numbers: the conversations that the verified
    /// user started, and those without a verified user whose requests named this user. `kv` has the maps of the
    /// running host, or maps loaded for this call, because hosts must notice the deletion of kv entries. In an SQLite
    /// file, deleted rows are overwritten. After an error, calling it again deletes the rest.
    pub async fn forget_user(&self, kv: &Kv, user: &str) -> StoreResult<UserRecords> {
        let chats = self.work("list the conversations of a user", async {
            chats(&mut self.swift.session().await?, user).await
        });
        let chats = chats.await?;
        let scopes = std::iter::once(scope_of(user));
        let scopes: HashSet<String> =
            scopes.chain(chats.iter().map(|chat| scope_of_chat(&chat.id, None))).collect();
        let own_chats = scopes_of_chats(user);
        let entries = kv.clear_scopes(|scope| scopes.contains(scope) || scope.starts_with(&own_chats));
        kv.flush_all().await?;
        // Maps without a write function do not write themselves.
        let changes = kv.take_changes();
        if !changes.is_empty()
            && let Err(error) = self.kv_write(&changes).await
        {
            kv.give_back(&changes);
            return Err(error);
        }
        self.work("delete the records of a user", async {
            let mut transaction = self.begin(Lock::Settings).await?;
            let records = count(&mut transaction, user, &chats).await?;
            forget(&mut transaction, user, &chats).await?;
            commit_raised(transaction).await?;
            erase(&self.durable).await?;
            Ok(UserRecords { entries: records.entries.max(entries), ..records })
        })
        .await
    }
}

/// A conversation of a user.
struct UserChat {
    /// The number of its row.
    number: i64,
    id: String,
}

/// Returns the owner of the user's rows in the Responses API.
fn owner_of(user: &str) -> String {
    format!("user {user}")
}

async fn chats(session: &mut Session, user: &str) -> sqlx::Result<Vec<UserChat>> {
    let chat = |row: &Row| Ok(UserChat { number: row.try_get("number")?, id: row.try_get("id")? });
    let verified = query("SELECT number, id FROM conversations WHERE verified_user = ?").bind(user);
    let mut chats: Vec<UserChat> =
        verified.fetch_all(session).await?.iter().map(chat).collect::<sqlx::Result<_>>()?;
    let mut after = i64::MIN;
    loop {
        let text = "SELECT number, id, kept FROM conversations
             WHERE verified_user IS NULL AND number > ? ORDER BY number LIMIT ?";
        let rows = query(text).bind_all(values![after, BATCH]).fetch_all(session).await?;
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

async fn count(session: &mut Session, user: &str, chats: &[UserChat]) -> sqlx::Result<UserRecords> {
    let (scope, owner) = (scope_of(user), owner_of(user));
    let number = async |session: &mut Session, text: &'static str, value: &str| -> sqlx::Result<u64> {
        Ok(query(text).bind(value).fetch_scalar::<i64>(session).await?.unsigned_abs())
    };
    let responses = number(session, "SELECT count(*) FROM responses WHERE owner = ?", &owner).await?;
    let talks =
        number(session, "SELECT count(*) FROM response_conversations WHERE owner = ?", &owner).await?;
    let mut entries = number(session, "SELECT count(*) FROM kv WHERE scope = ?", &scope).await?;
    let of_chats: HashSet<String> = chats.iter().map(|chat| scope_of_chat(&chat.id, None)).collect();
    let own_chats = scopes_of_chats(user);
    let scopes = "SELECT scope, count(*) AS entries FROM kv
         WHERE scope LIKE 'chat/%' OR scope LIKE 'own-chat/%' GROUP BY scope";
    for row in query(scopes).fetch_all(session).await? {
        let scope: String = row.try_get("scope")?;
        if of_chats.contains(&scope) || scope.starts_with(&own_chats) {
            entries += row.count("entries")?;
        }
    }
    let memories = "SELECT count(*) FROM vectors WHERE plugin = '' AND scope = ?";
    let vectors = "SELECT count(*) FROM vectors WHERE plugin <> '' AND scope = ?";
    Ok(UserRecords {
        memories: number(session, memories, &scope).await?,
        vectors: number(session, vectors, &scope).await?,
        conversations: chats.len() as u64,
        valves: number(session, "SELECT count(*) FROM valves WHERE user_id = ?", user).await?,
        entries,
        responses: responses + talks,
        requests: traces::count(session, user).await?,
    })
}

async fn forget(session: &mut Session, user: &str, chats: &[UserChat]) -> sqlx::Result<()> {
    for chat in chats {
        query("DELETE FROM conversations WHERE number = ?").bind(chat.number).execute(session).await?;
    }
    let (scope, owner) = (scope_of(user), owner_of(user));
    let spaces = query("SELECT plugin FROM vector_spaces WHERE scope = ?").bind(&scope);
    for plugin in spaces.fetch_scalars(session).await? {
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
    traces::forget(session, user).await
}
