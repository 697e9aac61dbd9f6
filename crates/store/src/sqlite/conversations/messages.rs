//! Conversations and their messages.

use super::rows::{counted, read, refused, stored, whole_number};
use crate::clock::now;
use crate::conversation::Conversation;
use crate::export::{AROUND_KEPT, AROUND_MESSAGE};
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Error, QueryBuilder, Row as _};
use valvehouse_json::Json;

macro_rules! select {
    ($which:literal) => {
        concat!(
            "SELECT id, agent, length, kept, forked_from, shared, created_at, updated_at FROM conversations ",
            $which
        )
    };
}

pub(super) async fn conversation(
    connection: &mut SqliteConnection,
    id: &str,
) -> Result<Option<Conversation>, Error> {
    let row = sqlx::query(select!("WHERE id = ?")).bind(id).fetch_optional(connection).await?;
    row.as_ref().map(from_row).transpose()
}

pub(super) async fn conversations(
    connection: &mut SqliteConnection,
    agent: Option<&str>,
    limit: u64,
) -> Result<Vec<Conversation>, Error> {
    let query = match agent {
        None => sqlx::query(select!("ORDER BY updated_at DESC, number DESC LIMIT ?")),
        Some(agent) => {
            sqlx::query(select!("WHERE agent = ? ORDER BY updated_at DESC, number DESC LIMIT ?")).bind(agent)
        }
    };
    let rows = query.bind(whole_number(limit)).fetch_all(connection).await?;
    rows.iter().map(from_row).collect()
}

fn from_row(row: &SqliteRow) -> Result<Conversation, Error> {
    let id: String = row.try_get("id")?;
    let kept = read(|| format!("what is kept of the conversation {id:?}"), row.try_get("kept")?)?;
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

/// The number of a conversation, and how many messages it has.
pub(super) async fn find(connection: &mut SqliteConnection, id: &str) -> Result<Option<(i64, u64)>, Error> {
    let row = sqlx::query("SELECT number, length FROM conversations WHERE id = ?")
        .bind(id)
        .fetch_optional(connection)
        .await?;
    row.map(|row| Ok((row.try_get("number")?, counted(&row, "length")?))).transpose()
}

/// Puts a new conversation in, without messages yet, and gives its number.
pub(super) async fn insert(connection: &mut SqliteConnection, new: &Conversation) -> Result<i64, Error> {
    let (from, shared) = new.forked_from.clone().unzip();
    sqlx::query_scalar(
        "INSERT INTO conversations (id, agent, length, kept, forked_from, shared, created_at, updated_at)
         VALUES (?, ?, 0, ?, ?, ?, ?, ?) RETURNING number",
    )
    .bind(&new.id)
    .bind(&new.agent)
    .bind(stored_kept(&new.kept)?)
    .bind(from)
    .bind(shared.map(whole_number))
    .bind(new.created_at)
    .bind(new.updated_at)
    .fetch_one(connection)
    .await
}

/// What is kept from run to run, as it is stored.
pub(super) fn stored_kept(kept: &Json) -> Result<String, Error> {
    if kept.as_object().is_none() {
        return Err(refused(format!("what a conversation keeps must be an object, not {}", kept.kind())));
    }
    stored(kept, AROUND_KEPT)
}

pub(super) async fn messages(
    connection: &mut SqliteConnection,
    conversation: &str,
    from: u64,
    to: u64,
) -> Result<Vec<Json>, Error> {
    let rows = sqlx::query(MESSAGES)
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

pub(super) const MESSAGES: &str = "SELECT place, content FROM messages
     WHERE conversation = (SELECT number FROM conversations WHERE id = ?) AND place >= ? AND place < ?
     ORDER BY place";

/// Adds messages to a conversation of this length, and gives the new length.
pub(super) async fn append(
    connection: &mut SqliteConnection,
    conversation: i64,
    length: u64,
    messages: &[Json],
) -> Result<u64, Error> {
    let mut place = length;
    // Whoever writes holds up all others: many at once take a fraction of the time.
    for some in messages.chunks(100) {
        let some =
            some.iter().map(|message| stored(message, AROUND_MESSAGE)).collect::<Result<Vec<_>, _>>()?;
        let mut query = QueryBuilder::new("INSERT INTO messages (conversation, place, content) ");
        query.push_values(some, |mut row, content| {
            row.push_bind(conversation).push_bind(whole_number(place)).push_bind(content);
            place += 1;
        });
        query.build().execute(&mut *connection).await?;
    }
    set_length(connection, conversation, place).await?;
    Ok(place)
}

async fn set_length(connection: &mut SqliteConnection, conversation: i64, length: u64) -> Result<(), Error> {
    sqlx::query("UPDATE conversations SET length = ? WHERE number = ?")
        .bind(whole_number(length))
        .bind(conversation)
        .execute(connection)
        .await?;
    Ok(())
}

/// Copies the messages: then each can be forgotten without the other.
pub(super) async fn fork(
    connection: &mut SqliteConnection,
    from: &str,
    length: u64,
    id: &str,
    kept: &Json,
) -> Result<bool, Error> {
    if find(connection, id).await?.is_some() {
        return Ok(false);
    }
    let Some(original) = conversation(connection, from).await? else {
        return Err(refused(format!("there is no conversation {from:?}")));
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
    sqlx::query(
        "INSERT INTO messages (conversation, place, content)
         SELECT ?, place, content FROM messages
         WHERE conversation = (SELECT number FROM conversations WHERE id = ?) AND place < ?",
    )
    .bind(number)
    .bind(from)
    .bind(whole_number(length))
    .execute(&mut *connection)
    .await?;
    set_length(connection, number, length).await?;
    Ok(true)
}

/// Messages, runs and checkpoints go with it, by their references.
pub(super) async fn forget(connection: &mut SqliteConnection, id: &str) -> Result<bool, Error> {
    let done = sqlx::query("DELETE FROM conversations WHERE id = ?").bind(id).execute(connection).await?;
    Ok(done.rows_affected() > 0)
}
