//! The rows of conversations and their messages.

use super::rows::{counted, read, refused, stored, whole_number};
use crate::clock::now;
use crate::conversation::{Conversation, OWNER};
use crate::export::{AROUND_KEPT, AROUND_MESSAGE};
use crate::sql::{self, Row, Session, query, query_scalar};
use sqlx::Error;
use valvehouse_json::Json;

macro_rules! select {
    ($which:literal) => {
        concat!(
            "SELECT id, agent, length, kept, forked_from, shared, created_at, updated_at FROM conversations ",
            $which
        )
    };
}

pub(crate) async fn conversation(connection: &mut Session, id: &str) -> Result<Option<Conversation>, Error> {
    let row = query(select!("WHERE id = ?")).bind(id).fetch_optional(connection).await?;
    row.as_ref().map(from_row).transpose()
}

pub(crate) async fn conversations(
    connection: &mut Session,
    agent: Option<&str>,
    limit: u64,
) -> Result<Vec<Conversation>, Error> {
    let query = match agent {
        None => query(select!("ORDER BY updated_at DESC, number DESC LIMIT ?")),
        Some(agent) => {
            query(select!("WHERE agent = ? ORDER BY updated_at DESC, number DESC LIMIT ?")).bind(agent)
        }
    };
    let rows = query.bind(whole_number(limit)).fetch_all(connection).await?;
    rows.iter().map(from_row).collect()
}

fn from_row(row: &Row) -> Result<Conversation, Error> {
    let id: String = row.try_get("id")?;
    let kept = read(|| format!("the values of the conversation {id:?}"), row.try_get("kept")?)?;
    let forked_from: Option<String> = row.try_get("forked_from")?;
    let shared: Option<i64> = row.try_get("shared")?;
    Ok(Conversation {
        agent: row.try_get("agent")?,
        length: counted(row, "length")?,
        kept,
        forked_from: forked_from.zip(shared.map(i64::unsigned_abs)),
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
        id,
    })
}

/// Returns the number of a conversation, and its number of messages.
pub(crate) async fn find(connection: &mut Session, id: &str) -> Result<Option<(i64, u64)>, Error> {
    let row = query("SELECT number, length FROM conversations WHERE id = ?")
        .bind(id)
        .fetch_optional(connection)
        .await?;
    row.map(|row| Ok((row.try_get("number")?, counted(&row, "length")?))).transpose()
}

/// Inserts a new conversation without messages, and returns its number.
pub(crate) async fn insert(connection: &mut Session, new: &Conversation) -> Result<i64, Error> {
    let (from, shared) = new.forked_from.clone().unzip();
    query_scalar(
        "INSERT INTO conversations (id, agent, length, kept, forked_from, shared, created_at, updated_at, verified_user)
         VALUES (?, ?, 0, ?, ?, ?, ?, ?, ?) RETURNING number",
    )
    .bind(&new.id)
    .bind(&new.agent)
    .bind(stored_kept(&new.kept)?)
    .bind(from)
    .bind(shared.map(whole_number))
    .bind(new.created_at)
    .bind(new.updated_at)
    .bind(owner_in(&new.kept))
    .fetch_one(connection)
    .await
}

/// Returns the verified user in the kept values of a conversation.
pub(crate) fn owner_in(kept: &Json) -> Option<String> {
    kept.text(OWNER).map(String::from)
}

pub(crate) async fn conversations_of(
    connection: &mut Session,
    owner: &str,
    before: Option<i64>,
    limit: u64,
) -> Result<Vec<Conversation>, Error> {
    let select =
        select!("WHERE verified_user = ? AND updated_at < ? ORDER BY updated_at DESC, number DESC LIMIT ?");
    let query = query(select).bind(owner).bind(before.unwrap_or(i64::MAX)).bind(whole_number(limit));
    query.fetch_all(connection).await?.iter().map(from_row).collect()
}

