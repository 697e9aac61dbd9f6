//! Routes for the versions of functions, their differences, and rollbacks.

use super::function::{Function, FunctionAnswer, FunctionPath, answer, one};
use crate::api::{Body, Path, Query};
use crate::auth::Operator;
use axum::Extension;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use valvehouse_host::admin::{self, Against, Detail, Entry};
use valvehouse_host::app::App;

/// A plugin whose file was deleted.
#[derive(Serialize, JsonSchema)]
pub(super) struct DeletedFunction {
    id: String,
    /// The time in seconds since 1970.
    deleted_at: i64,
    /// The number of the newest version.
    version: u64,
}

/// Handles `GET /api/v1/functions/deleted`: lists plugins whose file was deleted and can be restored by a
/// rollback.
pub(super) async fn deleted(State(app): State<Arc<App>>) -> FunctionAnswer<Vec<DeletedFunction>> {
    app.host.written_down().await;
    let spans = app.host.store().spans().await;
    let gone = spans.map(|spans| {
        let gone = spans.into_iter().filter(|span| span.is_gone).map(|span| DeletedFunction {
            id: span.plugin,
            deleted_at: span.last_at / 1000,
            version: span.last,
        });
        gone.collect::<Vec<_>>()
    });
    answer(&app, gone.map_err(Into::into))
}

/// Handles `GET …/history`: lists the versions, the newest first.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
) -> FunctionAnswer<Vec<Entry>> {
    app.host.written_down().await;
    answer(&app, admin::entries(app.host.store(), &app.host.snapshot(), &id).await)
}

/// The path of a version.
#[derive(Deserialize, JsonSchema)]
pub(super) struct VersionPath {
    /// The id of the plugin: the name of its file without the extension.
    #[schemars(example = &"polite")]
    id: String,
    /// The number of the version.
    #[schemars(example = 1)]
    version: u64,
}

/// The query of a version.
#[derive(Deserialize, JsonSchema)]
pub(super) struct VersionQuery {
    /// Compares with the current state instead of the previous version.
    against: Option<Side>,
}

/// A side of a comparison.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Side {
    Current,
}

/// Handles `GET …/history/{version}?against=current`.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(VersionPath { id, version }): Path<VersionPath>,
    Query(query): Query<VersionQuery>,
) -> FunctionAnswer<Detail> {
    let against = match query.against {
        None => Against::Before,
        Some(Side::Current) => Against::Current,
    };
    app.host.written_down().await;
    answer(&app, admin::detail(app.host.store(), &app.host.snapshot(), &id, version, against).await)
}

/// The version to restore.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = serde_json::json!({"version": 1}))]
pub(super) struct Rollback {
    /// The number of the version.
    version: u64,
}

/// Handles `POST …/rollback`: restores a version, which is live when the response arrives.
pub(super) async fn rollback(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
    Extension(Operator(by)): Extension<Operator>,
    Body(Rollback { version }): Body<Rollback>,
) -> FunctionAnswer<Function> {
    let done = async {
        let snapshot = app.admin.rollback(&id, version, &by).await?;
        one(&app, &snapshot, &id).await
    };
    answer(&app, done.await)
}
