//! Requests that ended, which the hosts of a store record. A power failure may lose the latest of them.

use super::database::Store;
use crate::error::StoreResult;
use crate::rows::json::{encode, read, stored};
use crate::sql::{Lock, Row, Session, Value, insert, query, query_text, values};
use crate::traces::{SUCCESSFUL, StoredTrace, TraceCursor, TraceFilter, stored_name};
use valvehouse_json::Json;

/// The number of rows in one statement.
const BATCH: usize = 50;
/// The number of rows that are deleted in one statement.
const DELETED: usize = 500;
/// The estimated size of a row without its names and values, in bytes.
const ROW: usize = 200;

const HEAD: &str = "INSERT INTO traces
    (id, at, api_key, user_id, model, status, outcome, took_ms, size, plugins, facts, steps)";

/// Requests that ended.
impl Store {
    /// Adds requests; those with a known id are ignored. Returns the size of the rows in bytes.
    pub async fn add_traces(&self, traces: &[StoredTrace]) -> StoreResult<u64> {
        self.work("store requests", async {
            let mut added = 0;
            let mut transaction = self.queued(|| self.swift.begin(Lock::Nothing)).await?;
            for batch in traces.chunks(BATCH) {
                let mut rows = Vec::with_capacity(batch.len());
                for trace in batch {
                    let (row, size) = self.row_of(trace)?;
                    rows.push(row);
                    added += size;
                }
                let insert = insert(HEAD, rows, "ON CONFLICT (id) DO NOTHING");
                insert.execute(&mut transaction).await?;
            }
            transaction.commit_with(added).await
        })
        .await
    }

    fn row_of<'t>(&self, trace: &'t StoredTrace) -> sqlx::Result<([Value<'t>; 12], u64)> {
        let TraceCursor { us, id } = &trace.at;
        let [key, user, model] =
            [&trace.key, &trace.user, &trace.model].map(|name| stored_name(name).into_owned());
        let plugins: String = trace.plugins.iter().map(|plugin| around(plugin)).collect();
        let seal = |value: &Json, about: String| -> sqlx::Result<Vec<u8>> {
            Ok(self.key.seal_bytes(encode(value)?.as_bytes(), &about))
        };
        let facts = seal(&trace.facts, facts_of(id))?;
        let steps = seal(&without_deep_values(&trace.steps), steps_of(id))?;
        let names = key.len() + user.len() + model.len() + plugins.len();
        let size = (ROW + names + facts.len() + steps.len()) as u64;
        let (status, outcome, took) = (trace.status, &trace.outcome, trace.took_ms);
        Ok((values![id, *us, key, user, model, status, outcome, took, size, plugins, facts, steps], size))
    }

    /// Returns the places and facts of selected requests, the latest first.
    pub async fn traces(&self, filter: &TraceFilter, limit: u64) -> StoreResult<Vec<(TraceCursor, Json)>> {
        let mut text = "SELECT id, at, facts FROM traces WHERE TRUE".to_owned();
        let mut values: Vec<Value<'_>> = Vec::new();
        let mut and = |condition: &str, value: Option<Value<'static>>| {
            if let Some(value) = value {
                text += &format!(" AND {condition}");
                values.push(value);
            }
        };
        let name =
            |name: &Option<String>| name.as_deref().map(|name| Value::from(stored_name(name).into_owned()));
        and("at >= ?", filter.from.map(Value::from));
        and("at < ?", filter.to.map(Value::from));
        and("api_key = ?", name(&filter.key));
        and("user_id = ?", name(&filter.user));
        and("model = ?", name(&filter.model));
        and("outcome = ?", name(&filter.outcome));
        let [first, last] = filter.status.map_or([None, None], |range| range.map(Some));
        and("status >= ?", first.map(Value::from));
        and("status <= ?", last.map(Value::from));
        and("took_ms >= ?", filter.min_ms.map(Value::from));
        and("replace(plugins, ?, '') <> plugins", filter.plugin.as_deref().map(|id| around(id).into()));
        if let Some(failed) = filter.failed {
            let is = if failed { "NOT IN" } else { "IN" };
            text += &format!(" AND outcome {is} ('{}')", SUCCESSFUL.join("', '"));
        }
        if let Some(TraceCursor { us, id }) = &filter.before {
            text += " AND (at, id) < (?, ?)";
            values.extend(values![*us, id]);
        }
        text += " ORDER BY at DESC, id DESC LIMIT ?";
        let read = |row: &Row| {
            let at = TraceCursor { us: row.try_get("at")?, id: row.try_get("id")? };
            let facts = self.opened(row, "facts", &facts_of(&at.id))?;
            Ok((at, facts))
        };
        self.fetch("list stored requests", query_text(text).bind_all(values).bind(limit), read).await
    }

    /// Returns the facts and steps of the request with this id.
    pub async fn trace(&self, id: &str) -> StoreResult<Option<[Json; 2]>> {
        let select = query("SELECT facts, steps FROM traces WHERE id = ?").bind(id);
        let read = |row: &Row| {
            Ok([self.opened(row, "facts", &facts_of(id))?, self.opened(row, "steps", &steps_of(id))?])
        };
        Ok(self.fetch("read a stored request", select, read).await?.pop())
    }

    fn opened(&self, row: &Row, column: &str, about: &str) -> sqlx::Result<Json> {
        let changed =
            || sqlx::Error::Decode(format!("the {about} cannot be decrypted: it was changed by hand").into());
        let plain = self.key.open_bytes(row.try_get(column)?, about).ok_or_else(changed)?;
        read(|| about.to_owned(), &String::from_utf8_lossy(&plain))
    }

    /// Deletes the requests that began before this time in microseconds since 1970, and the oldest of those that exceed
    /// this size in bytes together, in batches. Keys share the size: each loses only what exceeds its share. Returns their
    /// number.
    pub async fn prune_traces(&self, before: i64, max_size: u64) -> StoreResult<u64> {
        let all =
            query("SELECT CAST(SUM(size) AS BIGINT) AS size FROM traces WHERE at >= ? GROUP BY api_key");
        let sizes =
            self.fetch("measure stored requests", all.bind(before), |row| row.try_get("size")).await?;
        let share = share(sizes, i64::try_from(max_size).unwrap_or(i64::MAX));
        let old = match share {
            // Each owner has less than its share.
            i64::MAX => query("SELECT id FROM traces WHERE at < ?").bind(before),
            _ => query(
                "SELECT id FROM (SELECT id, at,
                     SUM(size) OVER (PARTITION BY api_key ORDER BY at DESC, id DESC) AS newer FROM traces) AS sizes
                 WHERE at < ? OR newer > ?",
            )
            .bind_all(values![before, share]),
        };
        let old = self.fetch("list old requests", old, |row| row.try_get::<String>("id")).await?;
        let mut deleted = 0;
        for ids in old.chunks(DELETED) {
            let places = vec!["?"; ids.len()].join(", ");
            let delete = query_text(format!("DELETE FROM traces WHERE id IN ({places})"));
            let delete = delete.bind_all(ids.iter().map(Value::from));
            deleted += self.execute("delete old requests", delete).await?;
        }
        Ok(deleted)
    }
}

