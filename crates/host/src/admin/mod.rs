//! What operators do to plugins: each change is checked first, applied whole, and written down with who made
//! it, so that it can be taken back.
//!
//! [`Admin`] changes what a host runs and answers when the change is live there. The commands have no host:
//! they use [`rollback`] with a writer of their own, and hosts that run follow.

mod files;
mod refused;
mod rollback;
mod scripts;
mod shown;
mod valves;
mod versions;

pub use refused::Refused;
pub use rollback::rollback;
pub use scripts::Expected;
pub use shown::shown;
pub use valves::schema;
pub use versions::{Against, Detail, Entry, detail, entries};

use crate::{Host, Plugin, Snapshot};
use std::sync::Arc;
use tokio::sync::Mutex;
use valvehouse_core::fault::{Fault, RequestFault};
use valvehouse_core::words::nearest;

/// Changes plugins of a running host.
pub struct Admin {
    host: Arc<Host>,
    /// Held while a switch is turned to the other side: that is known when the last turn is live.
    switching: Mutex<()>,
}

impl Admin {
    /// Of this host.
    pub fn new(host: Arc<Host>) -> Self {
        Self { host, switching: Mutex::default() }
    }

    /// A plugin that is there now.
    pub fn plugin(&self, id: &str) -> Result<Arc<Plugin>, Refused> {
        known(&self.host.snapshot(), id).cloned()
    }
}

/// A plugin by its id, or the one that was probably meant.
pub fn known<'a>(snapshot: &'a Snapshot, id: &str) -> Result<&'a Arc<Plugin>, Refused> {
    snapshot.plugins.get(id).ok_or_else(|| {
        let hint = match nearest(id, snapshot.plugins.keys().map(|id| &**id)) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => String::new(),
        };
        Refused::from(Fault::Request {
            message: format!("there is no plugin `{}`{hint}", id.escape_debug()),
            param: Some("id"),
            code: Some("plugin_not_found"),
            kind: RequestFault::NotFound,
        })
    })
}
