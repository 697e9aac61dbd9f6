//! The models and the version, over Ollama's API.

use crate::auth;
use crate::body::parsed_within;
use crate::handler::{get, post};
use crate::headers::named;
use crate::openai::catalog;
use crate::reply::json_response;
use crate::scope;
use crate::turn::serve::{received, refused};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use std::sync::Arc;
use valvehouse_core::error::Error;
use valvehouse_host::Snapshot;
use valvehouse_host::app::App;
use valvehouse_json::{Json, Object};
use valvehouse_wire::ollama::answer::OllamaWriter;
use valvehouse_wire::ollama::models;

/// The version of Ollama whose API is served, with levels of thinking. Clients require a minimum: VS Code 0.6.4
/// (`OllamaLMProvider`, `MINIMUM_OLLAMA_VERSION`).
const VERSION: &str = "0.12.0";

/// The name of the architecture of every model, to which `model_info` refers.
const ARCHITECTURE: &str = "valvehouse";

/// The capabilities of Ollama's models, each with the words of `abilities` that name it.
const CAPABILITIES: [(&str, &[&str]); 5] = [
    ("tools", &["tools", "tool_calls", "function_calling"]),
    ("vision", &["vision", "images"]),
    ("thinking", &["thinking", "reasoning"]),
    ("embedding", &["embedding", "embeddings"]),
    ("insert", &["insert"]),
];

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/tags", get(tags))
        .route("/api/ps", get(running))
        .route("/api/show", post(show))
        .route("/api/version", get(version))
}

async fn version() -> Response {
    json_response(StatusCode::OK, &Json::from([("version", VERSION.into())]))
}

/// Lists all models.
async fn tags(State(app): State<Arc<App>>, parts: Parts) -> Response {
    if let Err(error) = auth::user_of_key(&app, &parts) {
        return refused::<OllamaWriter>(error);
    }
    let models = scope::visible(&app, &parts, catalog::list(&app.host.snapshot()).await);
    let models: Vec<Json> = models.iter().map(models::write).collect();
    json_response(StatusCode::OK, &Json::from([("models", models.into())]))
}

/// Lists the models in the memory of this host: none, because services run them.
async fn running(State(app): State<Arc<App>>, parts: Parts) -> Response {
    match auth::user_of_key(&app, &parts) {
        Ok(_) => json_response(StatusCode::OK, &Json::from([("models", Json::array())])),
        Err(error) => refused::<OllamaWriter>(error),
    }
}

/// Describes a model, which the request names as `model` or, in an older form, as `name`.
async fn show(State(app): State<Arc<App>>, request: Request) -> Response {
    let snapshot = app.host.snapshot();
    let answer = async {
        let (parts, body) = request.into_parts();
        let (_, bytes) = received(&app, &parts, body).await?;
        let sent = parsed_within(&bytes, &app.memory.share())?;
        let name =
            ["model", "name"].into_iter().filter_map(|key| sent.text(key)).find(|name| !name.is_empty());
        let name = name.ok_or_else(|| Error::invalid("missing `model`: name the model", Some("model")))?;
        let name = untagged(&snapshot, &name);
        scope::check_model(&app, &parts, &snapshot, name, &Json::Null)?;
        Ok(json_response(StatusCode::OK, &shown(&snapshot, name)?))
    };
    named(&snapshot, Box::pin(answer), refused::<OllamaWriter>).await
}

/// Returns the name of a model without the tag that clients of Ollama add to names without one.
pub(super) fn untagged<'a>(snapshot: &Snapshot, name: &'a str) -> &'a str {
    let is_named = || snapshot.plan().model(name).is_some();
    let base = name.strip_suffix(":latest").filter(|base| !is_named() && snapshot.ready(base, &[]).is_ok());
    base.unwrap_or(name)
}

/// Returns the description of a model. Unknown fields are empty.
fn shown(snapshot: &Snapshot, name: &str) -> Result<Json, Error> {
    let facts = snapshot.ready(name, &[])?.facts;
    let abilities = facts.list("abilities");
    let has = |words: &[&str]| abilities.iter().filter_map(Json::as_str).any(|own| words.contains(&own));
    let mut capabilities: Vec<&str> =
        CAPABILITIES.into_iter().filter(|(_, words)| has(words)).map(|(name, _)| name).collect();
    if capabilities.is_empty() {
        // Most models call tools, and many clients offer none without this word.
        capabilities.push("tools");
    }
    let capabilities: Vec<Json> = ["completion"].into_iter().chain(capabilities).map(Json::from).collect();
    let known =
        [("general.architecture".into(), ARCHITECTURE.into()), ("general.basename".into(), name.into())];
    let context = facts.given("context_length");
    let context = context.map(|length| (format!("{ARCHITECTURE}.context_length").into(), length));
    Ok(Json::from([
        ("license", "".into()),
        ("modelfile", "".into()),
        ("parameters", "".into()),
        ("template", "".into()),
        ("details", models::details()),
        ("model_info", known.into_iter().chain(context).collect::<Object>().into()),
        ("capabilities", capabilities.into()),
        ("modified_at", models::modified_at(0)),
    ]))
}
