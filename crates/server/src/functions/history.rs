//! The past of functions: versions, their differences, and the way back.

use super::function::{answer, one};
use crate::auth::Operator;
use crate::extract::{Id, Words, number, object};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use std::sync::Arc;
use valvehouse_core::error::Error;
use valvehouse_host::admin::{self, Against};
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// `GET /api/v1/functions/deleted`: plugins whose file was deleted, which a rollback restores.
pub(super) async fn deleted(State(app): State<Arc<App>>) -> Response {
    app.host.written_down().await;
    let spans = app.host.store().spans().await;
    let gone = spans.map(|spans| {
        let gone = spans.into_iter().filter(|span| span.is_gone).map(|span| {
            Json::from([
                ("id", span.plugin.into()),
                ("deleted_at", (span.last_at / 1000).into()),
                ("version", span.last.into()),
            ])
        });
        gone.collect::<Vec<_>>().into()
    });
    answer(&app, gone.map_err(Into::into))
}

/// `GET …/history`: the newest first.
pub(super) async fn list(State(app): State<Arc<App>>, Id(id): Id) -> Response {
    app.host.written_down().await;
    let entries = admin::entries(&**app.host.store(), &app.host.snapshot(), &id).await;
    answer(&app, entries.map(|all| all.iter().map(admin::Entry::to_json).collect::<Vec<_>>().into()))
}

/// `GET …/history/{version}?against=current`
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path((id, version)): Path<(String, String)>,
    words: Words,
) -> Response {
    let detail = async {
        let wrong = || Error::invalid("the version in the path must be a whole number", Some("version"));
        let number = version.parse().map_err(|_| wrong())?;
        let against = match words.text("against").as_deref() {
            None => Against::Before,
            Some("current") => Against::Current,
            Some(_) => return Err(Error::invalid("`against` must be `current`", Some("against")).into()),
        };
        app.host.written_down().await;
        admin::detail(&**app.host.store(), &app.host.snapshot(), &id, number, against).await
    };
    let detail = detail.await.map(|detail| detail.to_json());
    answer(&app, detail)
}

/// `POST …/rollback`: `{version}`; live when it answers.
pub(super) async fn rollback(
    State(app): State<Arc<App>>,
    Id(id): Id,
    Extension(Operator(by)): Extension<Operator>,
    body: Body,
) -> Response {
    let done = async {
        let body = object(&app, body).await?;
        let missing = || Error::invalid("missing `version` in the request body", Some("version"));
        let version = number(&body, "version")?.ok_or_else(missing)?;
        let snapshot = app.admin.rollback(&id, version, &by).await?;
        one(&app, &snapshot, &id).await
    };
    answer(&app, done.await)
}
