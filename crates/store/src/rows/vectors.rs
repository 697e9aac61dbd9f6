//! The rows of vectors and of their spaces.

use super::conversations::rows::{counted, refused, whole_number};
use super::json::AT_ONCE;
use crate::clock::now;
use crate::seal::SealKey;
use crate::sql::{Row, Session, Value, insert, query, query_scalar, query_text};
use crate::vectors::{
    StoredVector, VectorChange, VectorOwner, VectorSelection, VectorSpace, check_change, checked_growth,
};
use sqlx::Error;
use valvehouse_json::Json;

/// Returns the subject that a vector and its data are sealed for, so that they open under no other id or
/// user.
pub(crate) fn subject(scope: &str, id: &str) -> String {
    format!("vector {scope:?} {id:?}")
}

fn space_of(row: &Row) -> Result<VectorSpace, Error> {
    Ok(VectorSpace {
        version: counted(row, "version")?,
        label: row.try_get("label")?,
        dimensions: counted(row, "dimensions")?,
        count: counted(row, "count")?,
        bytes: counted(row, "bytes")?,
    })
}

pub(crate) async fn space(session: &mut Session, owner: &VectorOwner) -> Result<VectorSpace, Error> {
    let text =
        "SELECT version, label, dimensions, count, bytes FROM vector_spaces WHERE plugin = ? AND scope = ?";
    let row = query(text).bind(&owner.plugin).bind(&owner.scope).fetch_optional(session).await?;
    row.as_ref().map_or_else(|| Ok(VectorSpace::default()), space_of)
}

pub(crate) async fn select(
    session: &mut Session,
    key: &SealKey,
    owner: &VectorOwner,
    selection: VectorSelection<'_>,
) -> Result<Vec<StoredVector>, Error> {
    let (plugin, scope) = (&owner.plugin, &owner.scope);
    let rows = match selection {
        VectorSelection::Changed { since, after, limit } => {
            let text = "SELECT id, version, at, vector FROM vectors
                WHERE plugin = ? AND scope = ? AND version > ? AND id > ? ORDER BY id LIMIT ?";
            let query = query(text).bind(plugin).bind(scope).bind(whole_number(since)).bind(after);
            query.bind(whole_number(limit)).fetch_all(session).await?
        }
        VectorSelection::All { after, limit } => {
            let text = "SELECT id, version, at, data FROM vectors
                WHERE plugin = ? AND scope = ? AND id > ? ORDER BY id LIMIT ?";
            let query = query(text).bind(plugin).bind(scope).bind(after).bind(whole_number(limit));
            query.fetch_all(session).await?
        }
        VectorSelection::Ids(ids) => {
            let mut rows = Vec::new();
            for ids in ids.chunks(AT_ONCE) {
                let text = format!(
                    "SELECT id, version, at, data FROM vectors
                     WHERE plugin = ? AND scope = ? AND id IN ({}) ORDER BY id",
                    marks(ids.len())
                );
                let query = query_text(text).bind(plugin).bind(scope);
                let query = ids.iter().fold(query, |query, id| query.bind(id));
                rows.extend(query.fetch_all(session).await?);
            }
            rows
        }
    };
    let with_data = !matches!(selection, VectorSelection::Changed { .. });
    let mut vectors = Vec::with_capacity(rows.len());
    for row in &rows {
        let id: String = row.try_get("id")?;
        let about = subject(scope, &id);
        let (data, vector) = match with_data {
            true => {
                let plain = key.open(row.try_get("data")?, &about);
                (plain.and_then(|plain| Json::parse(plain.as_bytes()).ok()), Some(Vec::new()))
            }
            false => {
                let plain = key.open_bytes(row.try_get("vector")?, &about);
                (Some(Json::Null), plain.map(|plain| from_bytes(&plain)))
            }
        };
        // A vector that was changed by hand must not hide the others.
        let (Some(data), Some(vector)) = (data, vector) else {
            tracing::warn!(id, "skipped a vector that cannot be decrypted: it was changed by hand");
            continue;
        };
        let at = row.try_get("at")?;
        vectors.push(StoredVector { id, version: counted(row, "version")?, at, data, vector });
    }
    Ok(vectors)
}

fn marks(count: usize) -> String {
    vec!["?"; count].join(", ")
}

fn to_bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|part| part.to_le_bytes()).collect()
}

fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    let parts = bytes.chunks_exact(4);
    parts.map(|part| f32::from_le_bytes([part[0], part[1], part[2], part[3]])).collect()
}

/// Starts a change of a space: locks its row until the transaction ends, and raises its version.
async fn raise(session: &mut Session, owner: &VectorOwner) -> Result<VectorSpace, Error> {
    let text = "INSERT INTO vector_spaces (plugin, scope, version, label, dimensions, count, bytes)
        VALUES (?, ?, 1, '', 0, 0, 0)
        ON CONFLICT (plugin, scope) DO UPDATE SET version = vector_spaces.version + 1
        RETURNING version, label, dimensions, count, bytes";
    let row = query(text).bind(&owner.plugin).bind(&owner.scope).fetch_one(session).await?;
    space_of(&row)
}

