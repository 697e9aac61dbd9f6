//! The latest response of a WebSocket, which the next one may continue although it is not stored.

use parking_lot::Mutex;
use std::sync::Arc;
use valvehouse_json::Json;

/// The latest response of one connection.
#[derive(Clone, Default)]
pub(crate) struct Local(Arc<Mutex<Option<Latest>>>);

struct Latest {
    id: String,
    /// The items of the conversation that it ended, its own at their end.
    items: Vec<Json>,
}

impl Local {
    /// The items of the conversation that the response of this id ended.
    pub(super) fn items(&self, id: &str) -> Option<Vec<Json>> {
        self.0.lock().as_ref().filter(|latest| latest.id == id).map(|latest| latest.items.clone())
    }

    /// Keeps a response in place of the one before.
    pub(super) fn keep(&self, id: &str, items: Vec<Json>) {
        *self.0.lock() = Some(Latest { id: id.to_owned(), items });
    }

    /// Forgets the response of this id: what continued it failed.
    pub(super) fn forget(&self, id: &str) {
        self.0.lock().take_if(|latest| latest.id == id);
    }
}
