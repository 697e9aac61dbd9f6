//! Calls of tools that scripts make within a turn: through the filters of the turn, as calls of its model.

use super::assembly::Kernel;
use super::invocation::invoke;
use crate::context::Turn;
use crate::fault::{Fault, Refusal};
use crate::tool::Tool;
use valvehouse_json::Json;

impl Kernel {
    /// The kernel that runs a turn now: its tools are those that the turn offers. `None` for a turn that none runs.
    pub fn of_turn(turn: &Turn) -> Option<Self> {
        turn.runner().and_then(Self::from_runner)
    }

    /// Makes this the kernel that runs a turn. Turns that it begins itself need no such word.
    pub fn runs(&self, turn: &Turn) {
        turn.run_by(self.to_runner());
    }

    /// Calls a tool for a plugin's script, through the filters of this kernel. The tool need not be one of its own.
    ///
    /// # Errors
    /// Returns a refusal if calls are nested too deep or there are too many of them in the turn, and what the call of a
    /// model would fail with.
    pub async fn call_for(&self, plugin: &str, tool: &Tool, args: Json, turn: &Turn) -> Result<Json, Fault> {
        let turn = turn
            .calling(plugin, tool.name(), &args)
            .map_err(|many| Fault::Refused(Refusal::new(many.to_string()).with_status(500)))?;
        turn.within_limits(invoke(self, tool, args, &turn, None)).await
    }
}
