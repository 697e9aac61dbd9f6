//! `valvehouse list`: the plugins and their status.

use super::args;
use super::project::Project;
use super::{providers, stats};
use valvehouse_config::Config;
use valvehouse_core::breaker::OpenState;
use valvehouse_core::chat::serialized;
use valvehouse_core::tool::Tool;
use valvehouse_host::{Plugin, SharedStatus, Snapshot, State, chats_only_in_words};
use valvehouse_json::{Json, Object};
use valvehouse_script::Kind;
use valvehouse_terminal::{CommandError, Console, Exit, Paint, clean, plugin_problems, report, table};

pub(super) async fn run(args: &args::List, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let project = Project::look(config).await?;
    let snapshot = &project.snapshot;
    if args.tools {
        show_tools(snapshot, out)?;
        project.store.close().await;
        return Ok(Exit::Done);
    }
    let standing = project.standing().await?;
    if out.is_json() {
        let plugins: Vec<Json> = snapshot.plugins.values().map(|plugin| as_json(plugin, &standing)).collect();
        let of_schedule = standing.scheduled_problems(snapshot);
        let problems = report::all_as_json(snapshot.problems.iter().chain(&of_schedule));
        let native: Vec<Json> = native_tools(snapshot).into_iter().map(Json::from).collect();
        out.json(&Json::from([
            ("plugins", plugins.into()),
            ("native_tools", native.into()),
            ("providers", providers::as_json(config, &standing)),
            ("problems", problems),
            ("hosts", standing.hosts.into()),
        ]))?;
    } else if args.stats {
        stats::show(snapshot, &standing, out)?;
    } else if snapshot.plugins.is_empty() && snapshot.problems.is_empty() {
        let folder = report::near(&config.folders.filters);
        out.note(&format!("no plugins yet: drop a script into {}", folder.display()));
        if !native_tools(snapshot).is_empty() {
            out.line(&as_table(snapshot, &standing, out.results()))?;
        }
        providers::show(config, &standing, out)?;
    } else {
        out.line(&as_table(snapshot, &standing, out.results()))?;
        for problem in plugin_problems(snapshot).into_iter().chain(standing.scheduled_problems(snapshot)) {
            out.line(&format!("\n{}", report::shown(&problem, out.results())))?;
        }
        for plugin in snapshot.plugins.values().filter(|_| config.is_pipelines_server()) {
            let hooks = plugin.hooks_of_chats_only();
            if plugin.enabled && !hooks.is_empty() {
                out.note(&format!("note: {}", chats_only_in_words(&plugin.id, &hooks)));
            }
        }
        for (plugin, open) in open(snapshot, &standing) {
            out.line(&format!("\n{}: {}", out.results().yellow(&plugin.id), breaker_in_words(plugin, open)))?;
        }
        providers::show(config, &standing, out)?;
    }
    project.store.close().await;
    Ok(Exit::Done)
}

/// Shows the tools, one per line, or with their schemas as JSON.
fn show_tools(snapshot: &Snapshot, out: &Console) -> Result<(), CommandError> {
    let tools = snapshot.tool_list(None);
    if out.is_json() {
        return Ok(out.json(&Json::from([("tools", serialized(&tools)?)]))?);
    }
    if tools.is_empty() {
        out.note("no tools yet: drop a script into tools/");
        return Ok(());
    }
    let paint = out.results();
    let words = |words: &[String]| if words.is_empty() { "-".to_owned() } else { words.join(" ") };
    let mut rows =
        vec![["TOOL", "ARGUMENTS", "TAGS", "MODELS", "DESCRIPTION"].map(|word| paint.dim(word)).to_vec()];
    for tool in &tools {
        let text = |text: &str| clean(text).replace('\n', " ");
        let arguments = tool.parameters.0.field("properties").keys();
        rows.push(vec![
            paint.bold(&text(&tool.name)),
            words(&arguments.into_iter().map(String::from).collect::<Vec<_>>()),
            words(&tool.tags),
            words(&tool.models),
            text(&tool.description),
        ]);
    }
    out.line(&table(&rows))?;
    Ok(())
}

/// Returns the plugins with an open circuit breaker on any host.
fn open<'a>(
    snapshot: &'a Snapshot,
    standing: &'a SharedStatus,
) -> impl Iterator<Item = (&'a Plugin, &'a OpenState)> {
    let plugins = snapshot.plugins.values();
    plugins.filter_map(|plugin| Some((&**plugin, standing.of(&plugin.id)?.open_breaker.as_ref()?)))
}

