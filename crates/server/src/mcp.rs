//! `/mcp`: the host's tools for clients of the Model Context Protocol, with the keys and limits of other endpoints.

use crate::reply::OpenAiError;
use crate::{auth, credentials, facts};
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::sync::Arc;
use valvehouse_core::fault::Fault;
use valvehouse_host::app::App;
use valvehouse_json::{Json, Object};
use valvehouse_mcp::{Caller, Endpoint};

/// The route; none where no tool is served.
pub(crate) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let server = &app.config.server;
    let serves = |tools: &Vec<String>| !tools.is_empty();
    if !serves(&server.mcp_tools) && !server.keys.iter().filter_map(|key| key.mcp_tools.as_ref()).any(serves)
    {
        return Router::new();
    }
    let endpoint = Arc::new(Endpoint::new(app.clone()));
    let app = app.clone();
    let serve = move |request: Request| answer(app.clone(), endpoint.clone(), request);
    Router::new().route("/mcp", get(serve.clone()).post(serve.clone()).delete(serve))
}

async fn answer(app: Arc<App>, endpoint: Arc<Endpoint>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    match caller(&app, &parts) {
        Ok(caller) => endpoint.answer(Request::from_parts(parts, body), caller).await.map(Body::new),
        Err(fault) => OpenAiError(fault).into_response(),
    }
}

/// The sender of a request, by its key.
fn caller(app: &App, parts: &Parts) -> Result<Caller, Fault> {
    let key_user = auth::user_of_key(app, parts)?;
    let body = Json::object();
    let listed = app.host.snapshot().listed().clone();
    let facts = facts::of_body(app, parts, &body, &key_user, Json::Null, listed);
    let variables: Object = facts.variables.entries().into_iter().collect();
    let own = credentials::given_key(&parts.headers).and_then(|given| app.access.keys.mcp_tools(given));
    let tools = own.unwrap_or(&app.config.server.mcp_tools).to_vec();
    Ok(Caller { owner: auth::asker(app, &parts.headers), facts, variables: variables.into(), tools })
}
