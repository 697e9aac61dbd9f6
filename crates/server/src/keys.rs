//! Routes for the keys that operators hand out.

use crate::api::{Answer, Body, Callers, List, Path, Reply, Routes, delete, get, post, put};
use crate::auth::Operator;
use crate::reply::OpenAiError;
use axum::Extension;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use valvehouse_host::access::KeyRights;
use valvehouse_host::access::OperatorRole::Admin;
use valvehouse_host::admin::{self, AdminError, KeyEntry, NewKey};
use valvehouse_host::app::App;

/// Returns the routes, which require an operator's key; changes require the role `admin`.
pub(crate) fn routes() -> Routes {
    Routes::new("Keys", Callers::Operators)
        .route("/api/v1/keys", get("Lists the keys with what they have used, revoked ones included.", list))
        .route(
            "/api/v1/keys",
            post(Admin, "Creates a key, which is shown only now, or a group of keys.", create).conflicts(),
        )
        .route("/api/v1/keys/{name}", get("Returns a key with what it has used.", show).fails(404))
        .route(
            "/api/v1/keys/{name}",
            put(Admin, "Replaces the rights of a key, which keeps what it has used.", change)
                .fails(404)
                .conflicts(),
        )
        .route("/api/v1/keys/{name}", delete(Admin, "Revokes a key.", revoke).fails(404).conflicts())
        .route(
            "/api/v1/keys/{name}/rotate",
            post(Admin, "Replaces a key by a new one with the same rights.", rotate).fails(404).conflicts(),
        )
}

/// The path of a key.
#[derive(Deserialize, JsonSchema)]
struct KeyPath {
    /// The name of the key.
    #[schemars(example = &"ci")]
    name: String,
}

/// A new key.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateKey {
    /// The name: up to 64 letters, digits, `-`, `_` or `.`, after `@` for a group.
    #[schemars(example = &"ci")]
    name: String,
    /// The rights of the key; without limits if omitted.
    #[serde(default)]
    rights: KeyRights,
}

/// The new rights of a key.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ChangeKey {
    /// All rights of the key.
    rights: KeyRights,
}

impl From<AdminError> for OpenAiError {
    fn from(refused: AdminError) -> Self {
        refused.error.into()
    }
}

async fn list(State(app): State<Arc<App>>) -> Answer<List<KeyEntry>> {
    Ok(List::reply(admin::key_entries(app.host.store(), app.host.kv()).await?))
}

async fn show(State(app): State<Arc<App>>, Path(KeyPath { name }): Path<KeyPath>) -> Answer<KeyEntry> {
    Ok(Reply(admin::key_entry(app.host.store(), app.host.kv(), &name).await?))
}

async fn create(
    State(app): State<Arc<App>>,
    Extension(Operator(by)): Extension<Operator>,
    Body(CreateKey { name, rights }): Body<CreateKey>,
) -> Answer<NewKey> {
    let created = admin::create_key(app.host.store(), &name, rights, &by).await?;
    tracing::info!(key = name, by, "created a key");
    applied(&app, created).await
}

async fn change(
    State(app): State<Arc<App>>,
    Extension(Operator(by)): Extension<Operator>,
    Path(KeyPath { name }): Path<KeyPath>,
    Body(ChangeKey { rights }): Body<ChangeKey>,
) -> Answer<KeyEntry> {
    admin::change_key(app.host.store(), &name, rights).await?;
    tracing::info!(key = name, by, "changed the rights of a key");
    app.host.reload().await;
    show(State(app), Path(KeyPath { name })).await
}

async fn rotate(
    State(app): State<Arc<App>>,
    Extension(Operator(by)): Extension<Operator>,
    Path(KeyPath { name }): Path<KeyPath>,
) -> Answer<NewKey> {
    let rotated = admin::rotate_key(app.host.store(), &name).await?;
    tracing::info!(key = name, by, "replaced a key");
    applied(&app, rotated).await
}

async fn revoke(
    State(app): State<Arc<App>>,
    Extension(Operator(by)): Extension<Operator>,
    Path(KeyPath { name }): Path<KeyPath>,
) -> Answer<KeyEntry> {
    admin::revoke_key(app.host.store(), &name).await?;
    tracing::info!(key = name, by, "revoked a key");
    app.host.reload().await;
    show(State(app), Path(KeyPath { name })).await
}

/// Returns a new key when this host accepts it.
async fn applied(app: &App, key: NewKey) -> Answer<NewKey> {
    app.host.reload().await;
    Ok(Reply(key))
}
