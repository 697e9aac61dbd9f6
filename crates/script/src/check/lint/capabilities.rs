//! Reports capabilities that a script declares but does not use.

use super::tree;
use super::tree::View;
use crate::declare::hooks::OF_PIPES;
use crate::diagnostic::{Code, Diagnostic};
use std::collections::HashSet;
use valvehouse_config::Capability;
use valvehouse_dialect::syntax::spans;

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

pub(super) fn look(view: &View<'_>) -> Vec<Diagnostic> {
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
