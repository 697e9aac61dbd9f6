//! The tools, prompts and resources that a caller sees, decided in one place for lists and calls.

use super::caller::Caller;
use crate::template::fits;
use std::collections::HashSet;
use valvehouse_core::kernel::Kernel;
use valvehouse_core::tool::{Tool, is_entry_tool};
use valvehouse_host::Snapshot;
use valvehouse_host::builtin::GUARDED;
use valvehouse_json::Json;

/// Returns the kernel with the tools that a caller may call.
pub(super) fn kernel(snapshot: &Snapshot, caller: &Caller) -> Kernel {
    let tools = tools(snapshot, caller);
    if caller.tool_search { snapshot.searching_only(tools) } else { snapshot.invoking_only(tools) }
}

/// Returns the tools listed for a caller, by name: all that it may call, or those of the tool search.
pub(super) fn listed_tools(snapshot: &Snapshot, caller: &Caller) -> Vec<Tool> {
    if !caller.tool_search {
        return tools(snapshot, caller);
    }
    let kernel = kernel(snapshot, caller);
    kernel.toolbox().iter().filter(|tool| is_entry_tool(tool.name())).cloned().collect()
}

/// Returns the tools that a caller sees, by name.
fn tools(snapshot: &Snapshot, caller: &Caller) -> Vec<Tool> {
    let mut tools: Vec<Tool> = snapshot.tools.iter().filter(|tool| sees(caller, tool)).cloned().collect();
    tools.sort_by(|a, b| a.name().cmp(b.name()));
    tools
}

/// `*` does not include tools that access files or programs; an operator has to name those.
fn sees(caller: &Caller, tool: &Tool) -> bool {
    let is_guarded = tool.spec.module.is_none() && GUARDED.iter().any(|(name, _)| *name == tool.name());
    caller.tools.iter().any(|word| match word.as_str() {
        "*" => !is_guarded,
        word => tool.spec.is_meant_by(word),
    })
}

/// Returns the prompts that a caller sees, by name. A script that is excluded by its name or tags offers
/// nothing else either.
pub(super) fn prompts(snapshot: &Snapshot, caller: &Caller) -> Vec<Tool> {
    let mut prompts: Vec<Tool> = visible(&snapshot.offered.prompts, caller);
    prompts.sort_by(|a, b| a.name().cmp(b.name()));
    prompts
}

/// Returns the functions that read resources, in the order of their scripts.
pub(super) fn resources(snapshot: &Snapshot, caller: &Caller) -> Vec<Tool> {
    visible(&snapshot.offered.resources, caller)
}

/// Returns the functions that complete arguments.
pub(super) fn completions(snapshot: &Snapshot, caller: &Caller) -> Vec<Tool> {
    visible(&snapshot.offered.completions, caller)
}

fn visible(offered: &[Tool], caller: &Caller) -> Vec<Tool> {
    offered.iter().filter(|tool| sees(caller, tool)).cloned().collect()
}

/// Returns a caller's `resources` or `templates`, each URI once, with the functions that read them.
pub(super) fn listed(functions: &[Tool], which: &str) -> Vec<(Json, Tool)> {
    let key = if which == "templates" { "uriTemplate" } else { "uri" };
    let (mut listed, mut known) = (Vec::new(), HashSet::new());
    for function in functions {
        for entry in function.spec.metadata.list(which) {
            if known.insert(entry.text(key)) {
                listed.push((entry, function.clone()));
            }
        }
    }
    listed
}

/// Returns the function that reads a resource: the one that lists it, or whose template matches.
pub(super) fn reader(functions: &[Tool], uri: &str) -> Option<Tool> {
    let exact = listed(functions, "resources")
        .into_iter()
        .find(|(entry, _)| entry.text("uri").is_some_and(|own| own == uri));
    let by_template = || {
        listed(functions, "templates")
            .into_iter()
            .find(|(entry, _)| entry.text("uriTemplate").is_some_and(|template| fits(&template, uri)))
    };
    exact.or_else(by_template).map(|(_, function)| function)
}
