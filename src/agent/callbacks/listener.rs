//! Whoever listens beside the run, in order: scripts.

use crate::callback::Callback;
use crate::context::Turn;
use crate::json::Json;
use crate::script::ScriptCallbacks;
use futures::future::BoxFuture;

/// Somebody who is told by and by what happened in a run.
pub trait Listener: Send + Sync {
    /// Who it is, a script's id.
    fn name(&self) -> &str;

    /// Whether it wants to be told of this moment.
    fn hears(&self, callback: Callback) -> bool;

    /// It is told. `event` is its own; `state` is its scratch map of the run; the turn is beside that of the
    /// run, which may be over already.
    fn hear(
        &self,
        callback: Callback,
        event: Json,
        state: Json,
        turn: Turn,
    ) -> BoxFuture<'_, Result<(), String>>;
}

impl Listener for ScriptCallbacks {
    fn name(&self) -> &str {
        self.id()
    }

    fn hears(&self, callback: Callback) -> bool {
        self.callbacks().any(|own| own == callback)
    }

    fn hear(
        &self,
        callback: Callback,
        event: Json,
        state: Json,
        turn: Turn,
    ) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(ScriptCallbacks::hear(self, callback, event, state, turn))
    }
}