/// Describes the open circuit breaker of a plugin, and its last failure.
fn breaker_in_words(plugin: &Plugin, open: &OpenState) -> String {
    format!("{}\n  last: {}", plugin.breaker_in_words(open), clean(&open.cause).replace('\n', " "))
}

fn as_json(plugin: &Plugin, standing: &SharedStatus) -> Json {
    let standing = standing.of(&plugin.id).cloned().unwrap_or_default();
    let sums = standing.sums.into_iter().map(|(name, sum)| (name.into(), sum.into_json()));
    let open_breaker = standing.open_breaker.map_or(Json::Null, |open| {
        Json::from([
            ("failures", open.failures.into()),
            ("next_try_seconds", open.next_try.as_secs_f64().into()),
            ("cause", open.cause.into()),
        ])
    });
    Json::from([
        ("id", (*plugin.id).into()),
        ("kind", plugin.kind.as_str().into()),
        ("title", plugin.title().into()),
        ("state", plugin.state.as_str().into()),
        ("enabled", plugin.enabled.into()),
        ("mode", plugin.mode().into()),
        ("global", plugin.global.into()),
        ("security", plugin.security.into()),
        ("chats_only", plugin.hooks_of_chats_only().into_iter().map(Json::from).collect::<Vec<_>>().into()),
        ("priority", plugin.priority().into()),
        ("hooks", plugin.hooks().into_iter().map(Json::from).collect::<Vec<_>>().into()),
        ("tools", plugin.tool_names().into_iter().map(Json::from).collect::<Vec<_>>().into()),
        ("buttons", plugin.button_ids().into_iter().map(Json::from).collect::<Vec<_>>().into()),
        ("file", report::near(&plugin.path).display().to_string().into()),
        ("problems", report::all_as_json(plugin.problems())),
        ("breaker_open", open_breaker),
        ("stats", sums.collect::<Object>().into()),
    ])
}

/// Returns a table of the plugins, in the order in which they run.
pub(super) fn as_table(snapshot: &Snapshot, standing: &SharedStatus, paint: Paint) -> String {
    let head = ["ID", "KIND", "STATE", "ENABLED", "PRIORITY", "HOOKS, TOOLS OR BUTTONS", "TITLE"];
    let mut rows = vec![head.map(|word| paint.dim(word)).to_vec()];
    let mut plugins: Vec<_> = snapshot.plugins.values().collect();
    let place = |plugin: &Plugin| plugin.priority().unwrap_or(0.0);
    plugins.sort_by(|a, b| {
        a.kind.cmp(&b.kind).then(place(a).total_cmp(&place(b))).then_with(|| a.id.cmp(&b.id))
    });
    for plugin in plugins {
        let does = match plugin.kind {
            Kind::Filter => plugin.hooks(),
            Kind::Tool => plugin.tool_names(),
            Kind::Action => plugin.button_ids(),
        };
        rows.push(vec![
            paint.bold(&plugin.id),
            plugin.kind.as_str().to_owned(),
            state(plugin, standing, paint),
            match (plugin.enabled, plugin.audited) {
                (false, _) => paint.yellow("off"),
                (true, true) => paint.yellow(plugin.mode()),
                (true, false) => "on".to_owned(),
            },
            plugin.priority().map_or_else(|| "-".to_owned(), |priority| priority.to_string()),
            if does.is_empty() { "-".to_owned() } else { does.join(" ") },
            clean(plugin.title()).replace('\n', " "),
        ]);
    }
    for name in native_tools(snapshot) {
        let none = || "-".to_owned();
        let (kind, runs) = (Kind::Tool.as_str().to_owned(), "on".to_owned());
        let title = "built-in tool".to_owned();
        rows.push(vec![paint.bold(name), kind, paint.green("native"), runs, none(), name.to_owned(), title]);
    }
    table(&rows)
}

/// Returns the built-in tools that are granted.
fn native_tools(snapshot: &Snapshot) -> Vec<&str> {
    let native = snapshot.tools.iter().filter(|tool| tool.spec.module.is_none());
    native.map(Tool::name).collect()
}

fn state(plugin: &Plugin, standing: &SharedStatus, paint: Paint) -> String {
    if standing.of(&plugin.id).is_some_and(|standing| standing.open_breaker.is_some()) {
        return paint.red("breaker open");
    }
    let word = plugin.state.as_str();
    match plugin.state {
        State::Live => paint.green(word),
        State::Stale(_) => paint.yellow(word),
        State::Broken(_) | State::Missing => paint.red(word),
    }
}
