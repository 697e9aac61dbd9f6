//! Stored responses, which a client can continue, read and delete later.

use axum::http::HeaderMap;
use axum::http::request::Parts;
use compact_str::CompactString;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_store::{RUNNER_SILENCE, StoredResponse, now};
use valvehouse_wire::responses::request::ResponsesRequest;

use super::conversations::{self, check_room};
use super::pages::read_stored;
use crate::auth;

/// The time for which a response is stored, as in OpenAI's API.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// The maximum size of the input and output of a stored response together, in bytes.
const MAX_SIZE: usize = 16 << 20;

/// Stores a response when it ends.
pub(super) struct Keeper {
    app: Arc<App>,
    asker: String,
    /// The items of the conversation so far, including those of this request.
    input: Vec<Json>,
    /// The number of items before those of this request.
    earlier: usize,
    /// Set if the response itself is stored.
    stores: bool,
    /// The stored conversation that the response continues.
    conversation: Option<String>,
}

impl Keeper {
    /// Returns the keeper for a request; `None` if nothing of its response is stored.
    pub(super) fn new(app: &Arc<App>, headers: &HeaderMap, request: &ResponsesRequest) -> Option<Self> {
        let stores = request.sent.get("store").and_then(|store| store.as_bool()) != Some(false);
        let conversation = request.conversation_id.clone();
        (stores || conversation.is_some()).then(|| Self {
            app: app.clone(),
            asker: auth::asker(app, headers),
            input: request.items(),
            earlier: request.earlier,
            stores,
            conversation,
        })
    }

    /// Stores a response. If that fails, the error is logged and the response contains `store: false`,
    /// because its client already has the answer.
    pub(super) async fn keep(self, response: &Json) {
        self.add_to_conversation(response).await;
        // A new response accepts any value.
        if self.stores && !self.stored(response).await && response.set("store", false).is_err() {
            tracing::error!("cannot mark a response as not stored: it is read-only");
        }
    }

    /// Adds the new items to the conversation of the request, unless the response failed or was canceled.
    async fn add_to_conversation(&self, response: &Json) {
        let Some(id) = &self.conversation else { return };
        if matches!(response.text("status").as_deref(), Some("failed" | "cancelled")) {
            return;
        }
        let output = response.list("output");
        let items: Vec<Json> = self.input.iter().skip(self.earlier).cloned().chain(output).collect();
        if let Err(error) = conversations::append(&self.app, id, &items).await {
            tracing::warn!("cannot add to the conversation {id}: {error}");
        }
    }

    /// Returns the items of the conversation, followed by those of a response.
    fn items_with(&self, response: &Json) -> Vec<Json> {
        let has_failed = response.is_text("status", "failed");
        let output = response.list("output").into_iter();
        // A conversation cannot continue after an incomplete call.
        let output = output
            .filter(|item| !has_failed || item.text("status").is_none_or(|status| status == "completed"));
        self.input.iter().cloned().chain(output).collect()
    }

    fn row(&self, response: &Json, runner: &str) -> StoredResponse {
        let kept = i64::try_from(KEPT.as_millis()).unwrap_or(i64::MAX);
        StoredResponse {
            id: response.string("id"),
            owner: self.asker.clone(),
            expires_ms: now().saturating_add(kept),
            input_items: self.input.len(),
            items: Json::from(self.items_with(response)).to_string(),
            response: response.to_string(),
            runner: runner.to_owned(),
            seen_ms: now(),
        }
    }

    async fn stored(&self, response: &Json) -> bool {
        let stored = self.row(response, "");
        if let Err(error) = check_room(&self.app, &self.asker, stored.size()).await {
            tracing::warn!("cannot store the response {}: {error}", stored.id);
            return false;
        }
        if stored.size() > MAX_SIZE {
            tracing::warn!(
                "cannot store the response {}: it exceeded its limit of {MAX_SIZE} bytes",
                stored.id
            );
            return false;
        }
        let saved = self.app.host.store().save_response(&stored).await;
        if let Err(error) = &saved {
            tracing::warn!("cannot store the response {}: {error}", stored.id);
        }
        saved.is_ok()
    }

    /// Stores a response that starts in the background.
    ///
    /// # Errors
    /// Returns a request error if the response is too large, and the error of the store.
    pub(super) async fn begin(&self, response: &Json) -> Result<(), Error> {
        let stored = self.row(response, &self.app.detached.runner);
        if stored.size() > MAX_SIZE {
            return Err(Error::Request {
                message: format!(
                    "cannot answer in the background: the conversation exceeded its limit of {MAX_SIZE} bytes"
                ),
                param: Some("background"),
                code: Some("request_too_large"),
                kind: RequestErrorKind::TooLarge,
            });
        }
        check_room(&self.app, &self.asker, stored.size()).await?;
        Ok(self.app.host.store().save_response(&stored).await?)
    }

    /// Stores the end of a response in the background. Returns `false` if another host took it over. Its
    /// items are added to its conversation once (`is_added`), before the end is visible.
    ///
    /// # Errors
    /// Returns the error of the store.
    pub(super) async fn finish(&self, id: &str, response: &Json, is_added: &mut bool) -> Result<bool, Error> {
        let items = Json::from(self.items_with(response)).to_string();
        let store = self.app.host.store();
        let runner = &self.app.detached.runner;
        if !store.touch_response(id, runner).await? {
            return Ok(false);
        }
        if !std::mem::replace(is_added, true) {
            self.add_to_conversation(response).await;
        }
        Ok(store.change_response(id, runner, &response.to_string(), Some(&items), true).await?)
    }
}

