//! Responses that a client can continue, read and delete later.

use axum::http::HeaderMap;
use axum::http::request::Parts;
use compact_str::CompactString;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::fault::{Fault, RequestFault};
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_store::{StoredResponse, now};

use crate::auth;

/// The time for which a response is kept: that of OpenAI's own.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// The largest input and output of a kept response together, in bytes.
const MAX_SIZE: usize = 16 << 20;

/// A response to be stored when it is over.
pub(super) struct Keeper {
    app: Arc<App>,
    asker: String,
    /// The items of the conversation so far, those of this request included.
    input: Vec<Json>,
}

impl Keeper {
    pub(super) fn new(app: &Arc<App>, headers: &HeaderMap, input: Vec<Json>) -> Self {
        Self { app: app.clone(), asker: auth::asker(app, headers), input }
    }

    /// Stores a response. One that cannot be stored is logged, and says `store: false`: its client has its answer.
    pub(super) async fn keep(self, response: &Json) {
        // A response that was just made takes any value.
        if !self.stored(response).await && response.set("store", false).is_err() {
            tracing::error!("cannot say that a response is not stored: it is read-only");
        }
    }

    async fn stored(self, response: &Json) -> bool {
        let id = response.text("id").map(String::from).unwrap_or_default();
        let input_items = self.input.len();
        let output = response.get("output").unwrap_or_default().items();
        let items: Vec<Json> = self.input.into_iter().chain(output).collect();
        let kept = i64::try_from(KEPT.as_millis()).unwrap_or(i64::MAX);
        let stored = StoredResponse {
            id,
            owner: self.asker,
            expires_ms: now().saturating_add(kept),
            input_items,
            items: Json::from(items).to_string(),
            response: response.to_string(),
        };
        if stored.items.len() + stored.response.len() > MAX_SIZE {
            tracing::warn!("cannot store the response {}: it is larger than {MAX_SIZE} bytes", stored.id);
            return false;
        }
        let saved = self.app.host.store().save_response(&stored).await;
        if let Err(error) = &saved {
            tracing::warn!("cannot store the response {}: {error}", stored.id);
        }
        saved.is_ok()
    }
}

/// The response of this id, if it is the caller's.
///
/// # Errors
/// Returns a request fault with status 401 for a key that is not one of the host's and with 404 if there is no such
/// response, and a store's fault if it cannot be read.
pub(super) async fn find(app: &App, parts: &Parts, id: &str) -> Result<StoredResponse, Fault> {
    auth::user_of_key(app, parts)?;
    let stored = app.host.store().response(id).await?;
    let asker = auth::asker(app, &parts.headers);
    stored.filter(|stored| stored.owner == asker).ok_or_else(|| not_found(id))
}

/// Deletes a response, if it is the caller's.
///
/// # Errors
/// As [`find`].
pub(super) async fn delete(app: &App, parts: &Parts, id: &str) -> Result<(), Fault> {
    find(app, parts, id).await?;
    Ok(app.host.store().delete_response(id).await?)
}

/// The items of the conversation that a response ended, for one that continues it.
///
/// # Errors
/// As [`find`], with status 400: the request names it.
pub(super) async fn before(app: &App, parts: &Parts, id: &str) -> Result<Vec<Json>, Fault> {
    match find(app, parts, id).await {
        Ok(stored) => Ok(items(&stored)),
        Err(Fault::Request { .. }) => Err(Fault::Request {
            message: format!(
                "previous response `{id}` not found: it was not stored, has expired, or is another caller's"
            ),
            param: Some("previous_response_id"),
            code: Some("previous_response_not_found"),
            kind: RequestFault::Invalid,
        }),
        Err(fault) => Err(fault),
    }
}

/// Puts the items themselves in place of references to them in the input of a request. Looks first in `before`, the
/// items of the conversation that it continues.
///
/// # Errors
/// Returns a request fault with status 400 for an item that none of the caller's latest responses has.
pub(super) async fn resolve(
    app: &App,
    headers: &HeaderMap,
    sent: &Json,
    before: &[Json],
) -> Result<(), Fault> {
    let is_reference = |item: &Json| item.text("type").is_some_and(|kind| kind == "item_reference");
    let input = sent.get("input").unwrap_or_default().items();
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
        let id = item.text("id").filter(|id| id.len() > 3).unwrap_or_default();
        if !id.is_empty() && !known.contains_key(&id) {
            let stored = app.host.store().response_items_with(&owner, &format!("\"{id}\"")).await?;
            learn(&mut known, stored.map(|items| parsed_items(&items)).unwrap_or_default());
        }
        let found = known.get(&id).filter(|_| !id.is_empty()).cloned();
        resolved.push(found.ok_or_else(|| Fault::Request {
            message: format!("unknown item `{id}` in input[{at}]: none of the latest responses has it; send the item itself"),
            param: Some("input"),
            code: Some("item_not_found"),
            kind: RequestFault::Invalid,
        })?);
    }
    if sent.set("input", resolved).is_err() {
        return Err(Fault::Host("cannot resolve the items of a request: it is read-only".into()));
    }
    Ok(())
}

/// The items of a conversation up to and with a response.
pub(super) fn items(stored: &StoredResponse) -> Vec<Json> {
    parsed_items(&stored.items)
}

fn parsed_items(items: &str) -> Vec<Json> {
    Json::parse(items.as_bytes()).unwrap_or_default().items()
}

fn not_found(id: &str) -> Fault {
    Fault::Request {
        message: format!("unknown response `{id}`: it was not stored, has expired, or is another caller's"),
        param: None,
        code: Some("response_not_found"),
        kind: RequestFault::NotFound,
    }
}
