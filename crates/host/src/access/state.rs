//! The state of access: keys, wrong attempts and rates.

use super::attempts::Attempts;
use super::issued::IssuedKeys;
use super::keys::Keys;
use super::rate::Rate;
use super::sockets::Sockets;
use parking_lot::RwLock;
use std::sync::Arc;
use valvehouse_config::{Config, Server};

/// The keys and limits of clients.
pub struct Access {
    /// The keys.
    pub keys: Keys,
    /// The recent wrong keys.
    pub attempts: Attempts,
    /// The open WebSockets.
    pub sockets: Sockets,
    /// The limit of requests for each client; `None` disables it.
    rate: RwLock<Option<Arc<Rate>>>,
}

impl Access {
    /// Creates the state of a configuration.
    pub fn new(config: &Config, issued: Arc<IssuedKeys>) -> Self {
        Self {
            keys: Keys::new(&config.server, config.admin.key.clone(), issued),
            attempts: Attempts::default(),
            sockets: Sockets::new(config.server.max_sockets, config.server.max_sockets_each),
            rate: RwLock::new(Rate::per_minute(config.server.requests_per_minute).map(Arc::new)),
        }
    }

    /// Returns the limit of requests for all clients; `None` if it is disabled.
    pub fn rate(&self) -> Option<Arc<Rate>> {
        self.rate.read().clone()
    }

    /// Applies the keys, the sign-in at a proxy and the limit of requests per minute of new settings; 0 disables the
    /// limit.
    pub fn configure(&self, server: &Server) {
        self.keys.configure(server);
        let requests = server.requests_per_minute;
        let mut rate = self.rate.write();
        if rate.as_ref().map_or(0, |rate| rate.requests) != requests {
            *rate = Rate::per_minute(requests).map(Arc::new);
        }
    }
}
