//! `GET /v1/models`: the configured names, and those that providers pass through; for clients of
//! Anthropic's in its words.

use crate::auth;
use crate::messages::{self, AnthropicError};
use crate::pipelines;
use crate::reply::{OpenAiError, json_response};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_config::PIPES;
use valvehouse_core::fault::Fault;
use valvehouse_host::app::App;
use valvehouse_host::{Passes, Snapshot};
use valvehouse_json::Json;

/// How long a provider may take to say what it has.
const PATIENCE: Duration = Duration::from_secs(5);

/// All models.
pub(crate) async fn models(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let speaks_anthropic = messages::speaks_anthropic(&headers);
    match auth::user_of_key(&app, &headers) {
        Err(fault) if speaks_anthropic => return AnthropicError(fault).into_response(),
        Err(fault) => return OpenAiError(fault).into_response(),
        Ok(_) => {}
    }
    let list = list(&app.host.snapshot()).await;
    if speaks_anthropic {
        return json_response(StatusCode::OK, &messages::list(&list));
    }
    json_response(StatusCode::OK, &pipelines::list_of(&app, list))
}

/// One model.
pub(crate) async fn model(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let speaks_anthropic = messages::speaks_anthropic(&headers);
    let found = match auth::user_of_key(&app, &headers) {
        Ok(_) => find(&app.host.snapshot(), &id).await,
        Err(fault) => Err(fault),
    };
    match found {
        Ok(model) if speaks_anthropic => json_response(StatusCode::OK, &messages::entry(&model)),
        Ok(model) => json_response(StatusCode::OK, &model),
        Err(fault) if speaks_anthropic => AnthropicError(fault).into_response(),
        Err(fault) => OpenAiError(fault).into_response(),
    }
}

async fn find(snapshot: &Snapshot, id: &str) -> Result<Json, Fault> {
    let is_it = |model: &Json| model.text("id").is_some_and(|own| own == id);
    if let Some(model) = list(snapshot).await.into_iter().find(is_it) {
        return Ok(model);
    }
    let ready = snapshot.ready(id, &[])?;
    Ok(entry(id, &ready.facts.text("provider").unwrap_or_default()))
}

/// All models, as OpenAI's clients read them.
pub(crate) async fn list(snapshot: &Snapshot) -> Vec<Json> {
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
    models.extend(snapshot.offers().into_iter().map(|offer| {
        let entry = entry(&offer.id, PIPES);
        // A new object takes any value.
        let _ = entry.set("name", offer.name.as_str());
        entry
    }));
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