/// Returns the response with this id if it belongs to the caller.
///
/// # Errors
/// Returns a request error with status 401 for an unknown key or 404 for an unknown response, and the error
/// of the store.
pub(super) async fn find(app: &App, parts: &Parts, id: &str) -> Result<StoredResponse, Error> {
    auth::user_of_key(app, parts)?;
    let asker = auth::asker(app, &parts.headers);
    let stored = app.host.store().response(id).await?;
    let stored = stored.filter(|stored| stored.owner == asker).ok_or_else(|| not_found(id))?;
    if stored.runner.is_empty() || !is_lost(stored.seen_ms) {
        return Ok(stored);
    }
    give_up(app, &stored).await?;
    app.host.store().response(id).await?.ok_or_else(|| not_found(id))
}

/// Returns `true` if the last heartbeat of a runner, in milliseconds since the epoch, is too old.
pub(super) fn is_lost(seen_ms: i64) -> bool {
    let silence = i64::try_from(RUNNER_SILENCE.as_millis()).unwrap_or(i64::MAX);
    now().saturating_sub(seen_ms) > silence
}

/// Marks a response as failed because its runner is gone.
async fn give_up(app: &App, stored: &StoredResponse) -> Result<(), Error> {
    let response = response_of(stored)?;
    response.put("status", "failed");
    let error = [
        ("code", "server_error".into()),
        (
            "message",
            "the host of this response stopped before it was finished; send the request again".into(),
        ),
    ];
    response.put("error", Json::from(error));
    let store = app.host.store();
    store.change_response(&stored.id, &stored.runner, &response.to_string(), None, true).await?;
    Ok(())
}

/// Deletes a response if it belongs to the caller.
///
/// # Errors
/// Returns the errors of [`find`].
pub(super) async fn delete(app: &App, parts: &Parts, id: &str) -> Result<(), Error> {
    find(app, parts, id).await?;
    app.host.store().delete_response(id).await?;
    app.detached.cancel(id);
    Ok(())
}

/// Returns the items of the conversation that ends with a response, for the response that continues it.
///
/// # Errors
/// Returns the errors of [`find`], with status 400 because the request names the response.
pub(super) async fn before(app: &App, parts: &Parts, id: &str) -> Result<Vec<Json>, Error> {
    match find(app, parts, id).await {
        Ok(stored) if stored.runner.is_empty() => items(&stored),
        Ok(_) => Err(Error::Request {
            message: format!("previous response `{id}` is not finished: wait until it is completed"),
            param: Some("previous_response_id"),
            code: Some("previous_response_not_completed"),
            kind: RequestErrorKind::Invalid,
        }),
        Err(Error::Request { .. }) => Err(Error::Request {
            message: format!(
                "previous response `{id}` not found: it was not stored, has expired, or belongs to another caller"
            ),
            param: Some("previous_response_id"),
            code: Some("previous_response_not_found"),
            kind: RequestErrorKind::Invalid,
        }),
        Err(error) => Err(error),
    }
}

/// Replaces the item references in the input of a request by the items. `before` contains the items of the
/// continued conversation and is searched first.
///
/// # Errors
/// Returns a request error with status 400 for an item that is missing from the caller's latest responses.
pub(super) async fn resolve(
    app: &App,
    headers: &HeaderMap,
    sent: &Json,
    before: &[Json],
) -> Result<(), Error> {
    let is_reference = |item: &Json| item.is_text("type", "item_reference");
    let input = sent.list("input");
    if !input.iter().any(is_reference) {
        return Ok(());
    }
    let owner = auth::asker(app, headers);
    let mut known: HashMap<CompactString, Json> = HashMap::new();
    let learn = |known: &mut HashMap<_, _>, items: Vec<Json>| {
        for item in items {
            if let Some(id) = item.text("id") {
                known.entry(id).or_insert(item);
            }
        }
    };
    learn(&mut known, before.to_vec());
    let mut resolved = Vec::with_capacity(input.len());
    for (at, item) in input.into_iter().enumerate() {
        if !is_reference(&item) {
            resolved.push(item);
            continue;
        }
        let id = item.text_or_empty("id");
        let id = if id.len() > 3 { id } else { "".into() };
        if !id.is_empty()
            && !known.contains_key(&id)
            && let Some(items) = app.host.store().response_items_with(&owner, &format!("\"{id}\"")).await?
        {
            learn(&mut known, parsed_items(&items)?);
        }
        let found = known.get(&id).filter(|_| !id.is_empty()).cloned();
        resolved.push(found.ok_or_else(|| Error::Request {
            message: format!("unknown item `{id}` in input[{at}]: the latest responses do not contain it; send the item itself"),
            param: Some("input"),
            code: Some("item_not_found"),
            kind: RequestErrorKind::Invalid,
        })?);
    }
    if sent.set("input", resolved).is_err() {
        return Err(Error::Host("cannot resolve the items of a request: it is read-only".into()));
    }
    Ok(())
}

/// Returns the items of a conversation, up to and including a response.
pub(super) fn items(stored: &StoredResponse) -> Result<Vec<Json>, Error> {
    parsed_items(&stored.items)
}

fn parsed_items(items: &str) -> Result<Vec<Json>, Error> {
    Ok(read_stored(items, "the items of a response")?.items())
}

/// Returns the resource of a response as stored last.
///
/// # Errors
/// Returns the errors of [`read_stored`].
pub(super) fn response_of(stored: &StoredResponse) -> Result<Json, Error> {
    read_stored(&stored.response, "a response")
}

fn not_found(id: &str) -> Error {
    Error::Request {
        message: format!(
            "unknown response `{id}`: it was not stored, has expired, or belongs to another caller"
        ),
        param: None,
        code: Some("response_not_found"),
        kind: RequestErrorKind::NotFound,
    }
}
