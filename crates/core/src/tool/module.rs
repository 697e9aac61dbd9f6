//! Tools that belong together.

use super::callable::Tool;

/// The description of a set of tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolInfo {
    /// The purpose of the tools.
    pub description: String,
    /// The tags of each tool that has none of its own.
    pub tags: Vec<String>,
}

/// A set of tools, added to a kernel in one go.
pub trait ToolModule {
    /// The description of all of them.
    fn tool_info(&self) -> ToolInfo {
        ToolInfo::default()
    }

    /// The tools as they are written; [`tools_of`] gives them the module's tags.
    fn tools(&self) -> Vec<Tool>;
}

/// The tools of a module, in its order; those without a tag have the module's.
pub fn tools_of(module: &dyn ToolModule) -> Vec<Tool> {
    let info = module.tool_info();
    let tagged = |tool: Tool| match tool.spec.tags.is_empty() {
        true => tool.with_spec(|spec| spec.tags.clone_from(&info.tags)),
        false => tool,
    };
    module.tools().into_iter().map(tagged).collect()
}
