//! `/api/v1/mcp`: the mounted MCP servers, their tools, and the approvals of these, for operators.

use crate::auth::{self, Operator};
use crate::extract::{Id, object};
use crate::reply;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use std::collections::BTreeMap;
use std::sync::Arc;
use valvehouse_config::{McpServer, McpTransport};
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::admin;
use valvehouse_host::app::App;
use valvehouse_json::Json;
use valvehouse_mcp::{ApprovalError, Approvals, Difference, PinStatus, ServerOffer, Status};

/// The routes, for operators.
pub(crate) fn routes(app: &Arc<App>, approvals: Approvals) -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/mcp", get(list))
        .route("/api/v1/mcp/{name}/approve", post(approve))
        .route("/api/v1/mcp/{name}/forget", post(forget))
        .layer(Extension(approvals))
        .route_layer(axum::middleware::from_fn_with_state(app.clone(), auth::operators_only))
}

/// `GET /api/v1/mcp`: the servers, with all their tools.
async fn list(Extension(approvals): Extension<Approvals>) -> Response {
    reply::answer(Ok(reply::list(
        approvals.servers().iter().map(|(server, status)| of_server(server, status)),
    )))
}

/// `POST /api/v1/mcp/{name}/approve`: `{tools: {NAME: hash}}`, with the hashes that were shown.
async fn approve(
    State(app): State<Arc<App>>,
    Extension(approvals): Extension<Approvals>,
    Id(name): Id,
    Extension(Operator(by)): Extension<Operator>,
    body: Body,
) -> Response {
    let done = async {
        let changed = approvals.approve(&name, &shown(&app, body).await?).await.map_err(refused)?;
        tracing::info!(server = name, by, "approved tools of an MCP server: {}", changed.join(", "));
        Ok(told(&name, &changed))
    };
    reply::answer(done.await)
}

/// `POST /api/v1/mcp/{name}/forget`: `{tools: {NAME: approved_hash}}`, with the hashes that were shown.
async fn forget(
    State(app): State<Arc<App>>,
    Extension(approvals): Extension<Approvals>,
    Id(name): Id,
    Extension(Operator(by)): Extension<Operator>,
    body: Body,
) -> Response {
    let done = async {
        let changed = approvals.forget(&name, &shown(&app, body).await?).await.map_err(refused)?;
        tracing::info!(
            server = name,
            by,
            "revoked approvals of tools of an MCP server: {}",
            changed.join(", ")
        );
        Ok(told(&name, &changed))
    };
    reply::answer(done.await)
}

/// The tools of a request, with the hashes that the operator was shown.
async fn shown(app: &App, body: Body) -> Result<BTreeMap<String, String>, Error> {
    let wrong = || {
        let message = "`tools` must be an object of at least one tool, with the listed hash of each";
        Error::invalid(message, Some("tools"))
    };
    let body = object(app, body).await?;
    let Some(tools @ Json::Object(_)) = body.get("tools") else { return Err(wrong()) };
    let hashes = tools.keys().into_iter().map(|tool| match tools.field(&tool) {
        Json::Text(hash) => Ok((tool.to_string(), hash.to_string())),
        _ => Err(wrong()),
    });
    let hashes = hashes.collect::<Result<BTreeMap<_, _>, _>>()?;
    if hashes.is_empty() { Err(wrong()) } else { Ok(hashes) }
}

fn told(server: &str, changed: &[String]) -> Json {
    let changed: Vec<Json> = changed.iter().map(|tool| tool.as_str().into()).collect();
    Json::from([("server", server.into()), ("changed", changed.into())])
}

fn refused(error: ApprovalError) -> Error {
    let (kind, code) = match error {
        ApprovalError::Unknown(_) => (RequestErrorKind::NotFound, "not_found"),
        ApprovalError::Changed(_) => (RequestErrorKind::Conflict, "changed_since_shown"),
        ApprovalError::Away(_) => (RequestErrorKind::Conflict, "mcp_server_away"),
        ApprovalError::File(_) => (RequestErrorKind::Conflict, "approvals_not_writable"),
    };
    Error::Request { message: error.to_string(), param: None, code: Some(code), kind }
}

fn of_server(server: &McpServer, status: &Status) -> Json {
    let state = match (&status.trouble, status.is_settled) {
        (Some(_), _) => "unavailable",
        (None, true) => "connected",
        (None, false) => "connecting",
    };
    let address = match &server.transport {
        // Without a user and a password, which may stand in it.
        McpTransport::Http { url, .. } => valvehouse_net::shown(url),
        McpTransport::Command { command, .. } => command.join(" "),
    };
    Json::from([
        ("name", server.name.as_str().into()),
        ("address", address.into()),
        ("trust", server.trust.as_str().into()),
        ("state", state.into()),
        ("trouble", status.trouble.as_deref().map_or(Json::Null, Json::from)),
        ("tools", status.tools.iter().map(|tool| of_tool(server, tool)).collect::<Vec<_>>().into()),
    ])
}

fn of_tool(server: &McpServer, tool: &ServerOffer) -> Json {
    let seen = &tool.seen;
    let hash = (tool.standing != PinStatus::Gone).then(|| seen.hash(server));
    let value = |value: &Option<serde_json::Value>| value.clone().map_or(Json::Null, Json::from);
    Json::from([
        ("name", tool.name.as_str().into()),
        ("kind", seen.kind.as_str().into()),
        ("tool", seen.name.as_str().into()),
        ("title", seen.title.as_deref().map_or(Json::Null, Json::from)),
        ("description", seen.description.as_str().into()),
        ("input_schema", seen.input_schema.clone().into()),
        ("output_schema", value(&seen.output_schema)),
        ("annotations", value(&seen.annotations)),
        ("state", tool.standing.as_str().into()),
        ("offered", tool.is_offered().into()),
        ("hash", hash.map_or(Json::Null, Json::from)),
        ("approved_hash", tool.approved_hash.as_deref().map_or(Json::Null, Json::from)),
        ("differences", tool.differences.iter().map(of_difference).collect::<Vec<_>>().into()),
    ])
}

fn of_difference(one: &Difference) -> Json {
    let (approved, now) = (lines(&one.approved), lines(&one.now));
    Json::from([
        ("part", one.part.into()),
        ("approved", one.approved.as_str().into()),
        ("now", one.now.as_str().into()),
        ("diff", admin::diff(&approved, &now, ["approved", "now"]).into()),
    ])
}

/// A value in lines: a schema with a line for each of its values.
fn lines(value: &str) -> String {
    let json = serde_json::from_str::<serde_json::Value>(value).ok().filter(|json| json.is_object());
    let pretty = json.and_then(|json| serde_json::to_string_pretty(&json).ok());
    let mut lines = pretty.unwrap_or_else(|| value.to_owned());
    // A text without an end of line would be marked in the difference.
    if !lines.is_empty() && !lines.ends_with('\n') {
        lines.push('\n');
    }
    lines
}
