//! Problems of plugins, files and providers in the operators' API.

use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;
use valvehouse_host::app::App;
use valvehouse_host::{Plugin, Snapshot, State};
use valvehouse_script::{Code, Diagnostic, Severity};

/// A problem of a plugin, a file or a provider.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(super) struct ProblemReport {
    #[schemars(extend("enum" = ["error", "warning"]))]
    severity: &'static str,
    /// The code, such as `V101`, for `valvehouse explain`; null if there is none.
    code: Option<&'static str>,
    /// The id of the plugin; null if the problem concerns no plugin.
    plugin: Option<String>,
    #[schemars(extend("enum" = [
        "stale", "broken", "missing", "pending", "quarantined", "held", "breaker_open", "set_aside", "refused",
        "file"
    ]))]
    state: &'static str,
    message: String,
    /// The file, line and column.
    place: Option<String>,
    line: Option<usize>,
    column: Option<usize>,
    /// The line of the script that contains the problem.
    excerpt: Option<String>,
    help: Option<String>,
    /// The command that solves the problem.
    command: Option<String>,
}

/// Returns all problems, errors first.
pub(super) fn all(app: &App, snapshot: &Snapshot) -> Vec<ProblemReport> {
    let of_plugins = snapshot.plugins.values().flat_map(|plugin| of_plugin(app, plugin));
    let of_files = snapshot.problems.iter().map(|problem| match problem.code {
        Code::SetAside => set_aside(app, problem),
        _ => report(app, problem, None, "file"),
    });
    let providers = snapshot.plan().providers.iter().map(|plan| &plan.provider);
    let open =
        providers.flat_map(|provider| provider.open_breakers().into_iter().map(move |open| (provider, open)));
    let of_providers = open.map(|(provider, open)| {
        let seconds = open.next_try.as_secs_f64().ceil();
        let message = format!(
            "a circuit breaker of the provider `{}` is open after repeated failures; requests use the fallbacks of the model or get 503, and the next call is tried within {seconds} s; last failure: {}",
            provider.name(),
            open.cause
        );
        general_report("error", None, "breaker_open", message, None)
    });
    let of_models = snapshot.refused_models().into_iter();
    let of_models =
        of_models.map(|refused| general_report("error", None, "refused", refused.to_string(), None));
    let mut all: Vec<ProblemReport> =
        of_models.chain(of_plugins).chain(of_providers).chain(of_files).collect();
    all.sort_by_key(|problem| problem.severity == "warning");
    all
}

/// Returns the problems of one plugin.
pub(super) fn of_plugin(app: &App, plugin: &Plugin) -> Vec<ProblemReport> {
    let id = &*plugin.id;
    let state = match plugin.state {
        State::Stale(_) => "stale",
        State::Broken(_) => "broken",
        State::Live | State::Missing => "file",
    };
    let mut all: Vec<ProblemReport> =
        plugin.problems().map(|problem| report(app, problem, Some(id), state)).collect();
    if let Some(absence) = plugin.absence() {
        let command = Some(format!("valvehouse confirm {id}"));
        all.push(ProblemReport { command, ..report(app, &absence, Some(id), "missing") });
    }
    if plugin.pending.is_some() {
        for (one, problem) in all.iter_mut().zip(plugin.problems()) {
            if problem.code == Code::GuardWeakened {
                one.state = "pending";
                one.command = Some(format!("valvehouse confirm {id}"));
            }
        }
    }
    for (one, problem) in all.iter_mut().zip(plugin.problems()) {
        if problem.code == Code::Quarantined {
            one.state = "quarantined";
            one.command = Some(format!("valvehouse release {id}"));
        }
    }
    if let Some(open) = plugin.open_breaker() {
        let message = format!("{}; last failure: {}", plugin.breaker_in_words(&open), open.cause);
        all.push(general_report("error", Some(id), "breaker_open", message, None));
    }
    all
}

/// Returns the problem of a plugin whose id belongs to a removed plugin.
fn set_aside(app: &App, problem: &Diagnostic) -> ProblemReport {
    let command = Some(format!("valvehouse adopt {}", problem.id));
    ProblemReport { command, ..report(app, problem, Some(&problem.id), "set_aside") }
}

/// Converts one problem of a file.
pub(super) fn report(
    app: &App,
    problem: &Diagnostic,
    plugin: Option<&str>,
    state: &'static str,
) -> ProblemReport {
    let severity = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let state = if problem.grant.is_some() { "held" } else { state };
    let place = Diagnostic { path: near(app, &problem.path), ..problem.clone() }.place();
    ProblemReport {
        severity,
        code: Some(problem.code.id()),
        plugin: plugin.map(str::to_owned),
        state,
        message: problem.message.clone(),
        place: Some(place),
        line: problem.line,
        column: problem.column,
        excerpt: Some(problem.excerpt.clone()),
        help: problem.help.clone(),
        command: problem.grant.clone(),
    }
}

/// Creates a problem that has no position in a file.
fn general_report(
    severity: &'static str,
    plugin: Option<&str>,
    state: &'static str,
    message: String,
    command: Option<String>,
) -> ProblemReport {
    let plugin = plugin.map(str::to_owned);
    ProblemReport { severity, plugin, state, message, command, ..ProblemReport::default() }
}

/// Returns a path relative to the project.
pub(super) fn near(app: &App, path: &Path) -> std::path::PathBuf {
    path.strip_prefix(&app.config.project).unwrap_or(path).components().collect()
}
