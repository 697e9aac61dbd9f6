//! Responses of the Responses API, and the events of background responses.

use super::database::Store;
use crate::clock::now;
use crate::error::StoreResult;
use crate::responses::{RECENT_RESPONSES, StoredResponse};
use crate::sql::{self, Lock, Row, columns, query, values};

/// The maximum number of events per statement.
const AT_ONCE: usize = 100;

/// Responses of the Responses API. Expired ones are not returned, and are deleted by later writes.
impl Store {
    /// Stores a response that its client may continue, finished or with a runner.
    pub async fn save_response(&self, stored: &StoredResponse) -> StoreResult<()> {
        self.work("store a response", async {
            let mut transaction = self.begin(Lock::Nothing).await?;
            for table in ["responses", "response_events"] {
                let expired = sql::query_text(format!("DELETE FROM {table} WHERE expires_ms <= ?"));
                expired.bind(now()).execute(&mut transaction).await?;
            }
            let insert = "INSERT INTO responses
                 (id, owner, expires_ms, input_items, items, response, runner, seen_ms, size)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
            query(insert)
                .bind_all(values![&stored.id, &stored.owner, stored.expires_ms, stored.input_items as u64])
                .bind_all(values![&stored.items, &stored.response, &stored.runner, stored.seen_ms])
                .bind(stored.size() as u64)
                .execute(&mut transaction)
                .await?;
            transaction.commit().await
        })
        .await
    }

    /// Returns the response with this id unless it has expired.
    pub async fn response(&self, id: &str) -> StoreResult<Option<StoredResponse>> {
        let response = |row: &Row| {
            Ok(columns!(row => StoredResponse { id, owner, expires_ms, items, response, runner, seen_ms;
                input_items: usize::try_from(row.try_get::<i64>("input_items")?).unwrap_or_default(),
            }))
        };
        let text = "SELECT id, owner, expires_ms, input_items, items, response, runner, seen_ms
             FROM responses WHERE id = ? AND expires_ms > ?";
        let query = query(text).bind_all(values![id, now()]);
        Ok(self.fetch("read a response", query, response).await?.pop())
    }

