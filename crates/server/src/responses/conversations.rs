//! `/v1/conversations`: stored items that responses can continue.

use super::pages::{PageQuery, page_of, read_stored};
use crate::api::Query;
use crate::auth;
use crate::extract::{self, Id};
use crate::reply::{self, OpenAiError};
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::response::Response;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::app::App;
use valvehouse_json::{Json, Object};
use valvehouse_store::{MAX_CONVERSATION_SIZE, ResponseConversation, ResponseItem, now};
use valvehouse_wire::responses::new_id;
use valvehouse_wire::responses::request::items;

/// The time for which a conversation is stored after its last change.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
/// The maximum number of items in one request.
const MAX_ITEMS: usize = 20;
/// The maximum number of metadata keys, and the maximum lengths of a key and of a value, in characters.
const MAX_METADATA: (usize, usize, usize) = (16, 64, 512);

/// The ids of a conversation and of one of its items, from the path.
pub(super) struct ItemPath {
    conversation: String,
    item: String,
}

impl<S: Send + Sync> FromRequestParts<S> for ItemPath {
    type Rejection = OpenAiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, OpenAiError> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let path = path.map_err(|error| Error::invalid(format!("invalid ids in the path: {error}"), None));
        path.map(|Path((conversation, item))| Self { conversation, item }).map_err(OpenAiError)
    }
}

pub(super) async fn create(State(app): State<Arc<App>>, parts: Parts, body: Body) -> Response {
    let created = async {
        auth::user_of_key(&app, &parts)?;
        let sent = extract::object(&app, body).await?;
        let items = given_items(&sent)?;
        let owner = auth::asker(&app, &parts.headers);
        check_room(&app, &owner, size(&items)).await?;
        let conversation = ResponseConversation {
            id: new_id("conv"),
            owner,
            created_ms: now(),
            expires_ms: expiry(),
            metadata: metadata(&sent)?.to_string(),
        };
        app.host.store().save_response_conversation(&conversation).await?;
        append(&app, &conversation.id, &items).await?;
        shown(&conversation)
    };
    reply::answer(created.await)
}

pub(super) async fn show(State(app): State<Arc<App>>, Id(id): Id, parts: Parts) -> Response {
    reply::answer(find(&app, &parts, &id).await.and_then(|found| shown(&found)))
}

pub(super) async fn update(State(app): State<Arc<App>>, Id(id): Id, parts: Parts, body: Body) -> Response {
    let updated = async {
        let found = find(&app, &parts, &id).await?;
        let sent = extract::object(&app, body).await?;
        if sent.get("metadata").is_none() {
            return Err(Error::invalid(
                "missing metadata: only the metadata of a conversation can be changed",
                Some("metadata"),
            ));
        }
        let metadata = metadata(&sent)?.to_string();
        app.host.store().set_conversation_metadata(&id, &metadata).await?;
        shown(&ResponseConversation { metadata, ..found })
    };
    reply::answer(updated.await)
}

pub(super) async fn delete(State(app): State<Arc<App>>, Id(id): Id, parts: Parts) -> Response {
    let deleted = async {
        find(&app, &parts, &id).await?;
        app.host.store().delete_response_conversation(&id).await?;
        let body =
            [("id", id.as_str().into()), ("object", "conversation.deleted".into()), ("deleted", true.into())];
        Ok(Json::from(body))
    };
    reply::answer(deleted.await)
}

pub(super) async fn list_items(
    State(app): State<Arc<App>>,
    Id(id): Id,
    Query(page): Query<PageQuery>,
    parts: Parts,
) -> Response {
    let items = before(&app, &parts, &id).await;
    reply::answer(items.map(|items| page_of(items, &page, page.limit())))
}

pub(super) async fn add_items(State(app): State<Arc<App>>, Id(id): Id, parts: Parts, body: Body) -> Response {
    let added = async {
        find(&app, &parts, &id).await?;
        let items = given_items(&extract::object(&app, body).await?)?;
        if items.is_empty() {
            return Err(Error::invalid("missing items: send a list with at least one item", Some("items")));
        }
        check_room(&app, &auth::asker(&app, &parts.headers), size(&items)).await?;
        append(&app, &id, &items).await?;
        let all = items.len();
        let ascending = PageQuery { order: Some("asc".into()), ..PageQuery::default() };
        Ok(page_of(items, &ascending, all))
    };
    reply::answer(added.await)
}

pub(super) async fn show_item(State(app): State<Arc<App>>, path: ItemPath, parts: Parts) -> Response {
    let found = async {
        let items = before(&app, &parts, &path.conversation).await?;
        let found = items.into_iter().find(|item| item.text("id").is_some_and(|id| *id == *path.item));
        found.ok_or_else(|| no_item(&path))
    };
    reply::answer(found.await)
}

pub(super) async fn delete_item(State(app): State<Arc<App>>, path: ItemPath, parts: Parts) -> Response {
    let deleted = async {
        let found = find(&app, &parts, &path.conversation).await?;
        match app.host.store().delete_conversation_item(&path.conversation, &path.item).await? {
            true => shown(&found),
            false => Err(no_item(&path)),
        }
    };
    reply::answer(deleted.await)
}

