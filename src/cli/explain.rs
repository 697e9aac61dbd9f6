//! `valvehouse explain`: which filters run for a model, in which order, and why the others do not;
//! and which tools it is offered.

use super::args;
use super::project::Project;
use super::providers;
use valvehouse_config::Config;
use valvehouse_core::tool::Tool;
use valvehouse_host::{Decision, HostPart, Part, Plugin};
use valvehouse_json::Json;
use valvehouse_terminal::{CommandError, Console, Exit, Paint, clean, table};

pub(super) async fn run(asked: &args::Explain, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let project = Project::look(config).await?;
    let names = project.snapshot.model_names();
    let model = asked.model.as_ref().or(names.first()).ok_or_else(|| {
        CommandError::usage(
            "cannot choose a model: the settings name none; say which with --model".to_owned(),
        )
    })?;
    // A model nobody knows would get a fine explanation, of nothing.
    project.snapshot.ready(model, &[])?;
    let standing = project.standing().await?;
    let user = asked.user.as_deref();
    let rests = |plugin: &Plugin| standing.of(&plugin.id).and_then(|standing| standing.rests.clone());
    let parts = project.snapshot.parts(model, &[], rests);
    let own = project.snapshot.host_parts(model, &[]);
    let mut filters: Vec<FilterReport> = parts.iter().map(|part| FilterReport::new(part, user)).collect();
    filters.extend(own.iter().map(FilterReport::of_host));
    // A refusal comes before everything else; what does not run has its place all the same.
    filters.sort_by(|a, b| a.place().total_cmp(&b.place()));
    let offered: Vec<&str> = project.snapshot.offered(model).iter().map(Tool::name).collect();
    if out.is_json() {
        let filters: Vec<Json> = filters.iter().map(FilterReport::as_json).collect();
        let tools: Vec<Json> = offered.into_iter().map(Json::from).collect();
        out.json(&Json::from([
            ("model", model.as_str().into()),
            ("user", user.into()),
            ("filters", filters.into()),
            ("tools", tools.into()),
            ("answering", providers::answering(config, model).into()),
        ]))?;
    } else {
        if asked.model.is_none() {
            out.say(&format!("model {}", clean(model)));
        }
        if filters.is_empty() {
            out.say("no filters: requests go to the model as they are");
        } else {
            out.line(&as_table(&filters, out.results()))?;
        }
        match offered.as_slice() {
            [] => out.say("no tools: the model is offered none"),
            names => out.line(&format!("\ntools it is offered: {}", names.join(", ")))?,
        }
        if let Some(answering) = providers::answering(config, model) {
            out.line(&format!("\nanswered by: {answering}"))?;
        }
    }
    project.store.close().await;
    Ok(Exit::Done)
}

/// One filter and its part in a request, fit for a terminal.
struct FilterReport {
    id: String,
    mark: Mark,
    /// The name of the decision for programs.
    word: &'static str,
    priority: Option<f64>,
    hooks: Vec<&'static str>,
    reason: String,
    /// The user's own valves; null where there are none.
    user_valves: Json,
}

/// The mark of a filter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Runs,
    Refuses,
    None,
}

impl FilterReport {
    fn new(part: &Part, user: Option<&str>) -> Self {
        let plugin = &part.plugin;
        Self {
            id: plugin.id.to_string(),
            mark: match part.decision {
                Decision::Runs => Mark::Runs,
                Decision::Refuses(_) => Mark::Refuses,
                _ => Mark::None,
            },
            word: part.word(),
            priority: plugin.priority(),
            hooks: plugin.hooks(),
            reason: clean(&part.reason).replace('\n', " "),
            user_valves: user.map_or(Json::Null, |user| plugin.valves_of_user(user)),
        }
    }

    fn of_host(part: &HostPart) -> Self {
        Self {
            id: part.id.clone(),
            mark: if part.refuses.is_some() { Mark::Refuses } else { Mark::Runs },
            word: if part.refuses.is_some() { "refuses" } else { "runs" },
            priority: Some(part.priority).filter(|priority| priority.is_finite()),
            hooks: part.hooks.clone(),
            reason: part.reason.clone(),
            user_valves: Json::Null,
        }
    }

    fn place(&self) -> f64 {
        match (self.mark, self.priority) {
            (Mark::Refuses, _) => f64::NEG_INFINITY,
            (Mark::None, None) => 0.0,
            (_, priority) => priority.unwrap_or(f64::INFINITY),
        }
    }

    fn as_json(&self) -> Json {
        Json::from([
            ("id", self.id.as_str().into()),
            ("runs", (self.mark == Mark::Runs).into()),
            ("decision", self.word.into()),
            ("reason", self.reason.as_str().into()),
            ("priority", self.priority.into()),
            ("hooks", self.hooks.iter().map(|hook| Json::from(*hook)).collect::<Vec<_>>().into()),
            ("user_valves", self.user_valves.clone()),
        ])
    }
}

fn as_table(filters: &[FilterReport], paint: Paint) -> String {
    let (mut running, mut others) = (Vec::new(), Vec::new());
    for filter in filters {
        let priority = filter.priority.map_or_else(String::new, |priority| format!("priority {priority}"));
        let reason = with_user_valves(filter);
        let mark = match filter.mark {
            Mark::Runs => format!("{:>3}.", running.len() + 1),
            Mark::Refuses => paint.red("   !"),
            Mark::None => {
                others.push(vec!["   -".to_owned(), paint.dim(&filter.id), reason]);
                continue;
            }
        };
        running.push(vec![mark, paint.bold(&filter.id), priority, filter.hooks.join(" "), reason]);
    }
    let tables: Vec<String> = [running, others].iter().map(|rows| table(rows)).collect();
    tables.join("\n").trim_matches('\n').to_owned()
}

fn with_user_valves(filter: &FilterReport) -> String {
    match &filter.user_valves {
        Json::Null => filter.reason.clone(),
        valves => format!("{}; user valves {valves}", filter.reason),
    }
}
