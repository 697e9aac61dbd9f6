//! Prompts and resources for MCP clients.

use valvehouse_core::tool::Tool;

/// The prompts and resources that scripts and mounted servers provide to MCP clients.
#[derive(Clone, Default)]
pub struct Offers {
    /// The prompts, with unique names; `metadata.prompt` of a specification is the declaration.
    pub prompts: Vec<Tool>,
    /// Functions that return the contents of resources; `metadata.resources` and `metadata.templates` list
    /// the resources.
    pub resources: Vec<Tool>,
    /// Functions that complete arguments; `metadata.of` is the prompt or the resource template.
    pub completions: Vec<Tool>,
}
