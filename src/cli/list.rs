//! `valvehouse list`: all plugins and how they stand.

use super::exit::{Exit, Failure};
use super::output::{Output, Paint, clean, table};
use super::project::Project;
use super::report;
use crate::config::Config;
use crate::host::{Plugin, Snapshot, State};
use crate::json::Json;
use crate::script::{Kind, Problem};
use crate::tool::Tool;

pub(super) async fn run(config: &Config, out: &Output) -> Result<Exit, Failure> {
    let project = Project::look(config).await?;
    let snapshot = &project.snapshot;
    if out.is_json() {
        let plugins: Vec<Json> = snapshot.plugins.values().map(|plugin| as_json(plugin)).collect();
        let problems = report::all_as_json(&snapshot.problems);
        let native: Vec<Json> = native_tools(snapshot).into_iter().map(Json::from).collect();
        out.json(&Json::from([
            ("plugins", plugins.into()),
            ("native_tools", native.into()),
            ("problems", problems),
        ]))?;
    } else if snapshot.plugins.is_empty() && snapshot.problems.is_empty() {
        let folder = report::near(&config.folders.filters);
        out.say(&format!("no plugins yet: drop a script into {}", folder.display()));
    } else {
        out.line(&as_table(snapshot, out.results()))?;
        for problem in problems(snapshot) {
            out.line(&format!("\n{}", report::shown(&problem, out.results())))?;
        }
    }
    project.store.close().await;
    Ok(Exit::Done)
}

fn as_json(plugin: &Plugin) -> Json {
    Json::from([
        ("id", (*plugin.id).into()),
        ("kind", plugin.kind.word().into()),
        ("title", title(plugin).into()),
        ("state", plugin.state.word().into()),
        ("enabled", plugin.enabled.into()),
        ("global", plugin.global.into()),
        ("security", plugin.security.into()),
        ("priority", priority(plugin).into()),
        ("hooks", hooks(plugin).into_iter().map(Json::from).collect::<Vec<_>>().into()),
        ("tools", tools(plugin).into_iter().map(Json::from).collect::<Vec<_>>().into()),
        ("file", report::near(&plugin.path).display().to_string().into()),
        ("problems", report::all_as_json(own_problems(plugin))),
    ])
}

/// The plugins, a line each, in the order in which they run.
pub(super) fn as_table(snapshot: &Snapshot, paint: Paint) -> String {
    let head = ["ID", "KIND", "STATE", "RUNS", "PRIORITY", "HOOKS OR TOOLS", "TITLE"];
    let mut rows = vec![head.map(|word| paint.dim(word)).to_vec()];
    let mut plugins: Vec<_> = snapshot.plugins.values().collect();
    let place = |plugin: &Plugin| priority(plugin).unwrap_or(0.0);
    plugins.sort_by(|a, b| {
        a.kind.cmp(&b.kind).then(place(a).total_cmp(&place(b))).then_with(|| a.id.cmp(&b.id))
    });
    for plugin in plugins {
        let does = match plugin.kind {
            Kind::Filter => hooks(plugin),
            Kind::Tool => tools(plugin),
        };
        rows.push(vec![
            paint.bold(&plugin.id),
            plugin.kind.word().to_owned(),
            state(plugin, paint),
            if plugin.enabled { "on".to_owned() } else { paint.yellow("off") },
            priority(plugin).map_or_else(|| "-".to_owned(), |priority| priority.to_string()),
            if does.is_empty() { "-".to_owned() } else { does.join(" ") },
            clean(title(plugin)).replace('\n', " "),
        ]);
    }
    for name in native_tools(snapshot) {
        let none = || "-".to_owned();
        let (kind, runs) = (Kind::Tool.word().to_owned(), "on".to_owned());
        let title = "a tool of the host itself".to_owned();
        rows.push(vec![paint.bold(name), kind, paint.green("native"), runs, none(), name.to_owned(), title]);
    }
    table(&rows)
}

/// The host's own tools, as far as they are granted.
fn native_tools(snapshot: &Snapshot) -> Vec<&str> {
    let native = snapshot.tools.iter().filter(|tool| tool.spec.module.is_none());
    native.map(Tool::name).collect()
}

fn state(plugin: &Plugin, paint: Paint) -> String {
    let word = plugin.state.word();
    match plugin.state {
        State::Live => paint.green(word),
        State::Stale(_) => paint.yellow(word),
        State::Broken(_) | State::Missing => paint.red(word),
    }
}

/// Everything that is wrong, a plugin's own problems first.
pub(super) fn problems(snapshot: &Snapshot) -> Vec<Problem> {
    let own = snapshot.plugins.values().flat_map(|plugin| own_problems(plugin));
    let missing = snapshot.plugins.values().filter(|plugin| plugin.state == State::Missing);
    let missing = missing.filter_map(|plugin| {
        let message = plugin.refusal()?;
        Some(Problem::new(&plugin.id, &plugin.path, format!("requests are refused: {message}")))
    });
    own.cloned().chain(missing).chain(snapshot.problems.iter().cloned()).collect()
}

fn own_problems(plugin: &Plugin) -> impl Iterator<Item = &Problem> {
    // What is stale has its problems in the file, not in the version that runs.
    let warnings = plugin.script.as_ref().filter(|_| plugin.state == State::Live);
    plugin.state.problems().iter().chain(warnings.into_iter().flat_map(|script| &script.warnings))
}

/// A filter's place in the chain.
fn priority(plugin: &Plugin) -> Option<f64> {
    plugin.script.as_ref().filter(|_| plugin.kind == Kind::Filter).map(|script| script.priority())
}

fn hooks(plugin: &Plugin) -> Vec<&'static str> {
    plugin.script.iter().flat_map(|script| script.hooks()).map(|hook| hook.name()).collect()
}

fn tools(plugin: &Plugin) -> Vec<&str> {
    plugin.script.iter().flat_map(|script| script.tool_names()).collect()
}

fn title(plugin: &Plugin) -> &str {
    plugin.script.as_ref().map_or(&plugin.id, |script| script.manifest.title(&plugin.id))
}
