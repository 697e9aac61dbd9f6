//! The link to a server, shared by its tools: the state of the connection, and the tools that may be called.

use super::guarded_call::GuardedCall;
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
use valvehouse_json::Json;
use valvehouse_store::Store;

/// The handle for requests to a server.
pub(super) type Remote = Peer<RoleClient>;

/// Returns `true` if a server uses the protocol version without sessions.
pub(super) fn is_stateless(remote: &Remote) -> bool {
    let first = ProtocolVersion::V_2026_07_28;
    remote.peer_info().is_some_and(|info| info.protocol_version.as_str() >= first.as_str())
}

/// Returns the URL or the command line of a server without secrets.
pub fn address(server: &McpServer) -> String {
    match &server.transport {
        McpTransport::Http { url, .. } => valvehouse_net::shown(url),
        transport @ McpTransport::Command { .. } => transport.shown_command().join(" "),
    }
}

/// The link to a server.
pub(super) struct Link {
    pub(super) server: McpServer,
    /// The storage of its login, if it uses one.
    pub(super) vault: Option<Vault>,
    /// The resources that clients subscribed to; `None` for a single scan.
    pub(super) subscriptions: Option<Arc<ResourceSubscriptions>>,
    /// The limit of concurrent calls.
    pub(super) calls: Semaphore,
    state: Mutex<State>,
    /// The calls in progress, by progress token.
    pub(super) progress: Arc<Mutex<HashMap<ProgressToken, Arc<GuardedCall>>>>,
    /// Notified when the server's lists changed, or a call found the connection closed.
    pub(super) look_again: Arc<Notify>,
}

struct State {
    remote: Result<Remote, String>,
    /// The hashes of the tools that may be called, by the server's names.
    callable: HashMap<String, String>,
}

impl Link {
    /// Creates a link. Without a store, logins are not available.
    pub(super) fn new(
        server: McpServer,
        store: Option<&Arc<Store>>,
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

    /// Returns a reason with secrets in the server's URL or arguments redacted.
    pub(super) fn showable(&self, why: String) -> String {
        let url = match &self.server.transport {
            McpTransport::Http { url, .. } => url,
            McpTransport::Command { command, .. } => {
                let words = command.iter().zip(self.server.transport.shown_command());
                let secrets = words.filter_map(|(word, shown)| {
                    let same = word.char_indices().zip(shown.chars()).find(|((_, own), shown)| own != shown);
                    same.map(|((at, _), _)| &word[at..])
                });
                return secrets.fold(why, |why, secret| why.replace(secret, "***"));
            }
        };
        // Errors of the HTTP client contain the URL without the user, who is sent in a header.
        let mut anonymous = url.clone();
        let _ = (anonymous.set_username(""), anonymous.set_password(None));
        let shown = valvehouse_net::shown(url);
        why.replace(url.as_str(), &shown).replace(anonymous.as_str(), &shown)
    }

    /// Sets the connection to the server, or the reason for its absence.
    pub(super) fn set(&self, remote: Result<Remote, String>) {
        self.state.lock().remote = remote;
    }

    /// Sets the tools that may be called; calls with other hashes are rejected.
    pub(super) fn allow(&self, callable: HashMap<String, String>) {
        self.state.lock().callable = callable;
    }

    /// Returns the handle for a call of this tool, prompt or resource.
    ///
    /// # Errors
    /// Returns an error for models if the server is unavailable, or if the tool is not the one that was
    /// offered.
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

    /// Returns a call of a tool with this description.
    pub(super) fn call(&self, about: &Json, args: &Json, turn: &Turn) -> Arc<GuardedCall> {
        Arc::new(GuardedCall { turn: turn.clone(), about: about.clone(), args: args.clone() })
    }

    /// Returns the call in progress if there is exactly one.
    pub(super) fn only_call(&self) -> Option<Arc<GuardedCall>> {
        let open = self.progress.lock();
        let mut calls = open.values();
        match (calls.next(), calls.next()) {
            (Some(call), None) => Some(call.clone()),
            _ => None,
        }
    }

    /// Returns the handle for a call that was checked before.
    pub(super) fn connected(&self) -> Option<Remote> {
        self.state.lock().remote.clone().ok()
    }

    /// Returns the reason why the server is unavailable.
    pub(super) fn error(&self) -> Option<String> {
        self.state.lock().remote.as_ref().err().cloned()
    }
}
