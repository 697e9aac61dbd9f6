//! Approvals of MCP tools by operators of a running host, bound to the tools that they were shown.

use super::mounts::{Board, Mounts, Status};
use crate::error::McpError;
use crate::pins::{PinStatus, Pins};
use std::collections::BTreeMap;
use std::sync::Arc;
use valvehouse_config::McpServer;
use valvehouse_core::text::did_you_mean;

/// The MCP servers of a running host with their approvals.
#[derive(Clone)]
pub struct Approvals {
    board: Arc<Board>,
}

impl Approvals {
    /// Returns the servers of these mounts. This does not keep the mounts running.
    pub fn of(mounts: &Mounts) -> Self {
        Self { board: mounts.board.clone() }
    }

    /// Returns the servers with their tools, by name.
    pub fn servers(&self) -> Vec<(McpServer, Status)> {
        self.board.servers()
    }

    /// Approves tools of a server, all of them or none. `shown` has the server's names of the tools, with the
    /// hashes that the operator was shown. Returns the names that were not approved before.
    ///
    /// # Errors
    /// Returns an error if the server is unknown or not connected, if a tool is unknown or its hash has
    /// changed, or if the file of approvals cannot be changed.
    pub async fn approve(
        &self,
        name: &str,
        shown: &BTreeMap<String, String>,
    ) -> Result<Vec<String>, McpError> {
        let (server, status) = self.named(name)?;
        if let (Some(why), _) | (None, Some(why)) =
            (status.error.as_deref(), (!status.is_settled).then_some("the server is not connected yet"))
        {
            return Err(McpError::Away(format!("cannot approve tools of `{name}`: {why}")));
        }
        let there = || status.tools.iter().filter(|tool| tool.standing != PinStatus::Gone);
        let mut selected = Vec::new();
        for (tool, hash) in shown {
            let Some(seen) = there().map(|one| &one.seen).find(|seen| seen.name == *tool) else {
                let near = did_you_mean(tool, there().map(|one| one.seen.name.as_str()));
                return Err(McpError::Unknown(format!(
                    "cannot approve `{tool}`: `{name}` has no such tool{near}"
                )));
            };
            if seen.hash(&server) != *hash {
                return Err(McpError::Changed(format!(
                    "cannot approve `{tool}` of `{name}`: it has changed since it was listed; list the tools again"
                )));
            }
            selected.push(seen.clone());
        }
        self.change(move |pins| {
            selected.retain(|tool| pins.standing(&server, tool) != PinStatus::Approved);
            selected.iter().for_each(|tool| pins.approve(&server, tool));
            Ok(selected.into_iter().map(|tool| tool.name).collect())
        })
        .await
    }

    /// Revokes approvals of a server's tools, all of them or none. `shown` has the server's names of the
    /// tools, with the hashes of the approvals that the operator was shown. Returns the names.
    ///
    /// # Errors
    /// Returns an error if the server or an approval is unknown, if an approval was renewed since, or if the
    /// file of approvals cannot be changed.
    pub async fn forget(
        &self,
        name: &str,
        shown: &BTreeMap<String, String>,
    ) -> Result<Vec<String>, McpError> {
        let (server, _) = self.named(name)?;
        let shown = shown.clone();
        self.change(move |pins| {
            let name = &server.name;
            for (tool, hash) in &shown {
                let pin = pins.of(name, tool).ok_or_else(|| {
                    let approved = pins.servers.get(name).into_iter().flatten().map(|(tool, _)| tool.as_str());
                    let near = did_you_mean(tool, approved);
                    McpError::Unknown(format!(
                        "cannot revoke an approval: `{tool}` of `{name}` has none{near}"
                    ))
                })?;
                if pin.hash != *hash {
                    return Err(McpError::Changed(format!(
                        "cannot revoke the approval of `{tool}` of `{name}`: it has changed since it was listed; list the tools again"
                    )));
                }
            }
            for tool in shown.keys() {
                pins.forget(name, tool);
            }
            Ok(shown.into_keys().collect())
        })
        .await
    }

    fn named(&self, name: &str) -> Result<(McpServer, Status), McpError> {
        let mut servers = self.board.servers();
        match servers.iter().position(|(server, _)| server.name == name) {
            Some(place) => Ok(servers.swap_remove(place)),
            None => {
                let near = did_you_mean(name, servers.iter().map(|(server, _)| server.name.as_str()));
                Err(McpError::Unknown(format!("unknown MCP server `{name}`{near}")))
            }
        }
    }

    /// Changes the file of approvals, and applies it on this host.
    async fn change(
        &self,
        change: impl FnOnce(&mut Pins) -> Result<Vec<String>, McpError> + Send + 'static,
    ) -> Result<Vec<String>, McpError> {
        let _one_at_a_time = self.board.changing.lock().await;
        let project = self.board.project.clone();
        let changing = tokio::task::spawn_blocking(move || Pins::change(&project, change));
        let (names, pins) = changing.await.map_err(|error| McpError::Unreadable(error.into()))??;
        self.board.follow(pins);
        Ok(names)
    }
}
