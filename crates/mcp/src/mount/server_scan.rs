//! A scan of an MCP server: its tools, compared with their approvals.

use super::connection::Connection;
use super::link::Link;
use super::lists::lists;
use super::names;
use crate::pins::{Difference, PartKind, Pin, PinStatus, Pins, ToolParts};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use globset::{Glob, GlobSet, GlobSetBuilder};
use std::collections::HashSet;
use std::sync::Arc;
use valvehouse_config::{McpServer, McpTrust};
use valvehouse_store::Store;

/// A tool, prompt, resource or template of a server or of an approval.
#[derive(Debug, Clone)]
pub struct ServerOffer {
    /// The name under which the host offers it; for a resource, the URI or template.
    pub name: String,
    /// Its current or its approved properties.
    pub seen: ToolParts,
    /// Its approval status.
    pub standing: PinStatus,
    /// The properties that differ from the approval.
    pub differences: Vec<Difference>,
    /// The hash of the approval with this name.
    pub approved_hash: Option<String>,
    /// `true` if another tool with the same name is offered.
    pub is_hidden: bool,
}

impl ServerOffer {
    /// Returns `true` if models are offered this tool.
    pub fn is_offered(&self) -> bool {
        self.standing == PinStatus::Approved && !self.is_hidden
    }
}

/// The outcome of a scan.
#[derive(Debug, Clone)]
pub struct ServerScan {
    /// The tools, by name.
    pub tools: Vec<ServerOffer>,
    /// The reason why the server is unavailable; the tools are then the approved ones.
    pub error: Option<String>,
    /// The lists of the server that are not complete, or may not be.
    pub problems: Vec<String>,
}

/// Connects to a server, lists its tools, and closes the connection. The store is needed only for servers
/// with a login.
pub fn look<'a>(
    server: &'a McpServer,
    pins: &'a Pins,
    store: Option<&'a Arc<Store>>,
) -> BoxFuture<'a, ServerScan> {
    let look = async move {
        let link = Link::new(server.clone(), store, None);
        let listed = match Connection::open(&link).await {
            Ok(connection) => {
                let listed = lists(&connection.remote()).await;
                connection.close().await;
                listed
            }
            Err(error) => Err(error),
        };
        match listed {
            Ok(listed) => ServerScan {
                tools: compared(server, &listed.parts, pins),
                error: None,
                problems: listed.problems.into_iter().map(|problem| link.showable(problem)).collect(),
            },
            Err(error) => ServerScan {
                tools: remembered(server, pins),
                error: Some(link.showable(error.why)),
                problems: Vec::new(),
            },
        }
    };
    look.boxed()
}

/// Returns the selected tools of a server, and the approved ones that it no longer has.
pub(super) fn compared(server: &McpServer, listed: &[ToolParts], pins: &Pins) -> Vec<ServerOffer> {
    let patterns = selected_names(server);
    let mut tools: Vec<ServerOffer> = listed
        .iter()
        .filter(|seen| is_selected(&patterns, seen))
        .map(|seen| {
            let standing = match server.trust {
                McpTrust::Always => PinStatus::Approved,
                McpTrust::Pin => pins.standing(server, seen),
            };
            let approved = pins.of(&server.name, &seen.name);
            let pin = approved.filter(|_| standing == PinStatus::Changed);
            let mut differences = pin.map(|pin| pin.seen.differences(seen)).unwrap_or_default();
            if let (true, Some(pin)) = (differences.is_empty(), pin) {
                differences.push(Difference {
                    part: "server",
                    approved: pin.hash.clone(),
                    now: seen.hash(server),
                });
            }
            ServerOffer { differences, ..tool(server, seen.clone(), standing, approved) }
        })
        .collect();
    if server.trust == McpTrust::Pin {
        let there: HashSet<&str> = listed.iter().map(|seen| seen.name.as_str()).collect();
        let approved = pins.servers.get(&server.name).into_iter().flatten();
        let gone = approved
            .filter(|(name, pin)| is_selected(&patterns, &pin.seen) && !there.contains(name.as_str()));
        tools.extend(gone.map(|(_, pin)| tool(server, pin.seen.clone(), PinStatus::Gone, Some(pin))));
    }
    hide_twins(&mut tools);
    tools
}

/// Returns the approved tools of an unavailable server.
pub(super) fn remembered(server: &McpServer, pins: &Pins) -> Vec<ServerOffer> {
    let patterns = selected_names(server);
    let approved = pins.servers.get(&server.name).into_iter().flatten().map(|(_, pin)| pin);
    let valid = approved.filter(|pin| pin.hash == pin.seen.hash(server) && is_selected(&patterns, &pin.seen));
    let mut tools: Vec<ServerOffer> =
        valid.map(|pin| tool(server, pin.seen.clone(), PinStatus::Approved, Some(pin))).collect();
    hide_twins(&mut tools);
    tools
}

fn tool(server: &McpServer, seen: ToolParts, standing: PinStatus, approved: Option<&Pin>) -> ServerOffer {
    ServerOffer {
        name: match seen.kind {
            PartKind::Tool | PartKind::Prompt => names::name(&server.name, seen.own_name()),
            PartKind::Resource | PartKind::Template => seen.own_name().to_owned(),
        },
        seen,
        standing,
        differences: Vec::new(),
        approved_hash: approved.map(|pin| pin.hash.clone()),
        is_hidden: false,
    }
}

/// Hides all but the first of several tools with one name.
fn hide_twins(tools: &mut [ServerOffer]) {
    tools.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.seen.name.cmp(&b.seen.name)));
    let mut names = HashSet::new();
    for tool in tools.iter_mut() {
        tool.is_hidden = !names.insert((tool.seen.kind, tool.name.clone()));
    }
}

/// Returns `true` if the settings select a part: `tools` selects tools, other parts are always selected.
fn is_selected(patterns: &GlobSet, seen: &ToolParts) -> bool {
    seen.kind != PartKind::Tool || patterns.is_match(&seen.name)
}

/// Returns the patterns of the settings; an invalid one matches nothing.
fn selected_names(server: &McpServer) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for pattern in &server.tools {
        match Glob::new(pattern) {
            Ok(glob) => drop(set.add(glob)),
            Err(error) => {
                tracing::warn!(server = server.name, "invalid pattern in `tools`: {error}")
            }
        }
    }
    set.build().unwrap_or_default()
}
