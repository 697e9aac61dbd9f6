//! Reports capabilities that a script declares but does not use.

use super::rule::{Rule, rules};
use super::tree::{self, View};
use crate::declare::hooks::OF_PIPES;
use crate::diagnostic::{Code, Diagnostic, Fix, Spot};
use std::collections::HashSet;
use valvehouse_dialect::syntax::spans;
use valvehouse_grants::Capability;

rules! {
    /// V304 an unused capability
    ///
    /// The script declares a capability that it does not use. Remove it, so that operators only review what the script needs.
    ///
    /// Wrong:
    /// ```rhai
    /// /*
    /// requirements: kv, llm
    /// */
    /// fn inlet(body) {
    ///     kv::incr("turns");
    ///     body
    /// }
    /// ```
    /// Right:
    /// ```rhai
    /// /*
    /// requirements: kv
    /// */
    /// fn inlet(body) {
    ///     kv::incr("turns");
    ///     body
    /// }
    /// ```
    UnusedCapability { find: unused, fix: removed }
}

/// Returns `true` if a function calls a tool by `ctx.kernel.invoke(…)`.
fn invokes(view: &View<'_>) -> bool {
    let mut found = false;
    for function in &view.functions {
        tree::each(&function.statements, &mut |node, _| {
            found |= tree::call(node).is_some_and(|(call, is_method, _)| is_method && call.name == "invoke");
        });
    }
    found
}

fn unused(view: &View<'_>) -> Vec<Diagnostic> {
    let Some(manifest) = view.manifest() else { return Vec::new() };
    let mut used: HashSet<String> = HashSet::new();
    for function in &view.functions {
        tree::each(&function.statements, &mut |node, _| {
            if let Some((call, ..)) = tree::call(node) {
                used.extend(call.namespace.path.first().map(|first| first.name.to_string()));
            }
        });
    }
    let modules: Vec<String> = view.file.imports.texts().map(spans::code_only).collect();
    let asks_for_tools = view.functions.iter().any(|one| one.params.iter().any(|name| name == OF_PIPES.0));
    let is_used = |capability: &Capability| {
        let name = capability.name();
        *capability == Capability::Tools && (asks_for_tools || invokes(view))
            || used.contains(name)
            || modules.iter().any(|module| module.contains(&format!("{name}::")))
    };
    let mut problems: Vec<Diagnostic> = Vec::new();
    for capability in manifest.requirements.iter().filter(|capability| !is_used(capability)) {
        let name = capability.name();
        let diagnostic =
            Diagnostic::of(Code::UnusedCapability, view.file, format!("unused capability `{name}`"));
        problems.push(
            diagnostic
                .at_frontmatter(view.source, "requirements", name)
                .help("remove it from `requirements`"),
        );
    }
    if !manifest.allow_hosts.is_empty() && !manifest.requirements.contains(&Capability::Http) {
        let message = "`allow_hosts` has no effect: missing `http` in `requirements`";
        let diagnostic = Diagnostic::of(Code::UnusedCapability, view.file, message);
        let help = "add `requirements: http`, or remove `allow_hosts`";
        problems.push(diagnostic.at_frontmatter(view.source, "allow_hosts", "allow_hosts").help(help));
    }
    problems
}

/// Removes a capability from the list in the opening comment.
fn removed(spot: &Spot<'_>) -> Option<Fix> {
    let name = spot.name_at(spot.at)?;
    let capability = spot.source[name.clone()].to_owned();
    let title = format!("Remove `{capability}`");
    let row = spot.row();
    let (_, list) = row.split_once("requirements:")?;
    if list.trim() == capability {
        // The whole line is removed, unless the comment begins or ends in it.
        let is_alone = row.trim_start_matches([' ', '\t', '*']).starts_with("requirements:");
        let end = spot.line.end + usize::from(spot.source[spot.line.end..].starts_with('\n'));
        return is_alone.then(|| Fix::new(title, spot.line.start..end, ""));
    }
    let behind = &spot.source[name.end..spot.line.end];
    if let Some(rest) = behind.trim_start().strip_prefix(',') {
        let end = spot.line.end - rest.trim_start().len();
        return Some(Fix::new(title, name.start..end, ""));
    }
    let before = spot.before().trim_end().strip_suffix(',')?;
    Some(Fix::new(title, spot.line.start + before.len()..name.end, ""))
}