    /// Returns the items of a conversation of this caller that contains an item's id, given as a text. The
    /// latest [`RECENT_RESPONSES`] and the stored conversations are searched.
    pub async fn response_items_with(&self, owner: &str, text: &str) -> StoreResult<Option<String>> {
        self.work("read the items of responses", async {
            let mut session = self.swift.session().await?;
            let stored = "SELECT items.item FROM response_conversation_items AS items
                 JOIN response_conversations AS whole ON whole.id = items.conversation
                 WHERE items.id = ? AND whole.owner = ? AND whole.expires_ms > ? LIMIT 1";
            let query_stored = query(stored).bind_all(values![text.trim_matches('"'), owner, now()]);
            if let Some(item) = query_stored.fetch_scalar_optional::<String>(&mut session).await? {
                return Ok(Some(format!("[{item}]")));
            }
            let recent = "SELECT items FROM (SELECT items FROM responses WHERE owner = ? AND expires_ms > ?
                 ORDER BY expires_ms DESC LIMIT ?) AS recent WHERE replace(items, ?, '') <> items LIMIT 1";
            let query = query(recent).bind_all(values![owner, now(), RECENT_RESPONSES, text]);
            query.fetch_scalar_optional(&mut session).await
        })
        .await
    }

    /// Returns the bytes of the stored responses and conversations of a caller.
    pub async fn stored_size(&self, owner: &str) -> StoreResult<i64> {
        self.work("add up the responses of a caller", async {
            let mut session = self.swift.session().await?;
            let mut size = 0;
            for table in ["responses", "response_conversations"] {
                let sum = sql::query_text(format!(
                    "SELECT CAST(coalesce(sum(size), 0) AS BIGINT) FROM {table} WHERE owner = ? AND expires_ms > ?"
                ));
                size += sum.bind_all(values![owner, now()]).fetch_scalar::<i64>(&mut session).await?;
            }
            Ok(size)
        })
        .await
    }

    /// Deletes the response with this id, if any, and its events.
    pub async fn delete_response(&self, id: &str) -> StoreResult<()> {
        self.work("delete a response", async {
            let mut transaction = self.begin(Lock::Nothing).await?;
            for text in
                ["DELETE FROM responses WHERE id = ?", "DELETE FROM response_events WHERE response = ?"]
            {
                query(text).bind(id).execute(&mut transaction).await?;
            }
            transaction.commit().await
        })
        .await
    }

    /// Returns the runner of a response and the time of its last heartbeat; `None` if the response does not
    /// exist.
    pub async fn response_runner(&self, id: &str) -> StoreResult<Option<(String, i64)>> {
        let query = query("SELECT runner, seen_ms FROM responses WHERE id = ? AND expires_ms > ?");
        let query = query.bind_all(values![id, now()]);
        let runner = |row: &Row| Ok((row.try_get("runner")?, row.try_get("seen_ms")?));
        Ok(self.fetch("read the runner of a response", query, runner).await?.pop())
    }

    /// Records a heartbeat of a runner. Returns `false` if the runner no longer owns the response: it was
    /// canceled, deleted, or taken for lost.
    pub async fn touch_response(&self, id: &str, runner: &str) -> StoreResult<bool> {
        let touch = query("UPDATE responses SET seen_ms = ? WHERE id = ? AND runner = ?");
        let touch = touch.bind_all(values![now(), id, runner]);
        Ok(self.execute("record that a response is alive", touch).await? > 0)
    }

    /// Updates the response of its runner, and finishes it if `is_over` is set. Returns `false` and changes
    /// nothing if the runner no longer owns it. `items` replaces the items of the conversation.
    pub async fn change_response(
        &self,
        id: &str,
        runner: &str,
        response: &str,
        items: Option<&str>,
        is_over: bool,
    ) -> StoreResult<bool> {
        self.work("update a response", async {
            let mut transaction = self.begin(Lock::Nothing).await?;
            let change =
                "UPDATE responses SET response = ?, items = coalesce(?, items), runner = ?, seen_ms = ?
                 WHERE id = ? AND runner = ?";
            let next = if is_over { "" } else { runner };
            let change = query(change).bind_all(values![response, items, next, now(), id, runner]);
            let changed = change.execute(&mut transaction).await?;
            let measure =
                "UPDATE responses SET size = octet_length(items) + octet_length(response) WHERE id = ?";
            query(measure).bind(id).execute(&mut transaction).await?;
            transaction.commit_with(changed > 0).await
        })
        .await
    }

    /// Stores numbered events of a response, which expire at a time in milliseconds since 1970. Events with
    /// existing numbers are unchanged.
    pub async fn append_response_events(
        &self,
        id: &str,
        events: &[(i64, String)],
        expires_ms: i64,
    ) -> StoreResult<()> {
        self.work("store the events of a response", async {
            // Events are written continuously, so a power failure may lose the latest.
            let mut transaction = self.swift.begin(Lock::Nothing).await?;
            for events in events.chunks(AT_ONCE) {
                let rows = events.iter().map(|(number, event)| values![id, *number, expires_ms, event]);
                let head = "INSERT INTO response_events (response, number, expires_ms, event)";
                sql::insert(head, rows, "ON CONFLICT DO NOTHING").execute(&mut transaction).await?;
            }
            transaction.commit().await
        })
        .await
    }

    /// Returns at most `limit` events of a response that follow the given number.
    pub async fn response_events(&self, id: &str, after: i64, limit: i64) -> StoreResult<Vec<(i64, String)>> {
        let text = "SELECT number, event FROM response_events
             WHERE response = ? AND number > ? AND expires_ms > ? ORDER BY number LIMIT ?";
        let query = query(text).bind_all(values![id, after, now(), limit]);
        let event = |row: &Row| Ok((row.try_get("number")?, row.try_get("event")?));
        self.fetch("read the events of a response", query, event).await
    }
}
