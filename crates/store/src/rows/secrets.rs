//! Sealed texts that hosts store, and the leases of the hosts that change them.

use crate::clock::now;
use crate::seal::SealKey;
use crate::sql::{Session, query, query_scalar};

/// Returns the subject that a text is sealed for, so that it opens under no other name.
pub(crate) fn subject(name: &str) -> String {
    format!("secret {name:?}")
}

/// Reads a text; `None` if it cannot be opened because it was changed by hand.
pub(crate) async fn read(
    session: &mut Session,
    key: &SealKey,
    name: &str,
) -> Result<Option<String>, sqlx::Error> {
    let content: Option<String> =
        query_scalar("SELECT content FROM secrets WHERE name = ?").bind(name).fetch_optional(session).await?;
    Ok(content.and_then(|content| key.open(&content, &subject(name))))
}

/// Writes or deletes a text.
pub(crate) async fn write(
    session: &mut Session,
    key: &SealKey,
    name: &str,
    text: Option<&str>,
) -> Result<(), sqlx::Error> {
    let Some(text) = text else {
        query("DELETE FROM secrets WHERE name = ?").bind(name).execute(session).await?;
        return Ok(());
    };
    query("INSERT INTO secrets (name, content) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET content = excluded.content")
        .bind(name)
        .bind(key.seal(text, &subject(name)))
        .execute(session)
        .await?;
    Ok(())
}

/// Takes a lease if it is free. Returns `true` on success.
pub(crate) async fn lease(
    session: &mut Session,
    name: &str,
    holder: &str,
    ms: u32,
) -> Result<bool, sqlx::Error> {
    let now = now();
    query("DELETE FROM secret_leases WHERE name = ? AND (holder = ? OR expires_ms <= ?)")
        .bind(name)
        .bind(holder)
        .bind(now)
        .execute(session)
        .await?;
    if ms == 0 {
        return Ok(true);
    }
    let written = query(
        "INSERT INTO secret_leases (name, holder, expires_ms) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING",
    )
    .bind(name)
    .bind(holder)
    .bind(now + i64::from(ms))
    .execute(session)
    .await?;
    Ok(written > 0)
}
