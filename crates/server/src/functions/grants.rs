//! Routes for what a plugin asks for and may use.

use super::function::{FunctionAnswer, FunctionPath, answer};
use super::scripts::ConfirmQuery;
use crate::api::{Body, Path, Query};
use crate::auth::Operator;
use axum::Extension;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use valvehouse_host::admin::{AdminError, PluginGrants, grant_words};
use valvehouse_host::app::App;

/// Handles `GET /api/v1/functions/id/{id}/grants`.
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
) -> FunctionAnswer<PluginGrants> {
    answer(&app, current(&app, &id).await)
}

async fn current(app: &App, id: &str) -> Result<PluginGrants, AdminError> {
    let config = app.latest.lock().clone();
    app.admin.grants(&config, id).await
}

/// The approval of what a text asks for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = serde_json::json!({"hash": "9f86d081884c7d65", "grants": ["http=api.example.com"]}))]
pub(super) struct GrantApproval {
    /// The hash of the text that was shown. If another text asks by now, the approval is rejected.
    hash: String,
    /// The capabilities with their names, as `valvehouse grant` takes them.
    grants: Vec<String>,
}

/// Handles `POST /api/v1/functions/id/{id}/grants/approve`.
pub(super) async fn approve(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
    Extension(Operator(by)): Extension<Operator>,
    Body(GrantApproval { hash, grants }): Body<GrantApproval>,
) -> FunctionAnswer<PluginGrants> {
    let approved = async {
        let (words, config) = (grant_words(&grants)?, app.latest.lock().clone());
        app.admin.approve_grants(&config, &id, &hash, &words, &by).await?;
        current(&app, &id).await
    };
    answer(&app, approved.await)
}

/// The grants to revoke.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = serde_json::json!({"grants": ["http=api.example.com"]}))]
pub(super) struct GrantRevocation {
    /// The capabilities with their names, as `valvehouse grant --revoke` takes them; an empty list revokes all stored
    /// grants.
    grants: Vec<String>,
}

/// Handles `POST /api/v1/functions/id/{id}/grants/revoke`.
pub(super) async fn revoke(
    State(app): State<Arc<App>>,
    Path(FunctionPath { id }): Path<FunctionPath>,
    Query(query): Query<ConfirmQuery>,
    Extension(Operator(by)): Extension<Operator>,
    Body(GrantRevocation { grants }): Body<GrantRevocation>,
) -> FunctionAnswer<PluginGrants> {
    let revoked = async {
        let (words, config) = (grant_words(&grants)?, app.latest.lock().clone());
        app.admin.revoke_grants(&config, &id, &words, query.confirm == Some(true), &by).await?;
        current(&app, &id).await
    };
    answer(&app, revoked.await)
}
