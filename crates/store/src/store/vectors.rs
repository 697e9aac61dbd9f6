//! Vectors and their spaces.

use super::database::Store;
use crate::clock::now;
use crate::error::StoreFuture;
use crate::rows::json::{AT_ONCE, refused};
use crate::sql::{Lock, Row, Session, insert, query, query_text, values};
use crate::vectors::{
    NewVector, StoredVector, VectorChange, VectorOwner, VectorSelection, VectorSpace, Vectors, check_change,
    checked_growth,
};
use std::collections::HashMap;
use valvehouse_json::Json;

impl Vectors for Store {
    fn id_of(&self, owner: &VectorOwner, text: &str) -> String {
        self.key.id_of(text, &owner.scope)
    }

    fn vector_space<'a>(&'a self, owner: &'a VectorOwner) -> StoreFuture<'a, VectorSpace> {
        Box::pin(
            self.work(
                "read stored vectors",
                async move { space(&mut self.swift.session().await?, owner).await },
            ),
        )
    }

    fn vectors<'a>(
        &'a self,
        owner: &'a VectorOwner,
        selection: VectorSelection<'a>,
    ) -> StoreFuture<'a, Vec<StoredVector>> {
        Box::pin(self.work("read stored vectors", async move {
            let rows = select(&mut self.swift.session().await?, owner, selection).await?;
            let with_data = !matches!(selection, VectorSelection::Changed { .. });
            let mut vectors = Vec::with_capacity(rows.len());
            for row in &rows {
                let id: String = row.try_get("id")?;
                let about = subject(&owner.scope, &id);
                let (data, vector) = match with_data {
                    true => {
                        let plain = self.key.open(row.try_get("data")?, &about);
                        (plain.and_then(|plain| Json::parse(plain.as_bytes()).ok()), Some(Vec::new()))
                    }
                    false => {
                        let plain = self.key.open_bytes(row.try_get("vector")?, &about);
                        (Some(Json::Null), plain.map(|plain| from_bytes(&plain)))
                    }
                };
                // A vector that was changed by hand must not hide the others.
                let (Some(data), Some(vector)) = (data, vector) else {
                    tracing::warn!(id, "skipped a vector that cannot be decrypted: it was changed by hand");
                    continue;
                };
                let at = row.try_get("at")?;
                vectors.push(StoredVector { id, version: row.count("version")?, at, data, vector });
            }
            Ok(vectors)
        }))
    }

    fn change_vectors<'a>(
        &'a self,
        owner: &'a VectorOwner,
        change: VectorChange<'a>,
    ) -> StoreFuture<'a, VectorSpace> {
        Box::pin(self.work("store vectors", async move {
            let mut transaction = self.begin(Lock::Nothing).await?;
            let texts = check_change(&change).map_err(refused)?;
            let before = raise(&mut transaction, owner).await?;
            let put = last_of_each(change.put, texts);
            let ids: Vec<String> = put.iter().map(|(one, _)| one.id.clone()).collect();
            let (removed, freed) = remove(&mut transaction, owner, (!change.replace).then_some(&ids)).await?;
            let others = VectorSpace {
                count: before.count.saturating_sub(removed),
                bytes: before.bytes.saturating_sub(freed),
                ..before.clone()
            };
            let added: u64 = put.iter().map(|(one, text)| one.size(text)).sum();
            let after = VectorSpace {
                version: before.version,
                label: change.label.to_owned(),
                dimensions: put.first().map_or(others.dimensions, |(one, _)| one.vector.len() as u64),
                count: others.count + put.len() as u64,
                bytes: others.bytes + added,
            };
            let owned = after.bytes + bytes_of_others(&mut transaction, owner).await?;
            let after = checked_growth(&change, &others, after, owned).map_err(refused)?;
            let at = now();
            for put in put.chunks(AT_ONCE) {
                let VectorOwner { plugin, scope } = owner;
                let rows = put.iter().map(|(one, text)| {
                    let about = subject(scope, &one.id);
                    let vector = self.key.seal_bytes(&to_bytes(&one.vector), &about);
                    let data = self.key.seal(text, &about);
                    values![plugin, scope, &one.id, after.version, at, one.size(text), data, vector]
                });
                let head = "INSERT INTO vectors (plugin, scope, id, version, at, bytes, data, vector)";
                insert(head, rows, "").execute(&mut transaction).await?;
            }
            save(&mut transaction, owner, &after).await?;
            transaction.commit_with(after).await
        }))
    }

    fn delete_vectors<'a>(
        &'a self,
        owner: &'a VectorOwner,
        ids: Option<&'a [String]>,
    ) -> StoreFuture<'a, u64> {
        Box::pin(self.work("delete vectors", async move {
            let mut transaction = self.begin(Lock::Nothing).await?;
            let deleted = delete(&mut transaction, owner, ids).await?;
            transaction.commit_with(deleted).await
        }))
    }
}

/// Returns the subject that a vector and its data are sealed for, so that they open under no other id or
/// user.
pub(crate) fn subject(scope: &str, id: &str) -> String {
    format!("vector {scope:?} {id:?}")
}

fn space_of(row: &Row) -> sqlx::Result<VectorSpace> {
    Ok(VectorSpace {
        version: row.count("version")?,
        label: row.try_get("label")?,
        dimensions: row.count("dimensions")?,
        count: row.count("count")?,
        bytes: row.count("bytes")?,
    })
}

