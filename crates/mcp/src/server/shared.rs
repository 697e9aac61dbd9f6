//! The parts that all sessions share.

use std::sync::Arc;
use tokio::sync::broadcast;
use valvehouse_host::app::App;

/// The parts that all sessions share.
pub(super) struct Shared {
    pub(super) app: Arc<App>,
    /// URIs of resources that changed.
    pub(super) updates: broadcast::Sender<String>,
}
