//! Routes that create, change, enable and delete functions.

use super::function::{Function, FunctionAnswer, FunctionPath, answer, one};
use crate::api::{Body, Path, Query};
use crate::auth::Operator;
use axum::Extension;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use valvehouse_host::Snapshot;
use valvehouse_host::admin::{AdminError, ExpectedVersion};
use valvehouse_host::app::App;
use valvehouse_script::Kind;

/// A new function. Name and description are taken from its text; other fields of Open WebUI's form are
/// ignored.
#[derive(Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"id": "quiet", "type": "filter", "content": "fn inlet(body) { body }"}))]
pub(super) struct NewFunction {
    #[schemars(regex(pattern = "^[a-z0-9_-]{1,64}$"))]
    id: String,
    /// The text of the script.
    content: String,
    /// The kind of function; by default determined from the text.
    r#type: Option<FunctionKind>,
}

/// The kind of a function.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum FunctionKind {
    Filter,
    Tool,
    Action,
}

/// Returns the kind of a script, by default determined from its text.
pub(super) fn kind_of(kind: Option<FunctionKind>, text: &str) -> Kind {
    match kind {
        Some(FunctionKind::Filter) => Kind::Filter,
        Some(FunctionKind::Tool) => Kind::Tool,
        Some(FunctionKind::Action) => Kind::Action,
        None => Kind::guess(text),
    }
}

/// Handles `POST /api/v1/functions/create`: creates a plugin, which is live when the response arrives.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(Operator(by)): Extension<Operator>,
    Body(new): Body<NewFunction>,
) -> FunctionAnswer<Function> {
    let created = async {
        let kind = kind_of(new.r#type, &new.content);
        app.admin.write(kind, &new.id, &new.content, ExpectedVersion::Nothing, &by).await?;
        one(&app, &app.host.snapshot(), &new.id).await
    };
    answer(&app, created.await)
}

/// A new text of a function. Other fields of Open WebUI's form are ignored.
#[derive(Deserialize, JsonSchema)]
#[schemars(example = serde_json::json!({"content": "fn inlet(body) { body }"}))]
pub(super) struct FunctionUpdate {
    /// The text of the script.
    content: String,
    /// The hash of the text that was edited. If the text has changed since, the update is rejected.
    expected_hash: Option<String>,
}

/// Handles `POST /api/v1/functions/id/{id}/update`.
pub(super) async fn update(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
    Extension(Operator(by)): Extension<Operator>,
    Body(update): Body<FunctionUpdate>,
) -> FunctionAnswer<Function> {
    let updated = async {
        let expected = update.expected_hash.map_or(ExpectedVersion::Something, ExpectedVersion::Hash);
        let kind = app.admin.plugin(&id)?.kind;
        app.admin.write(kind, &id, &update.content, expected, &by).await?;
        one(&app, &app.host.snapshot(), &id).await
    };
    answer(&app, updated.await)
}

/// The query of a change that guards need to have confirmed.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ConfirmQuery {
    /// Set to confirm the change of a guard.
    pub(super) confirm: Option<bool>,
}

/// Handles `DELETE /api/v1/functions/id/{id}/delete`.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
    Query(query): Query<ConfirmQuery>,
    Extension(Operator(by)): Extension<Operator>,
) -> FunctionAnswer<bool> {
    let is_confirmed = query.confirm == Some(true);
    answer(&app, app.admin.delete(&id, is_confirmed, &by).await.map(|_| true))
}

/// Handles `POST /api/v1/functions/id/{id}/confirm`: accepts a change that weakens a guard, or its removal.
pub(super) async fn confirm(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
    Extension(Operator(by)): Extension<Operator>,
) -> FunctionAnswer<bool> {
    answer(&app, app.admin.confirm(&id, &by).await.map(|_| true))
}

/// The use of the records of a removed plugin.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = serde_json::json!({"drop": true}))]
pub(super) struct Adoption {
    /// Set to delete the records instead of assigning them to the plugin with the same id.
    drop: Option<bool>,
}

/// Handles `POST /api/v1/functions/id/{id}/adopt`: assigns the records of a removed plugin to the plugin with
/// the same id, or deletes them.
pub(super) async fn adopt(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
    Extension(Operator(by)): Extension<Operator>,
    Body(adoption): Body<Adoption>,
) -> FunctionAnswer<bool> {
    answer(&app, app.admin.adopt(&id, adoption.drop == Some(true), &by).await.map(|_| true))
}

/// Handles `POST /api/v1/functions/id/{id}/release`: runs quarantined versions again after a crash.
pub(super) async fn release(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
    Extension(Operator(by)): Extension<Operator>,
) -> FunctionAnswer<bool> {
    answer(&app, app.admin.release(&id, &by).await.map(|_| true))
}

/// Handles `POST /api/v1/functions/id/{id}/toggle`.
pub(super) async fn toggle(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
    Extension(Operator(by)): Extension<Operator>,
) -> FunctionAnswer<Function> {
    let toggled = app.admin.toggle(&id, &by).await;
    answer(&app, switched(&app, &id, toggled).await)
}

/// Handles `POST /api/v1/functions/id/{id}/toggle/global`.
pub(super) async fn toggle_global(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
    Extension(Operator(by)): Extension<Operator>,
) -> FunctionAnswer<Function> {
    let toggled = app.admin.toggle_global(&id, &by).await;
    answer(&app, switched(&app, &id, toggled).await)
}

/// Handles `POST /api/v1/functions/id/{id}/toggle/audit`.
pub(super) async fn toggle_audit(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
    Extension(Operator(by)): Extension<Operator>,
) -> FunctionAnswer<Function> {
    let toggled = app.admin.toggle_audit(&id, &by).await;
    answer(&app, switched(&app, &id, toggled).await)
}

async fn switched(
    app: &App,
    id: &str,
    snapshot: Result<Arc<Snapshot>, AdminError>,
) -> Result<Function, AdminError> {
    one(app, &*snapshot?, id).await
}
