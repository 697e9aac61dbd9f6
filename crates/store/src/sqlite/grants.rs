//! The rows of grants, read and changed within a transaction.

use super::transaction::{Transaction, encode};
use sqlx::{Row as _, SqlitePool};
use valvehouse_json::Json;

pub(super) async fn all(pool: &SqlitePool) -> Result<Vec<(String, Json)>, sqlx::Error> {
    let rows = sqlx::query("SELECT id, content FROM grants WHERE id NOT LIKE '%@%' ORDER BY id")
        .fetch_all(pool)
        .await?;
    rows.into_iter()
        .map(|row| {
            let id: String = row.try_get("id")?;
            let grants = read(&id, row.try_get("content")?)?;
            Ok((id, grants))
        })
        .collect()
}

/// Puts grants in place of the expected ones; false when others are there.
pub(super) async fn set(
    transaction: &mut Transaction,
    id: &str,
    grants: Option<&Json>,
    expected: Option<&Json>,
) -> Result<bool, sqlx::Error> {
    let Some(grants) = grants else {
        // Taking everything back is right whatever is there, also when nobody can read it.
        sqlx::query("DELETE FROM grants WHERE id = ?").bind(id).execute(&mut **transaction).await?;
        return Ok(true);
    };
    if grants.as_object().is_none() {
        return Err(sqlx::Error::Encode("grants must be an object of capabilities".into()));
    }
    if of(transaction, id).await?.as_ref() != expected {
        return Ok(false);
    }
    sqlx::query("INSERT OR REPLACE INTO grants (id, content) VALUES (?, ?)")
        .bind(id)
        .bind(encode(grants)?)
        .execute(&mut **transaction)
        .await?;
    Ok(true)
}

async fn of(transaction: &mut Transaction, id: &str) -> Result<Option<Json>, sqlx::Error> {
    let content: Option<String> = sqlx::query_scalar("SELECT content FROM grants WHERE id = ?")
        .bind(id)
        .fetch_optional(&mut **transaction)
        .await?;
    content.map(|content| read(id, &content)).transpose()
}

fn read(id: &str, content: &str) -> Result<Json, sqlx::Error> {
    Json::parse(content.as_bytes()).map_err(|error| {
        let what = format!("the stored grants of {id} are no JSON: {error}");
        sqlx::Error::Decode(format!("{what}; `valvehouse grant {id} --revoke` drops them").into())
    })
}
