//! The administration of a running host's plugins.

use super::rejection::AdminError;
use crate::host::Host;
use crate::plugin::Plugin;
use crate::snapshot::Snapshot;
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::Mutex;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::text::nearest;

/// Changes plugins of a running host.
pub struct Admin {
    pub(super) host: Arc<Host>,
    /// The lock that serializes toggles: each one needs the result of the one before.
    pub(super) switching: Mutex<()>,
}

impl Admin {
    /// Creates the administration of a host.
    pub fn new(host: Arc<Host>) -> Self {
        Self { host, switching: Mutex::default() }
    }

    /// Returns a current plugin.
    ///
    /// # Errors
    /// Returns a refusal for an unknown plugin.
    pub fn plugin(&self, id: &str) -> Result<Arc<Plugin>, AdminError> {
        known(&self.host.snapshot(), id).cloned()
    }

    /// Applies a change completely, even if the client disconnects meanwhile, and makes it live.
    pub(super) async fn whole<F>(
        &self,
        id: String,
        change: impl FnOnce(Arc<Host>) -> F,
    ) -> Result<Arc<Snapshot>, AdminError>
    where
        F: Future<Output = Result<(), AdminError>> + Send + 'static,
    {
        self.make(id, Box::pin(change(self.host.clone()))).await
    }

    async fn make(
        &self,
        id: String,
        changing: BoxFuture<'static, Result<(), AdminError>>,
    ) -> Result<Arc<Snapshot>, AdminError> {
        let host = self.host.clone();
        let task = tokio::spawn(async move {
            changing.await?;
            Ok(host.reload_with(&id).await)
        });
        task.await.unwrap_or_else(|error| {
            Err(Error::Host(format!("cannot complete the change: its task ended early: {error}")).into())
        })
    }
}

/// Returns a plugin by its id.
///
/// # Errors
/// Returns a refusal with a suggestion for an unknown plugin.
pub fn known<'a>(snapshot: &'a Snapshot, id: &str) -> Result<&'a Arc<Plugin>, AdminError> {
    snapshot.plugins.get(id).ok_or_else(|| {
        let hint = match nearest(id, snapshot.plugins.keys().map(|id| &**id)) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => String::new(),
        };
        AdminError::from(Error::Request {
            message: format!("unknown plugin `{}`{hint}", id.escape_debug()),
            param: Some("id"),
            code: Some("plugin_not_found"),
            kind: RequestErrorKind::NotFound,
        })
    })
}
