//! Prompts and resources for clients of MCP.

use valvehouse_core::tool::Tool;

/// The prompts and resources that scripts and mounted servers have for clients of MCP.
#[derive(Clone, Default)]
pub struct Offers {
    /// Prompts, each name once; `metadata.prompt` of its specification is the declaration.
    pub prompts: Vec<Tool>,
    /// Functions that return the content of resources; `metadata.resources` and `metadata.templates` list them.
    pub resources: Vec<Tool>,
    /// Functions that complete arguments; `metadata.of` is the prompt or the template.
    pub completions: Vec<Tool>,
}
