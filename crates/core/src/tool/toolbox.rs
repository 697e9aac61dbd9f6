//! The tools of a kernel in registration order, the entry tools offered instead of all tools, and modules of
//! related tools.

use super::callable::Tool;

/// Tools by name, in registration order. If two have one name, the later one replaces the earlier.
#[derive(Clone, Debug, Default)]
pub struct Toolbox(Vec<Tool>);

impl Toolbox {
    /// Creates a toolbox.
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

    /// Returns the tool of a name.
    pub fn find(&self, name: &str) -> Option<&Tool> {
        self.0.iter().find(|tool| tool.name() == name)
    }

    /// Returns the tools with a tag.
    pub fn tagged<'a>(&'a self, tag: &str) -> impl Iterator<Item = &'a Tool> {
        self.0.iter().filter(move |tool| tool.spec.tags.iter().any(|own| own == tag))
    }

    /// Returns all tools.
    pub fn iter(&self) -> impl Iterator<Item = &Tool> {
        self.0.iter()
    }

    /// Returns `true` if there are no tools.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The name of the tool that searches other tools.
pub const FIND_TOOLS: &str = "find_tools";
/// The name of the tool that runs a script in which the other tools are functions.
pub const RUN_SCRIPT: &str = "run_script";

/// Returns `true` for a tool that is offered instead of the tools that it finds or calls.
pub fn is_entry_tool(name: &str) -> bool {
    [FIND_TOOLS, RUN_SCRIPT].contains(&name)
}

/// The description of a tool module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolInfo {
    /// The purpose of the tools. It is `metadata.module` of each tool.
    pub description: String,
    /// The tags of the tools that have none of their own.
    pub tags: Vec<String>,
}

/// A set of tools that is added to a kernel as a whole.
pub trait ToolModule {
    /// Returns the description of the module.
    fn tool_info(&self) -> ToolInfo {
        ToolInfo::default()
    }

    /// Returns the tools; [`tools_of`] adds the module's tags.
    fn tools(&self) -> Vec<Tool>;
}

/// Returns the tools of a module in order, with the module's tags for those without a tag.
pub fn tools_of(module: &dyn ToolModule) -> Vec<Tool> {
    let info = module.tool_info();
    let tagged = |tool: Tool| {
        tool.with_spec(|spec| {
            if spec.tags.is_empty() {
                spec.tags.clone_from(&info.tags);
            }
            if !info.description.is_empty() {
                spec.metadata = spec.metadata.deep_clone();
                spec.metadata.edit("module", info.description.as_str());
            }
        })
    };
    module.tools().into_iter().map(tagged).collect()
}