async fn save(session: &mut Session, owner: &VectorOwner, space: &VectorSpace) -> Result<(), Error> {
    let text = "UPDATE vector_spaces SET label = ?, dimensions = ?, count = ?, bytes = ? WHERE plugin = ? AND scope = ?";
    let query = query(text).bind(&space.label).bind(whole_number(space.dimensions));
    let query = query.bind(whole_number(space.count)).bind(whole_number(space.bytes));
    query.bind(&owner.plugin).bind(&owner.scope).execute(session).await?;
    Ok(())
}

/// Deletes these vectors, or all of a space, and returns their number and size in bytes.
async fn remove(
    session: &mut Session,
    owner: &VectorOwner,
    ids: Option<&[String]>,
) -> Result<(u64, u64), Error> {
    let (plugin, scope) = (&owner.plugin, &owner.scope);
    let Some(ids) = ids else {
        let before = space(session, owner).await?;
        let query = query("DELETE FROM vectors WHERE plugin = ? AND scope = ?").bind(plugin).bind(scope);
        query.execute(session).await?;
        return Ok((before.count, before.bytes));
    };
    let (mut count, mut bytes) = (0, 0);
    for ids in ids.chunks(AT_ONCE) {
        let text = format!(
            "DELETE FROM vectors WHERE plugin = ? AND scope = ? AND id IN ({}) RETURNING bytes",
            marks(ids.len())
        );
        let query = query_text(text).bind(plugin).bind(scope);
        let query = ids.iter().fold(query, |query, id| query.bind(id));
        for row in query.fetch_all(session).await? {
            (count, bytes) = (count + 1, bytes + counted(&row, "bytes")?);
        }
    }
    Ok((count, bytes))
}

pub(crate) async fn change(
    session: &mut Session,
    key: &SealKey,
    owner: &VectorOwner,
    change: &VectorChange<'_>,
) -> Result<VectorSpace, Error> {
    let texts = check_change(change).map_err(refused)?;
    let before = raise(session, owner).await?;
    // If several vectors have one id, the last one counts.
    let mut put: Vec<(&crate::vectors::NewVector, String)> = Vec::with_capacity(texts.len());
    let mut places = std::collections::HashMap::new();
    for (one, text) in change.put.iter().zip(texts) {
        match places.insert(one.id.as_str(), put.len()) {
            Some(place) => {
                places.insert(one.id.as_str(), place);
                put[place] = (one, text);
            }
            None => put.push((one, text)),
        }
    }
    let ids: Vec<String> = put.iter().map(|(one, _)| one.id.clone()).collect();
    let (removed, freed) = remove(session, owner, (!change.replace).then_some(&ids)).await?;
    let others = VectorSpace {
        count: before.count.saturating_sub(removed),
        bytes: before.bytes.saturating_sub(freed),
        ..before.clone()
    };
    let sizes: Vec<u64> = put.iter().map(|(one, text)| one.size(text)).collect();
    let after = VectorSpace {
        version: before.version,
        label: change.label.to_owned(),
        dimensions: put.first().map_or(others.dimensions, |(one, _)| one.vector.len() as u64),
        count: others.count + put.len() as u64,
        bytes: others.bytes + sizes.iter().sum::<u64>(),
    };
    let owned = match owner.plugin.is_empty() {
        // Each user has a separate limit.
        true => after.bytes,
        false => {
            let sum: i64 = query_scalar(
                "SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM vector_spaces WHERE plugin = ? AND scope <> ?",
            )
            .bind(&owner.plugin)
            .bind(&owner.scope)
            .fetch_one(session)
            .await?;
            after.bytes + sum.unsigned_abs()
        }
    };
    let after = checked_growth(change, &others, after, owned).map_err(refused)?;
    let at = now();
    let rows: Vec<_> = put.iter().zip(&sizes).collect();
    for rows in rows.chunks(AT_ONCE) {
        let values = rows.iter().map(|((one, text), size)| -> [Value<'_>; 8] {
            let about = subject(&owner.scope, &one.id);
            [
                (&owner.plugin).into(),
                (&owner.scope).into(),
                (&one.id).into(),
                whole_number(after.version).into(),
                at.into(),
                whole_number(**size).into(),
                key.seal(text, &about).into(),
                key.seal_bytes(&to_bytes(&one.vector), &about).into(),
            ]
        });
        let head = "INSERT INTO vectors (plugin, scope, id, version, at, bytes, data, vector)";
        insert(head, values, "").execute(session).await?;
    }
    save(session, owner, &after).await?;
    Ok(after)
}

pub(crate) async fn delete(
    session: &mut Session,
    owner: &VectorOwner,
    ids: Option<&[String]>,
) -> Result<u64, Error> {
    let before = raise(session, owner).await?;
    let (removed, freed) = remove(session, owner, ids).await?;
    let count = before.count.saturating_sub(removed);
    let bytes = before.bytes.saturating_sub(freed);
    // An empty space accepts vectors of any model.
    let (label, dimensions) = match count {
        0 => (String::new(), 0),
        _ => (before.label, before.dimensions),
    };
    let after = VectorSpace { version: before.version, label, dimensions, count, bytes };
    save(session, owner, &after).await?;
    Ok(removed)
}
