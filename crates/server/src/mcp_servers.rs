//! `/api/v1/mcp`: the mounted MCP servers, their tools and the approvals of tools, for operators.

use crate::api::{Answer, Body, Callers, List, Path, Reply, Routes, get, post};
use crate::auth::Operator;
use crate::reply::OpenAiError;
use axum::Extension;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use valvehouse_config::McpServer;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::access::OperatorRole::Admin;
use valvehouse_host::admin;
use valvehouse_mcp::{Approvals, Difference, McpError, PinStatus, ServerOffer, Status, address};

/// Returns the routes, which are for operators.
pub(crate) fn routes(approvals: Approvals) -> Routes {
    Routes::new("Page", Callers::Operators)
        .route(
            "/api/v1/mcp",
            get("Lists the mounted MCP servers with their tools and the changes since approval.", list),
        )
        .route(
            "/api/v1/mcp/{name}/approve",
            post(Admin, "Approves tools of a server as they were shown: all of them or none.", approve)
                .conflicts(),
        )
        .route(
            "/api/v1/mcp/{name}/forget",
            post(Admin, "Revokes approvals of tools of a server: all of them or none.", forget).conflicts(),
        )
        .map(|router| router.layer(Extension(approvals)))
}

/// A mounted MCP server.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "McpServer")]
struct MountedServer {
    name: String,
    /// The URL without user, password and query, or the command line with its secrets masked.
    address: String,
    #[schemars(extend("enum" = ["pin", "always"]))]
    trust: &'static str,
    #[schemars(extend("enum" = ["connected", "connecting", "unavailable"]))]
    state: &'static str,
    /// The reason why the server is unavailable, or null.
    error: Option<String>,
    tools: Vec<McpTool>,
}

/// A tool of a server, or a prompt or resource that is offered as a tool.
#[derive(Serialize, JsonSchema)]
struct McpTool {
    /// The name that models receive.
    name: String,
    #[schemars(extend("enum" = ["tool", "prompt", "resource", "template"]))]
    kind: &'static str,
    /// The name at the server; `prompt:NAME`, `resource:URI` or `template:URI` if it is not a tool.
    tool: String,
    title: Option<String>,
    description: String,
    input_schema: Value,
    output_schema: Option<Value>,
    annotations: Option<Value>,
    #[schemars(extend("enum" = ["approved", "new", "changed", "gone"]))]
    state: &'static str,
    /// Set if the tool is approved and no tool of another server has the same name.
    offered: bool,
    /// The SHA-256 of the tool as listed here, including its server's address; null if the tool no longer
    /// exists.
    hash: Option<String>,
    /// The hash of the approved tool with this name, or null.
    approved_hash: Option<String>,
    /// The differences from the approved tool.
    differences: Vec<McpDifference>,
}

/// A part of a tool that differs from the approved tool.
#[derive(Serialize, JsonSchema)]
struct McpDifference {
    /// `title`, `description`, `input schema`, `output schema`, `annotations`, or `server` if the address
    /// changed.
    part: &'static str,
    approved: String,
    now: String,
    /// The difference in the unified format, with one line for each value of a schema.
    diff: String,
}

/// The path of a server.
#[derive(Deserialize, JsonSchema)]
struct ServerPath {
    /// The name of the server in `[[mcp]]`.
    #[schemars(example = &"github")]
    name: String,
}

/// Tools of a server with their listed hashes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = serde_json::json!({
    "tools": {"search": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}
}))]
struct ShownTools {
    /// The tools by their names at the server, each with its listed hash: `hash` to approve, `approved_hash`
    /// to revoke. Tools whose hash has changed are rejected with 409.
    #[schemars(extend("minProperties" = 1))]
    tools: BTreeMap<String, String>,
}

/// The tools whose approval changed.
#[derive(Serialize, JsonSchema)]
struct McpChanged {
    server: String,
    /// The names of the tools at the server.
    changed: Vec<String>,
}

