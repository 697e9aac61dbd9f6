//! Routes for the stored records of one user.

use crate::api::{Answer, Callers, Path, Reply, Routes, delete, get};
use crate::reply::OpenAiError;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use valvehouse_core::error::Error;
use valvehouse_host::access::OperatorRole::Admin;
use valvehouse_host::app::App;
use valvehouse_store::UserRecords;

/// Returns the routes, which require the operators' key.
pub(crate) fn routes() -> Routes {
    Routes::new("Operation", Callers::Operators)
        .route("/api/v1/users/{user}/records", get("Counts the stored records of a user.", count))
        .route(
            "/api/v1/users/{user}/records",
            delete(Admin, "Deletes the stored records of a user and returns their numbers.", forget),
        )
}

/// The path of a user.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct UserPath {
    /// The id of the user.
    #[schemars(example = &"ann")]
    user: String,
}

/// Handles `GET /api/v1/users/{user}/records`.
async fn count(State(app): State<Arc<App>>, Path(UserPath { user }): Path<UserPath>) -> Answer<UserRecords> {
    is_named(&user)?;
    // The latest entries may not be written yet.
    app.host.kv().flush_all().await?;
    Ok(Reply(app.host.store().user_records(&user).await?))
}

/// Handles `DELETE /api/v1/users/{user}/records`.
async fn forget(State(app): State<Arc<App>>, Path(UserPath { user }): Path<UserPath>) -> Answer<UserRecords> {
    is_named(&user)?;
    app.trace_store.write().await;
    let records = app.host.store().forget_user(app.host.kv(), &user).await?;
    tracing::info!(user, "deleted the stored records of a user");
    Ok(Reply(records))
}

/// Rejects an empty id, because all requests without a user share their entries.
fn is_named(user: &str) -> Result<(), OpenAiError> {
    match user.trim() {
        "" => Err(Error::invalid("expected the id of a user, got an empty text", Some("user")).into()),
        _ => Ok(()),
    }
}
