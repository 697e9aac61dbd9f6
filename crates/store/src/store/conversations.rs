//! Conversations and their messages. Hosts do not depend on them, so their changes leave the generation unchanged.

use super::database::Store;
use crate::clock::now;
use crate::conversation::{Conversation, OWNER};
use crate::error::StoreResult;
use crate::export::{AROUND_KEPT, AROUND_MESSAGE};
use crate::rows::json::{read, refused, stored};
use crate::sql::{self, Lock, Query, Row, Session, Value, columns, query, query_text, values};
use valvehouse_json::Json;

/// The conversations in the store. Every method is one transaction, which is durable when it returns.
///
/// At most one run of a conversation is running, paused or failed: the one that can be resumed. Values nested
/// too deeply to be read again are rejected, also in an imported conversation.
impl Store {
    /// Returns the conversation with this id.
    pub async fn conversation(&self, id: &str) -> StoreResult<Option<Conversation>> {
        let query = select("WHERE id = ?", values![id]);
        Ok(self.fetch("read a conversation", query, from_row).await?.pop())
    }

    /// Returns the conversations of an agent, or of all agents, newest message first.
    pub async fn conversations(&self, agent: Option<&str>, limit: u64) -> StoreResult<Vec<Conversation>> {
        const NEWEST: &str = "ORDER BY updated_at DESC, number DESC LIMIT ?";
        let query = match agent {
            None => select(NEWEST, values![limit]),
            Some(agent) => select(&format!("WHERE agent = ? {NEWEST}"), values![agent, limit]),
        };
        self.fetch("list conversations", query, from_row).await
    }

    /// Returns the conversations of a verified user that changed before this time, newest first.
    pub async fn conversations_of(
        &self,
        owner: &str,
        before: Option<i64>,
        limit: u64,
    ) -> StoreResult<Vec<Conversation>> {
        let which =
            "WHERE verified_user = ? AND updated_at < ? ORDER BY updated_at DESC, number DESC LIMIT ?";
        let query = select(which, values![owner, before.unwrap_or(i64::MAX), limit]);
        self.fetch("list the conversations of a user", query, from_row).await
    }

    /// Returns the conversation with this id if it belongs to this verified user.
    pub async fn conversation_of(&self, owner: &str, id: &str) -> StoreResult<Option<Conversation>> {
        let query = select("WHERE id = ? AND verified_user = ?", values![id, owner]);
        Ok(self.fetch("read a conversation", query, from_row).await?.pop())
    }

    /// Returns the messages of a range, in order; positions after the end are left out.
    pub async fn messages(&self, conversation: &str, from: u64, to: u64) -> StoreResult<Vec<Json>> {
        self.work("read the messages of a conversation", async {
            messages(&mut self.swift.session().await?, conversation, from, to).await
        })
        .await
    }

    /// Creates an independent conversation from the first `length` messages of another, with these kept
    /// values. The messages are copied, so that each conversation can be deleted without the other. Returns
    /// `false` if the id is in use.
    ///
    /// # Errors
    /// Returns an error if the other conversation does not exist or is shorter.
    pub async fn fork(&self, from: &str, length: u64, id: &str, kept: &Json) -> StoreResult<bool> {
        self.work("fork a conversation", async {
            let mut transaction = self.begin(Lock::Conversation(id)).await?;
            if number_of(&mut transaction, id).await?.is_some() {
                return Ok(false);
            }
            let original = find(&mut transaction, from).await?;
            let original = original.ok_or_else(|| refused(format!("unknown conversation {from:?}")))?;
            if length > original.length {
                let has = original.length;
                return Err(refused(format!("the conversation {from:?} has {has} messages, not {length}")));
            }
            let (id, kept, time) = (id.to_owned(), kept.clone(), now());
            let forked_from = Some((from.to_owned(), length));
            let new = Conversation { id, kept, forked_from, created_at: time, updated_at: time, ..original };
            let number = insert(&mut transaction, &new).await?;
            let copy = "INSERT INTO messages (conversation, place, content)
                 SELECT ?, place, content FROM messages
                 WHERE conversation = (SELECT number FROM conversations WHERE id = ?) AND place < ?";
            query(copy).bind_all(values![number, from, length]).execute(&mut transaction).await?;
            set_length(&mut transaction, number, length).await?;
            transaction.commit_with(true).await
        })
        .await
    }

    /// Deletes a conversation with everything that belongs to it. Returns `false` if it does not exist.
    pub async fn forget_conversation(&self, id: &str) -> StoreResult<bool> {
        // The messages, runs and checkpoints are deleted through their references.
        let delete = query("DELETE FROM conversations WHERE id = ?").bind(id);
        Ok(self.execute_durably("delete a conversation", delete).await? > 0)
    }
}

