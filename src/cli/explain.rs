//! `valvehouse explain`: which filters run for a model, in which order, and why the others do not;
//! and which tools it is offered.

use super::args;
use super::exit::{Exit, Failure};
use super::list::rests_in_words;
use super::output::{Output, Paint, table};
use super::project::Project;
use super::providers;
use crate::config::Config;
use crate::host::{Decision, Plugin, Standing, State};
use crate::json::Json;
use crate::tool::Tool;

pub(super) async fn run(asked: &args::Explain, config: &Config, out: &Output) -> Result<Exit, Failure> {
    let project = Project::look(config).await?;
    // A model nobody knows would get a fine explanation, of nothing.
    project.snapshot.ready(&asked.model, &[])?;
    let standing = project.standing().await?;
    let user = asked.user.as_deref();
    let filters: Vec<Told> = project
        .snapshot
        .explain(&asked.model, &[])
        .into_iter()
        .map(|(plugin, decision)| Told::new(&plugin, &decision, asked, config).resting(&plugin, &standing))
        .collect();
    let offered: Vec<&str> = project.snapshot.offered(&asked.model).iter().map(Tool::name).collect();
    if out.is_json() {
        let filters: Vec<Json> = filters.iter().map(Told::as_json).collect();
        let tools: Vec<Json> = offered.into_iter().map(Json::from).collect();
        out.json(&Json::from([
            ("model", asked.model.as_str().into()),
            ("user", user.into()),
            ("filters", filters.into()),
            ("tools", tools.into()),
            ("answering", providers::answering(config, &asked.model).into()),
        ]))?;
    } else {
        if filters.is_empty() {
            out.say("no filters: requests go to the model as they are");
        } else {
            out.line(&as_table(&filters, out.results()))?;
        }
        match offered.as_slice() {
            [] => out.say("no tools: the model is offered none"),
            names => out.line(&format!("\ntools it is offered: {}", names.join(", ")))?,
        }
        if let Some(answering) = providers::answering(config, &asked.model) {
            out.line(&format!("\nanswered by: {answering}"))?;
        }
    }
    project.store.close().await;
    Ok(Exit::Done)
}

/// What a filter does to a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Runs,
    Refuses,
    None,
}

/// One filter and its part in a request.
struct Told {
    id: String,
    part: Part,
    /// What programs call the decision.
    word: &'static str,
    priority: Option<f64>,
    hooks: Vec<&'static str>,
    reason: String,
    /// The user's own valves; null where there are none.
    user_valves: Json,
}

impl Told {
    fn new(plugin: &Plugin, decision: &Decision, asked: &args::Explain, config: &Config) -> Self {
        let script = plugin.script.as_ref();
        let callbacks = script.iter().flat_map(|script| script.callbacks()).map(|callback| callback.name());
        let hooks = script.iter().flat_map(|script| script.hooks()).map(|hook| hook.name());
        Self {
            id: plugin.id.to_string(),
            part: Part::of(decision),
            word: word(decision),
            priority: script.map(|script| script.priority()),
            hooks: hooks.chain(callbacks).collect(),
            reason: reason(plugin, decision, &asked.model, config),
            user_valves: asked.user.as_deref().map_or(Json::Null, |user| user_valves(plugin, user)),
        }
    }

    /// What runs, and rests since it broke again and again, says so.
    fn resting(mut self, plugin: &Plugin, standing: &Standing) -> Self {
        let rests = standing.of(&plugin.id).and_then(|standing| standing.rests.as_ref());
        if let Some(open) = rests.filter(|_| self.part == Part::Runs) {
            self.word = "rests";
            self.reason = rests_in_words(plugin, open).replace("\n ", ";");
        }
        self
    }

    fn as_json(&self) -> Json {
        Json::from([
            ("id", self.id.as_str().into()),
            ("runs", (self.part == Part::Runs).into()),
            ("decision", self.word.into()),
            ("reason", self.reason.as_str().into()),
            ("priority", self.priority.into()),
            ("hooks", self.hooks.iter().map(|hook| Json::from(*hook)).collect::<Vec<_>>().into()),
            ("user_valves", self.user_valves.clone()),
        ])
    }
}

fn as_table(filters: &[Told], paint: Paint) -> String {
    let (mut running, mut others) = (Vec::new(), Vec::new());
    for filter in filters {
        let priority = filter.priority.map_or_else(String::new, |priority| format!("priority {priority}"));
        let reason = with_user_valves(filter);
        let mark = match filter.part {
            Part::Runs => format!("{:>3}.", running.len() + 1),
            Part::Refuses => paint.red("   !"),
            Part::None => {
                others.push(vec!["   -".to_owned(), paint.dim(&filter.id), reason]);
                continue;
            }
        };
        running.push(vec![mark, paint.bold(&filter.id), priority, filter.hooks.join(" "), reason]);
    }
    let tables: Vec<String> = [running, others].iter().map(|rows| table(rows)).collect();
    tables.join("\n").trim_matches('\n').to_owned()
}

fn with_user_valves(filter: &Told) -> String {
    match &filter.user_valves {
        Json::Null => filter.reason.clone(),
        valves => format!("{}; user valves {valves}", filter.reason),
    }
}

impl Part {
    fn of(decision: &Decision) -> Self {
        match decision {
            Decision::Runs => Self::Runs,
            Decision::Refuses(_) => Self::Refuses,
            _ => Self::None,
        }
    }
}

fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Runs => "runs",
        Decision::Refuses(_) => "refuses",
        Decision::Off => "off",
        Decision::NotListed => "not_listed",
        Decision::NotAskedFor => "not_asked_for",
        Decision::Broken => "broken",
        Decision::NoHooks => "no_hooks",
    }
}

/// Why a filter runs or does not, in words.
fn reason(plugin: &Plugin, decision: &Decision, model: &str, config: &Config) -> String {
    let id = &plugin.id;
    match decision {
        Decision::Runs if matches!(plugin.state, State::Stale(_)) => {
            format!("its last good version runs: see valvehouse check {id}")
        }
        Decision::Runs if plugin.global => "runs for every model".to_owned(),
        Decision::Runs => format!("listed by the model `{model}`"),
        Decision::Refuses(why) => format!("refuses every request: {why}"),
        Decision::Off if config.filters.get(&**id).is_some_and(|settings| !settings.enabled) => {
            format!("switched off: [filters.{id}] enabled = false")
        }
        Decision::Off => "switched off by an operator".to_owned(),
        Decision::NotListed => format!("not global, and the model `{model}` does not list it"),
        Decision::NotAskedFor => {
            format!("a toggle: only for requests that ask for it with \"filter_ids\": [\"{id}\"]")
        }
        Decision::Broken => format!("has never loaded: see valvehouse check {id}"),
        Decision::NoHooks => "has no hooks, so that there is nothing to run".to_owned(),
    }
}

/// What a user's own valves are, secrets masked; null where the script declares none.
fn user_valves(plugin: &Plugin, user: &str) -> Json {
    let schema = plugin.script.as_ref().and_then(|script| script.manifest.user_valves.as_ref());
    let values = plugin.users.by_user.get(user).unwrap_or(&plugin.users.default);
    schema.map_or(Json::Null, |schema| schema.mask(values))
}
