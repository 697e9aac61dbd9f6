//! The tools, prompts and resources that a caller sees: one decision for lists and calls.

use super::caller::Caller;
use std::collections::HashSet;
use valvehouse_core::kernel::Kernel;
use valvehouse_core::tool::{Tool, is_entry_tool};
use valvehouse_host::Snapshot;
use valvehouse_host::builtin::GUARDED;
use valvehouse_json::Json;

/// The kernel with the tools that a caller may call.
pub(super) fn kernel(snapshot: &Snapshot, caller: &Caller) -> Kernel {
    let tools = tools(snapshot, caller);
    if caller.tool_search { snapshot.searching_only(tools) } else { snapshot.invoking_only(tools) }
}

/// The tools that a caller is listed, by name: all that it may call, or those by which it finds them.
pub(super) fn listed_tools(snapshot: &Snapshot, caller: &Caller) -> Vec<Tool> {
    if !caller.tool_search {
        return tools(snapshot, caller);
    }
    let kernel = kernel(snapshot, caller);
    kernel.toolbox().iter().filter(|tool| is_entry_tool(tool.name())).cloned().collect()
}

/// The tools that a caller sees, by name.
fn tools(snapshot: &Snapshot, caller: &Caller) -> Vec<Tool> {
    let mut tools: Vec<Tool> = snapshot.tools.iter().filter(|tool| sees(caller, tool)).cloned().collect();
    tools.sort_by(|a, b| a.name().cmp(b.name()));
    tools
}

/// `*` leaves out what touches the machine: an operator names that.
fn sees(caller: &Caller, tool: &Tool) -> bool {
    let is_guarded = tool.spec.module.is_none() && GUARDED.iter().any(|(name, _)| *name == tool.name());
    caller.tools.iter().any(|word| match word.as_str() {
        "*" => !is_guarded,
        word => tool.spec.is_meant_by(word),
    })
}

/// The prompts that a caller sees, by name. A script whose name or tags leave it out serves nothing else either.
pub(super) fn prompts(snapshot: &Snapshot, caller: &Caller) -> Vec<Tool> {
    let mut prompts: Vec<Tool> = visible(&snapshot.offered.prompts, caller);
    prompts.sort_by(|a, b| a.name().cmp(b.name()));
    prompts
}

/// The functions that return resources, in the order of their scripts.
pub(super) fn resources(snapshot: &Snapshot, caller: &Caller) -> Vec<Tool> {
    visible(&snapshot.offered.resources, caller)
}

/// The functions that complete arguments.
pub(super) fn completions(snapshot: &Snapshot, caller: &Caller) -> Vec<Tool> {
    visible(&snapshot.offered.completions, caller)
}

fn visible(offered: &[Tool], caller: &Caller) -> Vec<Tool> {
    offered.iter().filter(|tool| sees(caller, tool)).cloned().collect()
}

/// The lists of a caller's resources, `resources` or `templates`, each URI once, and who returns them.
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

/// The function that returns a resource: whose list has it, or whose template fits.
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

/// Returns `true` if a URI is one of a template: `{name}` stands for text without `/`, `{+name}` for any text.
///
/// Looks at each place of the URI at most once for each part of the template: clients choose the one, scripts the other.
fn fits(template: &str, uri: &str) -> bool {
    // The places in the URI up to which the template fits so far.
    let mut reached = vec![false; uri.len() + 1];
    reached[0] = true;
    let mut rest = template;
    while let Some((before, variable)) = rest.split_once('{') {
        let Some((name, after)) = variable.split_once('}') else { return false };
        reached = behind_text(&reached, before, uri);
        reached = behind_variable(&reached, name.starts_with('+'), uri);
        rest = after;
    }
    behind_text(&reached, rest, uri)[uri.len()]
}

/// The places behind a text that stands in a URI behind one of the places so far.
fn behind_text(reached: &[bool], text: &str, uri: &str) -> Vec<bool> {
    let stands = |end: usize| {
        let begin = end.checked_sub(text.len())?;
        Some(reached[begin] && uri.as_bytes()[begin..end] == *text.as_bytes())
    };
    (0..reached.len()).map(|end| stands(end).unwrap_or(false)).collect()
}

/// The places behind one character or more, `any` or none of them `/`.
fn behind_variable(reached: &[bool], any: bool, uri: &str) -> Vec<bool> {
    let (mut begun, mut behind) = (false, vec![false; reached.len()]);
    for (at, letter) in uri.char_indices() {
        begun = (begun || reached[at]) && (any || letter != '/');
        behind[at + letter.len_utf8()] = begun;
    }
    behind
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_template_fits_what_has_text_in_its_places() {
        for (template, uri, expected) in [
            ("notes://{id}", "notes://1", true),
            ("notes://{id}", "notes://", false),
            ("notes://{id}", "notes://1/2", false),
            ("notes://{+path}", "notes://1/2", true),
            ("t://{a}/x/{b}", "t://1/x/2", true),
            ("t://{a}/x/{b}", "t://1/y/2", false),
            ("t://{a}-{b}", "t://ä-ö", true),
            ("t://x", "t://x", true),
            ("t://{a", "t://1", false),
            ("t://{a}{b}", "t://ä", false),
            ("t://{a}{b}", "t://äö", true),
            ("t://{+a}/{b}", "t://1/2/3", true),
            ("{a}//{b}", "t//x", true),
            ("{a}/x", "t/y/x", false),
        ] {
            assert_eq!(fits(template, uri), expected, "{template} {uri}");
        }
    }

    /// A template whose test would last for years if its places were filled in every possible way.
    #[test]
    fn a_long_uri_does_not_fit_in_ever_so_many_ways() {
        let uri = format!("t://{}", "x".repeat(100_000));
        assert!(!fits("t://{+a}x{+b}x{+c}x{+d}x{+e}y", &uri));
        assert!(fits("t://{+a}x{+b}x{+c}x{+d}x{+e}x", &uri));
    }
}
