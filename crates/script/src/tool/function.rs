//! The function of a script that implements a tool.

use crate::declare::hooks::Param;
use valvehouse_core::tool::ToolDeclaration;
use valvehouse_json::Json;

/// A tool of a script, and the function that runs it.
pub(crate) struct ToolFunction {
    pub(super) declared: ToolDeclaration,
    pub(super) function: String,
    /// The curried arguments, which are passed first.
    pub(super) bound: Vec<Json>,
    pub(super) params: Vec<Param>,
    /// The argument that is passed as the subject; `None` passes all arguments.
    pub(super) subject: Option<&'static str>,
}

impl ToolFunction {
    /// Returns the tool's name.
    pub(crate) fn name(&self) -> &str {
        &self.declared.spec.name
    }
}

/// The purpose of a served function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Returns the messages of a prompt; `metadata.prompt` is its declaration.
    Prompt,
    /// Returns the content of a resource; `metadata.resources` and `metadata.templates` are the lists.
    Resource,
    /// Returns completions of an argument; `metadata.of` is the prompt's name or the template.
    Completion,
}

/// A function of a script that is served to MCP clients in addition to its tools.
pub(crate) struct ServedFunction {
    pub(crate) role: Role,
    pub(crate) function: ToolFunction,
}
