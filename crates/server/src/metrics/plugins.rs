//! The metrics of plugins and tools.

use super::families::Families;
use std::collections::BTreeMap;
use std::sync::Arc;
use valvehouse_core::metrics::CallMetrics;
use valvehouse_host::{Plugin, Snapshot};
use valvehouse_script::{Kind, Severity};

/// The states of plugins.
const STATES: [&str; 5] = ["live", "stale", "broken", "missing", "breaker_open"];

pub(super) fn collect(snapshot: &Snapshot, families: &mut Families) {
    states(snapshot, families);
    problems(snapshot, families);
    let plugins = || snapshot.plugins.values();
    let mut open =
        families.gauge("plugin_breaker_open", "1 while the circuit breaker of a plugin is open, else 0.");
    for plugin in plugins() {
        open.add(&[("plugin", &plugin.id)], u8::from(plugin.state_name() == "breaker_open").into());
    }
    let metrics_by_name = plugins().flat_map(|plugin| metrics_by_name(plugin).into_iter());
    calls(&metrics_by_name.collect::<Vec<_>>(), families);
    tools(snapshot, families);
}

fn states(snapshot: &Snapshot, families: &mut Families) {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for kind in Kind::ALL {
        counts.extend(STATES.map(|state| ((kind.as_str(), state), 0)));
    }
    for plugin in snapshot.plugins.values() {
        *counts.entry((plugin.kind.as_str(), plugin.state_name())).or_default() += 1;
    }
    let mut plugins = families.gauge("plugins", "Plugins by kind and state.");
    for ((kind, state), count) in counts {
        plugins.add(&[("kind", kind), ("state", state)], count as f64);
    }
}

fn problems(snapshot: &Snapshot, families: &mut Families) {
    let of_plugins = snapshot.plugins.values().flat_map(|plugin| {
        let warnings = plugin.script.iter().flat_map(|script| &script.warnings);
        plugin.state.problems().iter().chain(warnings)
    });
    let (mut errors, mut warnings) = (0_u64, 0_u64);
    for problem in of_plugins.chain(&snapshot.problems) {
        match problem.severity {
            Severity::Error => errors += 1,
            _ => warnings += 1,
        }
    }
    let mut problems = families.gauge("problems", "Current problems of files and settings.");
    problems.add(&[("severity", "error")], errors as f64);
    problems.add(&[("severity", "warning")], warnings as f64);
}

/// The id of a plugin, the name of a hook, and the metrics of its calls.
type HookMetrics = (Arc<str>, String, Arc<CallMetrics>);

/// Returns the hooks that a plugin was called for, including calls that its circuit breaker skipped.
fn metrics_by_name(plugin: &Plugin) -> Vec<HookMetrics> {
    let Some(script) = &plugin.script else { return Vec::new() };
    let called = script.metrics().metrics_by_name().into_iter().filter(|(_, call_metrics)| {
        let outcomes = call_metrics.outcomes();
        outcomes.iter().any(|(_, count)| *count > 0)
    });
    called.map(|(hook, call_metrics)| (plugin.id.clone(), hook, call_metrics)).collect()
}

fn calls(metrics_by_name: &[HookMetrics], families: &mut Families) {
    let mut calls = families.counter(
        "plugin_calls_total",
        "Calls of hooks, callbacks and tools of a plugin by outcome; breaker_open: not called, since its circuit breaker was open.",
    );
    for (plugin, hook, call_metrics) in metrics_by_name {
        for (outcome, count) in call_metrics.outcomes() {
            calls.add(&[("plugin", plugin), ("hook", hook), ("outcome", outcome)], count as f64);
        }
    }
    let mut operations =
        families.counter("plugin_operations_total", "Interpreter operations of a plugin's calls.");
    for (plugin, hook, call_metrics) in metrics_by_name {
        operations.add(&[("plugin", plugin), ("hook", hook)], call_metrics.sum().operations as f64);
    }
    let mut memory =
        families.gauge("plugin_memory_peak_bytes", "Peak memory of one call of a plugin, in bytes.");
    for (plugin, hook, call_metrics) in metrics_by_name {
        memory.add(&[("plugin", plugin), ("hook", hook)], call_metrics.sum().most_memory as f64);
    }
    let mut times = families.histogram(
        "plugin_call_duration_seconds",
        "Running time of a plugin's calls without waiting, in seconds. Sampled: the first calls, then one in eight.",
    );
    for (plugin, hook, call_metrics) in metrics_by_name {
        times.spread(&[("plugin", plugin), ("hook", hook)], &call_metrics.times());
    }
}

fn tools(snapshot: &Snapshot, families: &mut Families) {
    let used = || snapshot.tools.iter().filter(|tool| tool.metrics().times().count > 0);
    let mut calls = families.counter("tool_calls_total", "Calls of tools by outcome, including retries.");
    for tool in used() {
        for (outcome, count) in tool.metrics().outcomes() {
            calls.add(&[("tool", tool.name()), ("outcome", outcome)], count as f64);
        }
    }
    let mut times = families.histogram(
        "tool_call_duration_seconds",
        "Duration of tool calls in seconds, including waiting and retries.",
    );
    for tool in used() {
        times.spread(&[("tool", tool.name())], &tool.metrics().times());
    }
}
