//! A function of a script that is a tool.

use crate::hooks::Param;
use valvehouse_core::tool::ToolDeclaration;
use valvehouse_json::Json;

/// One tool of a script, and the function that runs.
pub(crate) struct ToolFunction {
    pub(super) declared: ToolDeclaration,
    pub(super) function: String,
    /// Curried arguments, handed in first.
    pub(super) bound: Vec<Json>,
    pub(super) params: Vec<Param>,
    /// The argument that is handed in as the value of the call; all of them where there is none.
    pub(super) subject: Option<&'static str>,
}

impl ToolFunction {
    /// The tool's name.
    pub(crate) fn name(&self) -> &str {
        &self.declared.spec.name
    }
}

/// The use of a served function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Returns the messages of a prompt; `metadata.prompt` is its declaration.
    Prompt,
    /// Returns the content of a resource; `metadata.resources` and `metadata.templates` are the lists.
    Resource,
    /// Returns completions of an argument; `metadata.of` is the prompt's name or the template.
    Completion,
}

/// A function of a script that is served to clients of MCP beside its tools.
pub(crate) struct ServedFunction {
    pub(crate) role: Role,
    pub(crate) function: ToolFunction,
}
