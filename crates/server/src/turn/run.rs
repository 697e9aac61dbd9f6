//! The run that a turn is, where its model remembers.

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use std::sync::{Arc, OnceLock};
use valvehouse_store::Run;

/// Names the run of an agent.
const RUN: HeaderName = HeaderName::from_static("x-valvehouse-run");
/// Names its conversation.
const CHAT: HeaderName = HeaderName::from_static("x-valvehouse-chat-id");

/// The run of a turn, known once it has begun. A clone is the same.
#[derive(Clone, Default)]
pub(crate) struct RunSlot(Arc<OnceLock<Run>>);

impl RunSlot {
    /// Returns what takes the run when it begins.
    pub(crate) fn on_begin(&self) -> impl FnOnce(&Run) + Send + 'static {
        let slot = self.0.clone();
        // A turn begins one run.
        move |run| drop(slot.set(run.clone()))
    }

    /// The run, where the turn is one.
    pub(crate) fn get(&self) -> Option<&Run> {
        self.0.get()
    }

    /// Names the run and its conversation in an answer.
    pub(crate) fn name(&self, response: &mut Response) {
        let Some(run) = self.0.get() else { return };
        for (name, value) in [(RUN, &run.id), (CHAT, &run.conversation)] {
            // An id that fits no header came in a body; its client knows it.
            if let Ok(value) = HeaderValue::from_str(value) {
                response.headers_mut().insert(name, value);
            }
        }
    }
}