pub(crate) async fn conversation_of(
    connection: &mut Session,
    owner: &str,
    id: &str,
) -> Result<Option<Conversation>, Error> {
    let query = query(select!("WHERE id = ? AND verified_user = ?")).bind(id).bind(owner);
    query.fetch_optional(connection).await?.as_ref().map(from_row).transpose()
}

/// Encodes the kept values of a conversation.
pub(crate) fn stored_kept(kept: &Json) -> Result<String, Error> {
    if kept.as_object().is_none() {
        return Err(refused(format!("the values of a conversation must be an object, not {}", kept.kind())));
    }
    stored(kept, AROUND_KEPT)
}

pub(crate) async fn messages(
    connection: &mut Session,
    conversation: &str,
    from: u64,
    to: u64,
) -> Result<Vec<Json>, Error> {
    let rows = query(MESSAGES)
        .bind(conversation)
        .bind(whole_number(from))
        .bind(whole_number(to))
        .fetch_all(connection)
        .await?;
    let messages = rows.iter().map(|row| {
        let place: i64 = row.try_get("place")?;
        read(|| format!("message {place} of the conversation {conversation:?}"), row.try_get("content")?)
    });
    messages.collect()
}

pub(crate) const MESSAGES: &str = "SELECT place, content FROM messages
     WHERE conversation = (SELECT number FROM conversations WHERE id = ?) AND place >= ? AND place < ?
     ORDER BY place";

/// Appends messages to a conversation of this length, and returns the new length.
pub(crate) async fn append(
    connection: &mut Session,
    conversation: i64,
    length: u64,
    messages: &[Json],
) -> Result<u64, Error> {
    let mut place = length;
    // A writer blocks all others, and many rows per statement take a fraction of the time.
    for some in messages.chunks(100) {
        let some =
            some.iter().map(|message| stored(message, AROUND_MESSAGE)).collect::<Result<Vec<_>, _>>()?;
        let rows = some
            .into_iter()
            .zip(place..)
            .map(|(content, place)| [conversation.into(), whole_number(place).into(), content.into()]);
        let added = sql::insert("INSERT INTO messages (conversation, place, content)", rows, "");
        place += added.execute(connection).await?;
    }
    set_length(connection, conversation, place).await?;
    Ok(place)
}

async fn set_length(connection: &mut Session, conversation: i64, length: u64) -> Result<(), Error> {
    query("UPDATE conversations SET length = ? WHERE number = ?")
        .bind(whole_number(length))
        .bind(conversation)
        .execute(connection)
        .await?;
    Ok(())
}

/// Copies the messages, so that each conversation can be deleted without the other.
pub(crate) async fn fork(
    connection: &mut Session,
    from: &str,
    length: u64,
    id: &str,
    kept: &Json,
) -> Result<bool, Error> {
    if find(connection, id).await?.is_some() {
        return Ok(false);
    }
    let Some(original) = conversation(connection, from).await? else {
        return Err(refused(format!("unknown conversation {from:?}")));
    };
    if length > original.length {
        let has = original.length;
        return Err(refused(format!("the conversation {from:?} has {has} messages, not {length}")));
    }
    let time = now();
    let new = Conversation {
        id: id.to_owned(),
        kept: kept.clone(),
        forked_from: Some((from.to_owned(), length)),
        created_at: time,
        updated_at: time,
        ..original
    };
    let number = insert(connection, &new).await?;
    query(
        "INSERT INTO messages (conversation, place, content)
         SELECT ?, place, content FROM messages
         WHERE conversation = (SELECT number FROM conversations WHERE id = ?) AND place < ?",
    )
    .bind(number)
    .bind(from)
    .bind(whole_number(length))
    .execute(connection)
    .await?;
    set_length(connection, number, length).await?;
    Ok(true)
}

/// The messages, runs and checkpoints are deleted through their references.
pub(crate) async fn forget(connection: &mut Session, id: &str) -> Result<bool, Error> {
    let done = query("DELETE FROM conversations WHERE id = ?").bind(id).execute(connection).await?;
    Ok(done > 0)
}
