//! The rows of grants, read and changed within a transaction.

use super::json::encode;
use crate::sql::{Session, query, query_scalar};
use valvehouse_json::Json;

pub(crate) async fn all(session: &mut Session) -> Result<Vec<(String, Json)>, sqlx::Error> {
    let rows = query("SELECT id, content FROM grants WHERE id NOT LIKE '%@%' ORDER BY id")
        .fetch_all(session)
        .await?;
    rows.into_iter()
        .map(|row| {
            let id: String = row.try_get("id")?;
            let grants = read(&id, row.try_get("content")?)?;
            Ok((id, grants))
        })
        .collect()
}

/// Replaces the expected grants. Returns `false` if the stored ones differ.
pub(crate) async fn set(
    transaction: &mut Session,
    id: &str,
    grants: Option<&Json>,
    expected: Option<&Json>,
) -> Result<bool, sqlx::Error> {
    let Some(grants) = grants else {
        // Revoking everything is always allowed, even if the stored grants cannot be read.
        query("DELETE FROM grants WHERE id = ?").bind(id).execute(transaction).await?;
        return Ok(true);
    };
    if grants.as_object().is_none() {
        return Err(sqlx::Error::Encode("invalid grants: expected an object of capabilities".into()));
    }
    if of(transaction, id).await?.as_ref() != expected {
        return Ok(false);
    }
    query("INSERT INTO grants (id, content) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET content = excluded.content")
        .bind(id)
        .bind(encode(grants)?)
        .execute(transaction)
        .await?;
    Ok(true)
}

async fn of(transaction: &mut Session, id: &str) -> Result<Option<Json>, sqlx::Error> {
    let content: Option<String> =
        query_scalar("SELECT content FROM grants WHERE id = ?").bind(id).fetch_optional(transaction).await?;
    content.map(|content| read(id, &content)).transpose()
}

fn read(id: &str, content: &str) -> Result<Json, sqlx::Error> {
    Json::parse(content.as_bytes()).map_err(|error| {
        let what = format!("the stored grants of {id} are not JSON: {error}");
        sqlx::Error::Decode(format!("{what}; delete them with `valvehouse grant {id} --revoke`").into())
    })
}