fn select<'q>(which: &str, values: impl IntoIterator<Item = Value<'q>>) -> Query<'q> {
    let text = format!(
        "SELECT id, agent, length, kept, forked_from, shared, created_at, updated_at FROM conversations {which}"
    );
    query_text(text).bind_all(values)
}

fn from_row(row: &Row) -> sqlx::Result<Conversation> {
    let id: String = row.try_get("id")?;
    let kept = read(|| format!("the values of the conversation {id:?}"), row.try_get("kept")?)?;
    let forked_from: Option<String> = row.try_get("forked_from")?;
    let shared: Option<i64> = row.try_get("shared")?;
    let (forked_from, length) = (forked_from.zip(shared.map(i64::unsigned_abs)), row.count("length")?);
    Ok(columns!(row => Conversation { agent, created_at, updated_at; id, length, kept, forked_from }))
}

pub(super) async fn find(session: &mut Session, id: &str) -> sqlx::Result<Option<Conversation>> {
    let row = select("WHERE id = ?", values![id]).fetch_optional(session).await?;
    row.as_ref().map(from_row).transpose()
}

/// Returns the number of a conversation, and its number of messages.
pub(super) async fn number_of(session: &mut Session, id: &str) -> sqlx::Result<Option<(i64, u64)>> {
    let query = query("SELECT number, length FROM conversations WHERE id = ?").bind(id);
    let row = query.fetch_optional(session).await?;
    row.map(|row| Ok((row.try_get("number")?, row.count("length")?))).transpose()
}

pub(super) async fn messages(
    session: &mut Session,
    conversation: &str,
    from: u64,
    to: u64,
) -> sqlx::Result<Vec<Json>> {
    let rows = query(MESSAGES).bind_all(values![conversation, from, to]).fetch_all(session).await?;
    let messages = rows.iter().map(|row| {
        let place: i64 = row.try_get("place")?;
        read(|| format!("message {place} of the conversation {conversation:?}"), row.try_get("content")?)
    });
    messages.collect()
}

const MESSAGES: &str = "SELECT place, content FROM messages
     WHERE conversation = (SELECT number FROM conversations WHERE id = ?) AND place >= ? AND place < ?
     ORDER BY place";

/// Inserts a new conversation without messages, and returns its number.
pub(super) async fn insert(session: &mut Session, new: &Conversation) -> sqlx::Result<i64> {
    let (from, shared) = new.forked_from.clone().unzip();
    let text = "INSERT INTO conversations
         (id, agent, length, kept, forked_from, shared, created_at, updated_at, verified_user)
         VALUES (?, ?, 0, ?, ?, ?, ?, ?, ?) RETURNING number";
    query(text)
        .bind_all(values![&new.id, &new.agent, stored_kept(&new.kept)?, from, shared])
        .bind_all(values![new.created_at, new.updated_at, owner_in(&new.kept)])
        .fetch_scalar(session)
        .await
}

/// Returns the verified user in the kept values of a conversation.
pub(super) fn owner_in(kept: &Json) -> Option<String> {
    kept.text(OWNER).map(String::from)
}

/// Encodes the kept values of a conversation.
pub(super) fn stored_kept(kept: &Json) -> sqlx::Result<String> {
    if kept.as_object().is_none() {
        return Err(refused(format!("the values of a conversation must be an object, not {}", kept.kind())));
    }
    stored(kept, AROUND_KEPT)
}

/// Appends messages to a conversation of this length, and returns the new length.
pub(super) async fn append(
    session: &mut Session,
    conversation: i64,
    length: u64,
    messages: &[Json],
) -> sqlx::Result<u64> {
    let mut place = length;
    // A writer blocks all others, and many rows per statement take a fraction of the time.
    for some in messages.chunks(100) {
        let some =
            some.iter().map(|message| stored(message, AROUND_MESSAGE)).collect::<sqlx::Result<Vec<_>>>()?;
        let rows =
            some.into_iter().zip(place..).map(|(content, place)| values![conversation, place, content]);
        let added = sql::insert("INSERT INTO messages (conversation, place, content)", rows, "");
        place += added.execute(session).await?;
    }
    set_length(session, conversation, place).await?;
    Ok(place)
}

async fn set_length(session: &mut Session, conversation: i64, length: u64) -> sqlx::Result<()> {
    let set = query("UPDATE conversations SET length = ? WHERE number = ?");
    set.bind_all(values![length, conversation]).execute(session).await?;
    Ok(())
}
