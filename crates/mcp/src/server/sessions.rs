//! Sessions in the store: a client can continue its session on another host, or after a restart of its host.
//!
//! Only the initialization of a session is stored. Other state, such as its subscriptions and the questions
//! of calls in progress, stays on its host.

use async_trait::async_trait;
use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::session::{SessionState, SessionStore, SessionStoreError};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;
use valvehouse_store::{Store, StoreError, now};

/// The lifetime of a stored session, in milliseconds.
const LIFE_MS: i64 = 24 * 3_600_000;
/// The maximum number of sessions that are being initialized.
const MAX_NEW: usize = 1_024;

/// The sessions of all hosts of a store.
pub(super) struct StoredSessions {
    store: Arc<Store>,
    /// Sessions whose owner is not recorded yet.
    new: Mutex<HashMap<String, SessionState>>,
}

/// The stored form of a session.
#[derive(Serialize, Deserialize)]
struct StoredSession {
    owner: String,
    state: SessionState,
}

impl StoredSessions {
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self { store, new: Mutex::default() }
    }

    /// Stores a new session of this owner. If that fails, the session is known to this host only.
    pub(super) async fn own(&self, id: &str, owner: &str) {
        let Some(state) = self.new.lock().remove(id) else { return };
        let content = match serde_json::to_string(&StoredSession { owner: owner.to_owned(), state }) {
            Ok(content) => content,
            Err(error) => return tracing::warn!("a session is not stored: {error}"),
        };
        if let Err(error) = self.store.save_session(id, &content, now().saturating_add(LIFE_MS)).await {
            tracing::debug!("a session is known to this host alone: {error}");
        }
    }

    /// Returns the owner of a session, if it is stored.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    pub(super) async fn owner(&self, id: &str) -> Result<Option<String>, StoreError> {
        // All ids of sessions are UUIDs; other texts cause no query.
        if uuid::Uuid::try_parse(id).is_err() {
            return Ok(None);
        }
        Ok(self.read(id).await?.map(|session| session.owner))
    }

    async fn read(&self, id: &str) -> Result<Option<StoredSession>, StoreError> {
        // A session that another version stored in another format is ignored.
        Ok(self.store.session(id).await?.and_then(|content| serde_json::from_str(&content).ok()))
    }
}

/// Callers check the owner of a session before.
#[async_trait]
impl SessionStore for StoredSessions {
    async fn load(&self, id: &str) -> Result<Option<SessionState>, SessionStoreError> {
        Ok(self.read(id).await?.map(|session| session.state))
    }

    async fn store(&self, id: &str, state: &SessionState) -> Result<(), SessionStoreError> {
        let mut new = self.new.lock();
        // Aborted requests leave their entries behind.
        if new.len() >= MAX_NEW {
            new.clear();
        }
        new.insert(id.to_owned(), state.clone());
        Ok(())
    }

    async fn delete(&self, id: &str) -> Result<(), SessionStoreError> {
        Ok(self.store.end_session(id).await?)
    }
}
