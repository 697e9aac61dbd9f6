//! The rows of client sessions.

use crate::clock::now;
use crate::seal::SealKey;
use crate::sql::{Session, query, query_scalar};

/// Returns the subject that a session is sealed for, so that it opens under no other id.
fn subject(id: &str) -> String {
    format!("client session {id:?}")
}

/// Writes a session, and deletes expired ones.
pub(crate) async fn save(
    transaction: &mut Session,
    key: &SealKey,
    id: &str,
    content: &str,
    ends_ms: i64,
) -> Result<(), sqlx::Error> {
    query("DELETE FROM client_sessions WHERE ends_at <= ?").bind(now()).execute(transaction).await?;
    query(
        "INSERT INTO client_sessions (id, content, ends_at) VALUES (?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET content = excluded.content, ends_at = excluded.ends_at",
    )
    .bind(id)
    .bind(key.seal(content, &subject(id)))
    .bind(ends_ms)
    .execute(transaction)
    .await?;
    Ok(())
}

/// Reads a session; `None` if it cannot be opened because it was changed by hand.
pub(crate) async fn find(
    session: &mut Session,
    key: &SealKey,
    id: &str,
) -> Result<Option<String>, sqlx::Error> {
    let found = query_scalar::<String>("SELECT content FROM client_sessions WHERE id = ? AND ends_at > ?");
    let content = found.bind(id).bind(now()).fetch_optional(session).await?;
    Ok(content.and_then(|content| key.open(&content, &subject(id))))
}

/// Deletes a session.
pub(crate) async fn end(session: &mut Session, id: &str) -> Result<(), sqlx::Error> {
    query("DELETE FROM client_sessions WHERE id = ?").bind(id).execute(session).await?;
    Ok(())
}
