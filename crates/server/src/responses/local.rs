//! The latest response of a WebSocket, which the next one may continue although it is not stored.

use parking_lot::Mutex;
use std::sync::Arc;
use valvehouse_json::Json;

/// The id and the items of the latest response of one connection.
#[derive(Clone, Default)]
pub(crate) struct Local(Arc<Mutex<Option<(String, Vec<Json>)>>>);

impl Local {
    /// The items of the conversation that the response of this id ended.
    pub(super) fn items(&self, id: &str) -> Option<Vec<Json>> {
        self.0.lock().as_ref().filter(|(latest, _)| latest == id).map(|(_, items)| items.clone())
    }

    /// Keeps a response in place of the one before.
    pub(super) fn keep(&self, id: &str, items: Vec<Json>) {
        *self.0.lock() = Some((id.to_owned(), items));
    }

    /// Forgets the response of this id: what continued it failed.
    pub(super) fn forget(&self, id: &str) {
        self.0.lock().take_if(|(latest, _)| latest == id);
    }
}
