//! A function of a script that is a tool.

use crate::hooks::Param;
use valvehouse_core::tool::Declared;
use valvehouse_json::Json;

/// One tool of a script, and the function that runs.
pub(crate) struct ToolFunction {
    pub(super) declared: Declared,
    pub(super) function: String,
    /// Curried arguments, handed in first.
    pub(super) bound: Vec<Json>,
    pub(super) params: Vec<Param>,
}

impl ToolFunction {
    /// The tool's name.
    pub(crate) fn name(&self) -> &str {
        &self.declared.spec.name
    }
}
