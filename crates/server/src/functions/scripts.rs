//! Functions made, changed, switched and deleted.

use super::function::{answer, one};
use crate::auth::Operator;
use crate::extract::{Id, Words, object, text};
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use std::sync::Arc;
use valvehouse_core::error::Error;
use valvehouse_host::Snapshot;
use valvehouse_host::admin::{AdminError, ExpectedVersion};
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_script::Kind;

/// `POST /api/v1/functions/create`: `{id, content, type?}`; live when it answers. Name and description are
/// what the text says of itself.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(Operator(by)): Extension<Operator>,
    body: Body,
) -> Response {
    let created = async {
        let body = object(&app, body).await?;
        let (id, content) = (needed(&body, "id")?, needed(&body, "content")?);
        let kind = kind(&body, &content)?;
        app.admin.write(kind, &id, &content, ExpectedVersion::Nothing, &by).await?;
        one(&app, &app.host.snapshot(), &id).await
    };
    answer(&app, created.await)
}

/// `POST /api/v1/functions/id/{id}/update`: `{content, expected_hash?}`. With the hash of the text that was
/// changed, what somebody else did meanwhile is not written over.
pub(super) async fn update(
    State(app): State<Arc<App>>,
    Id(id): Id,
    Extension(Operator(by)): Extension<Operator>,
    body: Body,
) -> Response {
    let updated = async {
        let body = object(&app, body).await?;
        let content = needed(&body, "content")?;
        let expected =
            text(&body, "expected_hash")?.map_or(ExpectedVersion::Something, ExpectedVersion::Hash);
        let kind = app.admin.plugin(&id)?.kind;
        app.admin.write(kind, &id, &content, expected, &by).await?;
        one(&app, &app.host.snapshot(), &id).await
    };
    answer(&app, updated.await)
}

/// `DELETE /api/v1/functions/id/{id}/delete?confirm=true`: a guard goes only when that is confirmed.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Id(id): Id,
    words: Words,
    Extension(Operator(by)): Extension<Operator>,
) -> Response {
    let is_confirmed = matches!(words.text("confirm").as_deref(), Some("true" | "1"));
    answer(&app, app.admin.delete(&id, is_confirmed, &by).await.map(|_| true.into()))
}

/// `POST /api/v1/functions/id/{id}/confirm`: accepts a change that weakens a guard, or its removal.
pub(super) async fn confirm(
    State(app): State<Arc<App>>,
    Id(id): Id,
    Extension(Operator(by)): Extension<Operator>,
) -> Response {
    answer(&app, app.admin.confirm(&id, &by).await.map(|_| true.into()))
}

/// `POST /api/v1/functions/id/{id}/adopt`, `{drop?}`: gives a plugin what was stored for a removed one of its id, or
/// drops it.
pub(super) async fn adopt(
    State(app): State<Arc<App>>,
    Id(id): Id,
    Extension(Operator(by)): Extension<Operator>,
    body: Body,
) -> Response {
    let adopted = async {
        let body = object(&app, body).await?;
        let drop = match body.get("drop") {
            None | Some(Json::Null) => false,
            Some(Json::Bool(drop)) => drop,
            Some(_) => return Err(Error::invalid("`drop` must be true or false", Some("drop")).into()),
        };
        app.admin.adopt(&id, drop, &by).await.map(|_| true.into())
    };
    answer(&app, adopted.await)
}

/// `POST /api/v1/functions/id/{id}/release`: runs versions again that are quarantined after a crash.
pub(super) async fn release(
    State(app): State<Arc<App>>,
    Id(id): Id,
    Extension(Operator(by)): Extension<Operator>,
) -> Response {
    answer(&app, app.admin.release(&id, &by).await.map(|_| true.into()))
}

/// `POST /api/v1/functions/id/{id}/toggle`
pub(super) async fn toggle(
    State(app): State<Arc<App>>,
    Id(id): Id,
    Extension(Operator(by)): Extension<Operator>,
) -> Response {
    let toggled = app.admin.toggle(&id, &by).await;
    answer(&app, switched(&app, &id, toggled).await)
}

/// `POST /api/v1/functions/id/{id}/toggle/global`
pub(super) async fn toggle_global(
    State(app): State<Arc<App>>,
    Id(id): Id,
    Extension(Operator(by)): Extension<Operator>,
) -> Response {
    let toggled = app.admin.toggle_global(&id, &by).await;
    answer(&app, switched(&app, &id, toggled).await)
}

async fn switched(
    app: &App,
    id: &str,
    snapshot: Result<Arc<Snapshot>, AdminError>,
) -> Result<Json, AdminError> {
    one(app, &*snapshot?, id).await
}

/// The kind of a new function: the one that the body names or, where it names none, the one that the text looks like.
fn kind(body: &Json, content: &str) -> Result<Kind, Error> {
    match text(body, "type")?.as_deref() {
        Some("filter") => Ok(Kind::Filter),
        Some("tool") => Ok(Kind::Tool),
        None => Ok(Kind::guess(content)),
        Some(other) => {
            let message = format!("`type` must be \"filter\" or \"tool\", not {other:?}");
            Err(Error::invalid(message, Some("type")))
        }
    }
}

/// A text that has to be in the body.
fn needed(body: &Json, name: &'static str) -> Result<String, Error> {
    text(body, name)?
        .ok_or_else(|| Error::invalid(format!("missing `{name}` in the request body"), Some(name)))
}