async fn space(session: &mut Session, owner: &VectorOwner) -> sqlx::Result<VectorSpace> {
    let text =
        "SELECT version, label, dimensions, count, bytes FROM vector_spaces WHERE plugin = ? AND scope = ?";
    let query = query(text).bind_all(values![&owner.plugin, &owner.scope]);
    query.fetch_optional(session).await?.as_ref().map_or_else(|| Ok(VectorSpace::default()), space_of)
}

async fn select(
    session: &mut Session,
    owner: &VectorOwner,
    selection: VectorSelection<'_>,
) -> sqlx::Result<Vec<Row>> {
    let VectorOwner { plugin, scope } = owner;
    match selection {
        VectorSelection::Changed { since, after, limit } => {
            let text = "SELECT id, version, at, vector FROM vectors
                WHERE plugin = ? AND scope = ? AND version > ? AND id > ? ORDER BY id LIMIT ?";
            query(text).bind_all(values![plugin, scope, since, after, limit]).fetch_all(session).await
        }
        VectorSelection::All { after, limit } => {
            let text = "SELECT id, version, at, data FROM vectors
                WHERE plugin = ? AND scope = ? AND id > ? ORDER BY id LIMIT ?";
            query(text).bind_all(values![plugin, scope, after, limit]).fetch_all(session).await
        }
        VectorSelection::Ids(ids) => {
            let mut rows = Vec::new();
            for ids in ids.chunks(AT_ONCE) {
                let text = format!(
                    "SELECT id, version, at, data FROM vectors
                     WHERE plugin = ? AND scope = ? AND id IN ({}) ORDER BY id",
                    marks(ids.len())
                );
                let query = query_text(text).bind_all(values![plugin, scope]);
                rows.extend(query.bind_all(ids.iter().map(Into::into)).fetch_all(session).await?);
            }
            Ok(rows)
        }
    }
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
async fn raise(session: &mut Session, owner: &VectorOwner) -> sqlx::Result<VectorSpace> {
    let text = "INSERT INTO vector_spaces (plugin, scope, version, label, dimensions, count, bytes)
        VALUES (?, ?, 1, '', 0, 0, 0)
        ON CONFLICT (plugin, scope) DO UPDATE SET version = vector_spaces.version + 1
        RETURNING version, label, dimensions, count, bytes";
    space_of(&query(text).bind_all(values![&owner.plugin, &owner.scope]).fetch_one(session).await?)
}

async fn save(session: &mut Session, owner: &VectorOwner, space: &VectorSpace) -> sqlx::Result<()> {
    let text = "UPDATE vector_spaces SET label = ?, dimensions = ?, count = ?, bytes = ?
        WHERE plugin = ? AND scope = ?";
    let query = query(text).bind_all(values![&space.label, space.dimensions, space.count, space.bytes]);
    query.bind_all(values![&owner.plugin, &owner.scope]).execute(session).await?;
    Ok(())
}

/// Returns the vectors with the texts of their data. If several have one id, the last one counts.
fn last_of_each(put: &[NewVector], texts: Vec<String>) -> Vec<(&NewVector, String)> {
    let mut last: Vec<(&NewVector, String)> = Vec::with_capacity(texts.len());
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (one, text) in put.iter().zip(texts) {
        match places.get(one.id.as_str()) {
            Some(place) => last[*place] = (one, text),
            None => {
                places.insert(&one.id, last.len());
                last.push((one, text));
            }
        }
    }
    last
}

/// Returns the bytes of the owner's other spaces that count for its limit: each user has a separate limit.
async fn bytes_of_others(session: &mut Session, owner: &VectorOwner) -> sqlx::Result<u64> {
    if owner.plugin.is_empty() {
        return Ok(0);
    }
    let text = "SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM vector_spaces
         WHERE plugin = ? AND scope <> ?";
    let sum = query(text).bind_all(values![&owner.plugin, &owner.scope]);
    Ok(sum.fetch_scalar::<i64>(session).await?.unsigned_abs())
}

/// Deletes these vectors, or all of a space, and returns their number and size in bytes.
async fn remove(
    session: &mut Session,
    owner: &VectorOwner,
    ids: Option<&[String]>,
) -> sqlx::Result<(u64, u64)> {
    let VectorOwner { plugin, scope } = owner;
    let Some(ids) = ids else {
        let before = space(session, owner).await?;
        let delete = query("DELETE FROM vectors WHERE plugin = ? AND scope = ?");
        delete.bind_all(values![plugin, scope]).execute(session).await?;
        return Ok((before.count, before.bytes));
    };
    let (mut count, mut bytes) = (0, 0);
    for ids in ids.chunks(AT_ONCE) {
        let text = format!(
            "DELETE FROM vectors WHERE plugin = ? AND scope = ? AND id IN ({}) RETURNING bytes",
            marks(ids.len())
        );
        let delete = query_text(text).bind_all(values![plugin, scope]);
        for row in delete.bind_all(ids.iter().map(Into::into)).fetch_all(session).await? {
            (count, bytes) = (count + 1, bytes + row.count("bytes")?);
        }
    }
    Ok((count, bytes))
}

pub(super) async fn delete(
    session: &mut Session,
    owner: &VectorOwner,
    ids: Option<&[String]>,
) -> sqlx::Result<u64> {
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
