//! The errors of the operators' routes.

use std::path::Path;
use valvehouse_host::app::App;
use valvehouse_host::{Plugin, Snapshot, State};
use valvehouse_json::Json;
use valvehouse_script::{Code, Problem, Severity};

/// Everything that is wrong, the worst first.
pub(super) fn all(app: &App, snapshot: &Snapshot) -> Vec<Json> {
    let of_plugins = snapshot.plugins.values().flat_map(|plugin| of_plugin(app, plugin));
    let of_files = snapshot.problems.iter().map(|problem| match problem.code {
        Code::SetAside => set_aside(app, problem),
        _ => told(app, problem, None, "file"),
    });
    let of_providers = snapshot.plan().providers.iter().filter_map(|plan| {
        let open = plan.provider.open_breaker()?;
        let seconds = open.next_try.as_secs_f64().ceil();
        let message = format!(
            "the circuit breaker of the provider `{}` is open after repeated failures; its models use their fallbacks or return 503, and the next call is tried within {seconds} s; last failure: {}",
            plan.provider.name(),
            open.cause
        );
        Some(said("error", None, "breaker_open", message, None))
    });
    let mut all: Vec<Json> = of_plugins.chain(of_providers).chain(of_files).collect();
    all.sort_by_key(|problem| problem.text("severity").is_some_and(|word| word == "warning"));
    all
}

/// The problems of one plugin.
pub(super) fn of_plugin(app: &App, plugin: &Plugin) -> Vec<Json> {
    let id = &*plugin.id;
    let state = match plugin.state {
        State::Stale(_) => "stale",
        State::Broken(_) => "broken",
        State::Live | State::Missing => "file",
    };
    let mut all: Vec<Json> = plugin.problems().map(|problem| told(app, problem, Some(id), state)).collect();
    if plugin.state == State::Missing
        && let Some(message) = plugin.refusal()
    {
        let command = format!("valvehouse confirm {id}");
        all.push(said(
            "error",
            Some(id),
            "missing",
            format!("requests are refused: {message}"),
            Some(command),
        ));
    }
    if plugin.pending.is_some() {
        for (one, problem) in all.iter().zip(plugin.problems()) {
            if problem.code == Code::GuardWeakened {
                // Fields of an object of their own: they fit.
                one.put("state", "pending");
                one.put("command", format!("valvehouse confirm {id}"));
            }
        }
    }
    for (one, problem) in all.iter().zip(plugin.problems()) {
        if problem.code == Code::Quarantined {
            one.put("state", "quarantined");
            one.put("command", format!("valvehouse release {id}"));
        }
    }
    if let Some(open) = plugin.open_breaker() {
        let message = format!("{}; last failure: {}", plugin.breaker_in_words(&open), open.cause);
        all.push(said("error", Some(id), "breaker_open", message, None));
    }
    all
}

/// A plugin under the id of a removed one.
fn set_aside(app: &App, problem: &Problem) -> Json {
    let shown = told(app, problem, Some(&problem.id), "set_aside");
    // A field of an object of its own: it fits.
    shown.put("command", format!("valvehouse adopt {}", problem.id));
    shown
}

/// One problem of a file.
pub(super) fn told(app: &App, problem: &Problem, plugin: Option<&str>, state: &'static str) -> Json {
    let severity = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let state = if problem.grant.is_some() { "held" } else { state };
    let place = Problem { path: near(app, &problem.path), ..problem.clone() }.place();
    Json::from([
        ("severity", severity.into()),
        ("code", problem.code.id().into()),
        ("plugin", plugin.into()),
        ("state", state.into()),
        ("message", problem.message.as_str().into()),
        ("place", place.into()),
        ("line", problem.line.into()),
        ("column", problem.column.into()),
        ("excerpt", problem.excerpt.as_str().into()),
        ("help", problem.help.clone().into()),
        ("command", problem.grant.clone().into()),
    ])
}

/// A problem without a place in a file.
fn said(severity: &str, plugin: Option<&str>, state: &str, message: String, command: Option<String>) -> Json {
    Json::from([
        ("severity", severity.into()),
        ("plugin", plugin.into()),
        ("state", state.into()),
        ("code", Json::Null),
        ("message", message.into()),
        ("place", Json::Null),
        ("line", Json::Null),
        ("column", Json::Null),
        ("excerpt", Json::Null),
        ("help", Json::Null),
        ("command", command.into()),
    ])
}

/// A path as it is called within the project.
pub(super) fn near(app: &App, path: &Path) -> std::path::PathBuf {
    path.strip_prefix(&app.config.project).unwrap_or(path).components().collect()
}
