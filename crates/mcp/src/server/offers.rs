//! The tools, prompts and resources that a caller sees: one decision for lists and calls.

use super::caller::Caller;
use valvehouse_core::tool::Tool;
use valvehouse_host::Snapshot;
use valvehouse_host::builtin::GUARDED;
use valvehouse_json::Json;

/// The tools that a caller sees, by name.
pub(super) fn tools(snapshot: &Snapshot, caller: &Caller) -> Vec<Tool> {
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
    let mut listed: Vec<(Json, Tool)> = Vec::new();
    for function in functions {
        for entry in function.spec.metadata.get(which).unwrap_or_default().items() {
            if listed.iter().all(|(other, _)| other.text(key) != entry.text(key)) {
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
fn fits(template: &str, uri: &str) -> bool {
    let Some((before, rest)) = template.split_once('{') else { return template == uri };
    let Some((name, after)) = rest.split_once('}') else { return false };
    let Some(left) = uri.strip_prefix(before) else { return false };
    let any = name.starts_with('+');
    let ends = left.char_indices().map(|(place, _)| place).chain([left.len()]).skip(1);
    ends.take_while(|end| any || !left[..*end].contains('/')).any(|end| fits(after, &left[end..]))
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
        ] {
            assert_eq!(fits(template, uri), expected, "{template} {uri}");
        }
    }
}