/// Returns the number of requests of a user.
pub(super) async fn count(session: &mut Session, user: &str) -> sqlx::Result<u64> {
    let count = query("SELECT count(*) FROM traces WHERE user_id = ?").bind(stored_name(user).into_owned());
    Ok(count.fetch_scalar::<i64>(session).await?.unsigned_abs())
}

/// Deletes the requests of a user.
pub(super) async fn forget(session: &mut Session, user: &str) -> sqlx::Result<()> {
    let delete = query("DELETE FROM traces WHERE user_id = ?").bind(stored_name(user).into_owned());
    delete.execute(session).await.map(drop)
}

/// Returns the largest share with which owners that use these sizes have at most this maximum together.
fn share(mut sizes: Vec<i64>, max_size: i64) -> i64 {
    sizes.sort_unstable();
    let (mut left, mut owners) = (max_size, sizes.len() as i64);
    for size in sizes {
        if size > left / owners {
            return left / owners;
        }
        (left, owners) = (left - size, owners - 1);
    }
    i64::MAX
}

/// Returns steps and events without their values if these are nested too deeply to be read again.
fn without_deep_values(steps: &Json) -> Json {
    if stored(steps, 0).is_ok() {
        return steps.clone();
    }
    let without = |list: &'static str, name: &str, value: Json| {
        let items = steps.list(list).into_iter().map(|item| {
            let item = item.deep_clone();
            item.put(name, value.clone());
            item
        });
        (list, items.collect::<Vec<_>>().into())
    };
    let lines = ("lines", steps.field("lines"));
    Json::from([
        without("steps", "values", Json::from(Vec::<Json>::new())),
        lines,
        without("events", "event", Json::Null),
    ])
}

/// Returns the id of a plugin between the marks that separate it from others.
fn around(plugin: &str) -> String {
    format!("\n{plugin}\n")
}

/// Returns the subject that the facts of a request are sealed for.
pub(crate) fn facts_of(id: &str) -> String {
    format!("facts of the request {id:?}")
}

/// Returns the subject that the steps of a request are sealed for.
pub(crate) fn steps_of(id: &str) -> String {
    format!("steps of the request {id:?}")
}
