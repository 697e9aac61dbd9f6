//! Tools in the order they were given.
//!
//! The tools that a model is offered in the place of many others.
//!
//! Tools that belong together.

use super::callable::Tool;

/// Tools by name, in registration order. Two of one name: the later one wins.
#[derive(Clone, Debug, Default)]
pub struct Toolbox(Vec<Tool>);

impl Toolbox {
    /// A box of these tools.
    pub fn new(tools: impl IntoIterator<Item = Tool>) -> Self {
        let mut kept: Vec<Tool> = Vec::new();
        for tool in tools {
            match kept.iter_mut().find(|other| other.name() == tool.name()) {
                Some(place) => *place = tool,
                None => kept.push(tool),
            }
        }
        Self(kept)
    }

    /// The tool of that name.
    pub fn find(&self, name: &str) -> Option<&Tool> {
        self.0.iter().find(|tool| tool.name() == name)
    }

    /// The tools with a tag.
    pub fn tagged<'a>(&'a self, tag: &str) -> impl Iterator<Item = &'a Tool> {
        self.0.iter().filter(move |tool| tool.spec.tags.iter().any(|own| own == tag))
    }

    /// All tools.
    pub fn iter(&self) -> impl Iterator<Item = &Tool> {
        self.0.iter()
    }

    /// Returns `true` if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The name of the tool that finds others.
pub const FIND_TOOLS: &str = "find_tools";
/// The name of the tool that runs a script with the others as functions.
pub const RUN_SCRIPT: &str = "run_script";

/// Returns `true` if a tool is offered in the place of those that it finds or calls.
pub fn is_entry_tool(name: &str) -> bool {
    [FIND_TOOLS, RUN_SCRIPT].contains(&name)
}

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