/// Handles `GET /api/v1/mcp`: lists the servers with all their tools.
async fn list(Extension(approvals): Extension<Approvals>) -> Reply<List<MountedServer>> {
    List::reply(approvals.servers().iter().map(|(server, status)| of_server(server, status)))
}

/// Handles `POST /api/v1/mcp/{name}/approve`.
async fn approve(
    Extension(approvals): Extension<Approvals>,
    Path(ServerPath { name }): Path<ServerPath>,
    Extension(Operator(by)): Extension<Operator>,
    Body(shown): Body<ShownTools>,
) -> Answer<McpChanged> {
    let changed = approvals.approve(&name, &shown.tools).await.map_err(refused)?;
    tracing::info!(server = name, by, "approved tools of an MCP server: {}", changed.join(", "));
    Ok(Reply(McpChanged { server: name, changed }))
}

/// Handles `POST /api/v1/mcp/{name}/forget`.
async fn forget(
    Extension(approvals): Extension<Approvals>,
    Path(ServerPath { name }): Path<ServerPath>,
    Extension(Operator(by)): Extension<Operator>,
    Body(shown): Body<ShownTools>,
) -> Answer<McpChanged> {
    let changed = approvals.forget(&name, &shown.tools).await.map_err(refused)?;
    tracing::info!(server = name, by, "revoked approvals of tools of an MCP server: {}", changed.join(", "));
    Ok(Reply(McpChanged { server: name, changed }))
}

fn refused(error: McpError) -> OpenAiError {
    let (kind, code) = match error {
        McpError::Unknown(_) => (RequestErrorKind::NotFound, "not_found"),
        McpError::Changed(_) => (RequestErrorKind::Conflict, "changed_since_shown"),
        McpError::Away(_) => (RequestErrorKind::Conflict, "mcp_server_away"),
        _ => (RequestErrorKind::Conflict, "approvals_not_writable"),
    };
    Error::Request { message: error.to_string(), param: None, code: Some(code), kind }.into()
}

fn of_server(server: &McpServer, status: &Status) -> MountedServer {
    MountedServer {
        name: server.name.clone(),
        address: address(server),
        trust: server.trust.as_str(),
        state: match (&status.error, status.is_settled) {
            (Some(_), _) => "unavailable",
            (None, true) => "connected",
            (None, false) => "connecting",
        },
        error: status.error.clone(),
        tools: status.tools.iter().map(|tool| of_tool(server, tool)).collect(),
    }
}

fn of_tool(server: &McpServer, tool: &ServerOffer) -> McpTool {
    let seen = &tool.seen;
    McpTool {
        name: tool.name.clone(),
        kind: seen.kind.as_str(),
        tool: seen.name.clone(),
        title: seen.title.clone(),
        description: seen.description.clone(),
        input_schema: seen.input_schema.clone(),
        output_schema: seen.output_schema.clone(),
        annotations: seen.annotations.clone(),
        state: tool.standing.as_str(),
        offered: tool.is_offered(),
        hash: (tool.standing != PinStatus::Gone).then(|| seen.hash(server)),
        approved_hash: tool.approved_hash.clone(),
        differences: tool.differences.iter().map(of_difference).collect(),
    }
}

fn of_difference(one: &Difference) -> McpDifference {
    let (approved, now) = (lines(&one.approved), lines(&one.now));
    McpDifference {
        part: one.part,
        approved: one.approved.clone(),
        now: one.now.clone(),
        diff: admin::diff(&approved, &now, ["approved", "now"]),
    }
}

/// Formats a value with one line for each value of a schema.
fn lines(value: &str) -> String {
    let json = serde_json::from_str::<serde_json::Value>(value).ok().filter(|json| json.is_object());
    let pretty = json.and_then(|json| serde_json::to_string_pretty(&json).ok());
    let mut lines = pretty.unwrap_or_else(|| value.to_owned());
    // A missing final newline would be marked in the difference.
    if !lines.is_empty() && !lines.ends_with('\n') {
        lines.push('\n');
    }
    lines
}
