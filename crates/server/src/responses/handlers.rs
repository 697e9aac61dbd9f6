//! The handlers of the Responses API.

use super::background;
use super::compact::Compactions;
use super::endpoint::{Answer, Responses};
use super::pages::{PageQuery, page_of};
use super::storage;
use crate::api::Query;
use crate::extract::Id;
use crate::headers::named;
use crate::messages::count::estimate;
use crate::reply::{self, json_response};
use crate::scope;
use crate::turn::endpoint::{Call, Endpoint as _};
use crate::turn::serve::{received, refused, serve, serve_turn};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use valvehouse_host::app::App;
use valvehouse_json::Json;

pub(super) async fn create(State(app): State<Arc<App>>, request: Request) -> Response {
    let snapshot = app.host.snapshot();
    let answer = async {
        let (parts, body) = request.into_parts();
        let (key_user, bytes) = received(&app, &parts, body).await?;
        if background::is_background(&bytes) {
            return background::create(&app, &snapshot, parts, &bytes, key_user).await;
        }
        serve_turn(&Responses::default(), &Call::new(&app, &snapshot, &parts), &bytes, &key_user).await
    };
    named(&snapshot, Box::pin(answer), refused::<Answer>).await
}

/// Estimates the tokens of a request, for which no filters run.
pub(super) async fn input_tokens(State(app): State<Arc<App>>, request: Request) -> Response {
    let snapshot = app.host.snapshot();
    let counted = async {
        let (parts, body) = request.into_parts();
        let (_, bytes) = received(&app, &parts, body).await?;
        let (chat, _) = Responses::default().decode(&Call::new(&app, &snapshot, &parts), &bytes).await?;
        scope::check_model(&app, &parts, &snapshot, &chat.model(), chat.body())?;
        snapshot.ready(&chat.model(), &[])?;
        let tokens = estimate(chat.body().clone()).await?;
        let count = [("object", "response.input_tokens".into()), ("input_tokens", tokens.into())];
        Ok(json_response(StatusCode::OK, &Json::from(count)))
    };
    named(&snapshot, Box::pin(counted), refused::<Answer>).await
}

pub(super) async fn compact(State(app): State<Arc<App>>, request: Request) -> Response {
    serve(app, Compactions, request).await
}

/// The query of a stored response.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ResponseQuery {
    stream: Option<bool>,
    /// The number of the last event that the client received.
    starting_after: Option<u64>,
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Id(id): Id,
    Query(query): Query<ResponseQuery>,
    parts: Parts,
) -> Response {
    let answer = async {
        let stored = storage::find(&app, &parts, &id).await?;
        if query.stream != Some(true) {
            let response = storage::response_of(&stored)?;
            return Ok(json_response(StatusCode::OK, &response));
        }
        let after = query.starting_after.map_or(-1, |after| i64::try_from(after).unwrap_or(i64::MAX));
        background::resume(&app, &stored, after).await
    };
    answer.await.unwrap_or_else(refused::<Answer>)
}

pub(super) async fn delete(State(app): State<Arc<App>>, Id(id): Id, parts: Parts) -> Response {
    let deleted = storage::delete(&app, &parts, &id).await;
    let body = [("id", id.into()), ("object", "response".into()), ("deleted", true.into())];
    reply::answer(deleted.map(|()| Json::from(body)))
}

pub(super) async fn cancel(State(app): State<Arc<App>>, Id(id): Id, parts: Parts) -> Response {
    let canceled = async {
        let stored = storage::find(&app, &parts, &id).await?;
        background::cancel(&app, &parts, stored).await
    };
    reply::answer(canceled.await)
}

pub(super) async fn input_items(
    State(app): State<Arc<App>>,
    Id(id): Id,
    Query(page): Query<PageQuery>,
    parts: Parts,
) -> Response {
    let listed = async {
        let stored = storage::find(&app, &parts, &id).await?;
        let mut items = storage::items(&stored)?;
        items.truncate(stored.input_items);
        Ok(page_of(items, &page, page.limit()))
    };
    reply::answer(listed.await)
}
