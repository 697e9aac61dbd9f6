//! `GET /v1/models`: the configured names, and those that providers pass through.

use crate::app::App;
use crate::host::{Passes, Snapshot};
use crate::json::Json;
use crate::server::auth;
use crate::server::reply::{OpenAiError, json_response};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// How long a provider may take to say what it has.
const PATIENCE: Duration = Duration::from_secs(5);

/// All models.
pub(crate) async fn models(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    if let Err(fault) = auth::user_of_key(&app, &headers) {
        return OpenAiError(fault).into_response();
    }
    let list = list(&app.host.snapshot()).await;
    json_response(StatusCode::OK, &Json::from([("object", "list".into()), ("data", list.into())]))
}

/// One model.
pub(crate) async fn model(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    if let Err(fault) = auth::user_of_key(&app, &headers) {
        return OpenAiError(fault).into_response();
    }
    let snapshot = app.host.snapshot();
    match list(&snapshot).await.into_iter().find(|model| model.text("id").is_some_and(|own| own == id)) {
        Some(model) => json_response(StatusCode::OK, &model),
        None => match snapshot.ready(&id, &[]) {
            Ok(ready) => {
                json_response(StatusCode::OK, &entry(&id, &ready.facts.text("provider").unwrap_or_default()))
            }
            Err(fault) => OpenAiError(fault).into_response(),
        },
    }
}

async fn list(snapshot: &Snapshot) -> Vec<Json> {
    let plan = snapshot.plan();
    let mut models: Vec<Json> = plan.models.iter().map(|model| entry(&model.name, &model.provider)).collect();
    for plan in &plan.providers {
        let name = plan.provider.name();
        match &plan.passes {
            Passes::Nothing => {}
            Passes::These(names) => models.extend(names.iter().map(|model| entry(model, name))),
            Passes::Everything => match tokio::time::timeout(PATIENCE, plan.provider.models()).await {
                Ok(Ok(offered)) => models.extend(offered),
                Ok(Err(fault)) => tracing::warn!(provider = name, "its models are not listed: {fault}"),
                Err(_) => tracing::warn!(provider = name, "its models are not listed: no answer within 5 s"),
            },
        }
    }
    let mut seen = HashSet::new();
    models.retain(|model| model.text("id").is_some_and(|id| seen.insert(id)));
    models
}

fn entry(id: &str, provider: &str) -> Json {
    Json::from([
        ("id", id.into()),
        ("object", "model".into()),
        ("created", 0_i64.into()),
        ("owned_by", provider.into()),
    ])
}
