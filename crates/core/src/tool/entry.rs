//! The tools that a model is offered in the place of many others.

/// The name of the tool that finds others.
pub const FIND_TOOLS: &str = "find_tools";
/// The name of the tool that runs a script with the others as functions.
pub const RUN_SCRIPT: &str = "run_script";

/// Returns `true` if a tool is offered in the place of those that it finds or calls.
pub fn is_entry_tool(name: &str) -> bool {
    [FIND_TOOLS, RUN_SCRIPT].contains(&name)
}