/// Returns the items of a conversation, for a response that continues it.
///
/// # Errors
/// Returns a request error if the conversation is unknown or belongs to another caller, and the error of the
/// store.
pub(super) async fn before(app: &App, parts: &Parts, id: &str) -> Result<Vec<Json>, Error> {
    find(app, parts, id).await?;
    let items = app.host.store().conversation_items(id).await?;
    items.iter().map(|item| read_stored(&item.item, "an item of a conversation")).collect()
}

/// Appends items to a conversation.
///
/// # Errors
/// Returns a request error if the conversation is missing or would be too large, and the error of the store.
pub(super) async fn append(app: &App, id: &str, items: &[Json]) -> Result<(), Error> {
    if items.is_empty() {
        return Ok(());
    }
    let rows: Vec<ResponseItem> =
        items.iter().map(|item| ResponseItem { id: item.string("id"), item: item.to_string() }).collect();
    if app.host.store().append_conversation_items(id, &rows, expiry()).await? {
        return Ok(());
    }
    Err(Error::Request {
        message: format!(
            "cannot add to the conversation `{id}`: it was deleted, or would exceed its limit of {MAX_CONVERSATION_SIZE} bytes"
        ),
        param: Some("items"),
        code: Some("conversation_too_large"),
        kind: RequestErrorKind::Invalid,
    })
}

fn size(items: &[Json]) -> usize {
    items.iter().map(|item| item.to_string().len()).sum()
}

async fn find(app: &App, parts: &Parts, id: &str) -> Result<ResponseConversation, Error> {
    auth::user_of_key(app, parts)?;
    let found = app.host.store().response_conversation(id).await?;
    let asker = auth::asker(app, &parts.headers);
    found.filter(|found| found.owner == asker).ok_or_else(|| Error::Request {
        message: format!(
            "unknown conversation `{id}`: it was deleted, has expired, or belongs to another caller"
        ),
        param: Some("conversation"),
        code: Some("conversation_not_found"),
        kind: RequestErrorKind::NotFound,
    })
}

fn no_item(path: &ItemPath) -> Error {
    Error::Request {
        message: format!("unknown item `{}` in the conversation `{}`", path.item, path.conversation),
        param: None,
        code: Some("item_not_found"),
        kind: RequestErrorKind::NotFound,
    }
}

fn expiry() -> i64 {
    now().saturating_add(i64::try_from(KEPT.as_millis()).unwrap_or(i64::MAX))
}

fn shown(conversation: &ResponseConversation) -> Result<Json, Error> {
    Ok(Json::from_fields([
        ("id", conversation.id.as_str().into()),
        ("object", "conversation".into()),
        ("created_at", (conversation.created_ms / 1000).into()),
        ("metadata", read_stored(&conversation.metadata, "the metadata of a conversation")?),
    ]))
}

/// Returns the items of a request, each with an id.
fn given_items(sent: &Json) -> Result<Vec<Json>, Error> {
    let given = sent.field("items");
    if given.as_str().is_some() {
        return Err(Error::invalid("invalid items: expected a list of items", Some("items")));
    }
    let items = items(&given).map_err(|error| match error {
        Error::Request { message, code, kind, .. } => {
            Error::Request { message: message.replace("input", "items"), param: Some("items"), code, kind }
        }
        error => error,
    })?;
    if items.len() > MAX_ITEMS {
        return Err(Error::invalid(
            format!("{} items exceed the limit of {MAX_ITEMS} in one request", items.len()),
            Some("items"),
        ));
    }
    for (at, item) in items.iter().enumerate() {
        let is_message = item.is_text("type", "message");
        if is_message && (item.text("role").is_none() || item.get("content").is_none()) {
            return Err(Error::invalid(
                format!("invalid items[{at}]: a message needs role and content"),
                Some("items"),
            ));
        }
    }
    Ok(items)
}

fn metadata(sent: &Json) -> Result<Json, Error> {
    let Some(given) = sent.given("metadata") else { return Ok(Json::object()) };
    let invalid = || {
        let (keys, key, value) = MAX_METADATA;
        let message = format!(
            "invalid metadata: expected an object of at most {keys} strings, with keys of at most {key} and values of at most {value} characters"
        );
        Err(Error::invalid(message, Some("metadata")))
    };
    let Some(entries) = given.as_object().map(Object::entries) else { return invalid() };
    let fits = |(key, value): &(compact_str::CompactString, Json)| {
        key.chars().count() <= MAX_METADATA.1
            && value.as_str().is_some_and(|value| value.chars().count() <= MAX_METADATA.2)
    };
    match entries.len() <= MAX_METADATA.0 && entries.iter().all(fits) {
        true => Ok(given.deep_clone()),
        false => invalid(),
    }
}

/// Checks that a caller may store so many more bytes.
///
/// # Errors
/// Returns a request error with status 413 if the caller would exceed its limit, and the error of the store.
pub(super) async fn check_room(app: &App, owner: &str, more: usize) -> Result<(), Error> {
    let limit = app.config.server.max_stored_mb_each;
    let stored = app.host.store().stored_size(owner).await?;
    let stored = u64::try_from(stored).unwrap_or(0).saturating_add(more as u64);
    if stored <= limit.saturating_mul(1024 * 1024) {
        return Ok(());
    }
    Err(Error::Request {
        message: format!(
            "the stored responses and conversations of this caller exceeded their limit of {limit} MB ([server] max_stored_mb_each); delete some, or send `store: false`"
        ),
        param: Some("store"),
        code: Some("storage_full"),
        kind: RequestErrorKind::TooLarge,
    })
}
