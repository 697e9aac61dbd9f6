//! The link to one server, as its tools use it: up or down, with the tools that may be called now.

use super::oauth::Vault;
use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{ProgressToken, ProtocolVersion};
use rmcp::service::Peer;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::{Notify, Semaphore};
use valvehouse_config::{McpServer, McpTransport};
use valvehouse_core::context::Turn;
use valvehouse_host::ResourceSubscriptions;
use valvehouse_store::Store;

/// The server's side of a connection.
pub(super) type Remote = Peer<RoleClient>;

/// Returns `true` if a server speaks the version without sessions.
pub(super) fn is_stateless(remote: &Remote) -> bool {
    let first = ProtocolVersion::V_2026_07_28;
    remote.peer_info().is_some_and(|info| info.protocol_version.as_str() >= first.as_str())
}

/// The link to one server.
pub(super) struct Link {
    pub(super) server: McpServer,
    /// The place of its login, where it has one.
    pub(super) vault: Option<Vault>,
    /// The resources that clients follow; none for a look that ends at once.
    pub(super) subscriptions: Option<Arc<ResourceSubscriptions>>,
    /// Calls at once.
    pub(super) calls: Semaphore,
    state: Mutex<State>,
    /// The turns that follow the progress of a call.
    pub(super) progress: Arc<Mutex<HashMap<ProgressToken, Turn>>>,
    /// The server's list changed, or a call found it gone.
    pub(super) look_again: Arc<Notify>,
}

struct State {
    remote: Result<Remote, String>,
    /// The hashes of the tools that may be called, by the server's names.
    callable: HashMap<String, String>,
}

impl Link {
    /// Without a store there is no login.
    pub(super) fn new(
        server: McpServer,
        store: Option<&Arc<dyn Store>>,
        subscriptions: Option<Arc<ResourceSubscriptions>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            vault: store.and_then(|store| Vault::of(&server, store)),
            subscriptions,
            calls: Semaphore::new(server.concurrency),
            server,
            state: Mutex::new(State {
                remote: Err("the server is not connected yet".into()),
                callable: HashMap::new(),
            }),
            progress: Arc::default(),
            look_again: Arc::default(),
        })
    }

    /// A reason as it may be shown: without what may be secret in the server's address.
    pub(super) fn showable(&self, why: String) -> String {
        let McpTransport::Http { url, .. } = &self.server.transport else { return why };
        // Clients name an address without its user, who goes into a header.
        let mut anonymous = url.clone();
        let _ = (anonymous.set_username(""), anonymous.set_password(None));
        let shown = valvehouse_net::shown(url);
        why.replace(url.as_str(), &shown).replace(anonymous.as_str(), &shown)
    }

    /// Records the connection to the server, or the reason for its absence.
    pub(super) fn set(&self, remote: Result<Remote, String>) {
        self.state.lock().remote = remote;
    }

    /// Notes the tools that may be called from now on: a call that comes with another hash is refused.
    pub(super) fn allow(&self, callable: HashMap<String, String>) {
        self.state.lock().callable = callable;
    }

    /// The way to the server for a call of this very tool, prompt or resource.
    ///
    /// # Errors
    /// Returns an error for models if the server is away, or the tool is not the one that was offered.
    pub(super) fn remote(&self, tool: &str, hash: &str) -> Result<Remote, String> {
        let state = self.state.lock();
        let name = &self.server.name;
        let remote =
            state.remote.clone().map_err(|why| format!("the server `{name}` is not available: {why}"))?;
        if state.callable.get(tool).is_none_or(|callable| callable != hash) {
            return Err(format!(
                "`{tool}` of the server `{name}` has changed since its approval; an operator has to review it: valvehouse mcp list"
            ));
        }
        Ok(remote)
    }

    /// The turn of the call that is in progress, where it is the only one.
    pub(super) fn only_call(&self) -> Option<Turn> {
        let open = self.progress.lock();
        let mut turns = open.values();
        match (turns.next(), turns.next()) {
            (Some(turn), None) => Some(turn.clone()),
            _ => None,
        }
    }

    /// The way to the server, for what belongs to a call that began.
    pub(super) fn connected(&self) -> Option<Remote> {
        self.state.lock().remote.clone().ok()
    }

    /// The reason for which there is no way to the server.
    pub(super) fn error(&self) -> Option<String> {
        self.state.lock().remote.as_ref().err().cloned()
    }
}
