//! `valvehouse explain`: the filters that run for a model in order, the reasons for which others do not, the
//! model's tools, and the buttons under its answers.

use super::args;
use super::project::Project;
use super::providers;
use valvehouse_config::Config;
use valvehouse_core::chat::serialized;
use valvehouse_core::metrics::PromptCacheCount;
use valvehouse_core::tool::Tool;
use valvehouse_core::trace::GuardCoverageRow;
use valvehouse_host::{ActionPart, FilterDecision, HostPart, Part, Plugin, Snapshot};
use valvehouse_json::Json;
use valvehouse_terminal::{CommandError, Console, Exit, Paint, clean, table};

pub(super) async fn run(args: &args::Explain, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let project = Project::look(config).await?;
    if args.coverage {
        return coverage(args, &project, out).await;
    }
    let names = project.snapshot.model_names();
    let model = args.model.as_ref().or(names.first()).ok_or_else(|| {
        CommandError::usage("missing model: the settings name none; pass --model".to_owned())
    })?;
    // An unknown model is an error rather than an empty explanation.
    project.snapshot.ready(model, &[])?;
    let standing = project.standing().await?;
    let user = args.user.as_deref();
    let open_breaker =
        |plugin: &Plugin| standing.of(&plugin.id).and_then(|standing| standing.open_breaker.clone());
    let parts = project.snapshot.parts(model, &[], open_breaker);
    let own = project.snapshot.host_parts(model, &[]);
    let cached = |part: &Part| {
        standing.of(&part.plugin.id).map_or_else(PromptCacheCount::default, |own| own.prompt_cache)
    };
    let mut filters: Vec<FilterReport> =
        parts.iter().map(|part| FilterReport::new(part, user, cached(part))).collect();
    filters.extend(own.iter().map(FilterReport::of_host));
    // Rejections come first. Filters that do not run are listed at their place, too.
    filters.sort_by(|a, b| a.place().total_cmp(&b.place()));
    let actions = project.snapshot.action_parts(model);
    let offered: Vec<&str> = project.snapshot.offered(model).iter().map(Tool::name).collect();
    if out.is_json() {
        let filters: Vec<Json> = filters.iter().map(FilterReport::as_json).collect();
        let tools: Vec<Json> = offered.into_iter().map(Json::from).collect();
        out.json(&Json::from([
            ("model", model.as_str().into()),
            ("user", user.into()),
            ("filters", filters.into()),
            ("tools", tools.into()),
            ("actions", actions.iter().map(action_as_json).collect::<Vec<_>>().into()),
            ("answering", providers::answering(config, model).into()),
        ]))?;
    } else {
        if args.model.is_none() {
            out.note(&format!("model {}", clean(model)));
        }
        if filters.is_empty() {
            out.note("no filters: requests are sent to the model unchanged");
        } else {
            out.line(&as_table(&filters, out.results()))?;
        }
        match offered.as_slice() {
            [] => out.note("no tools are offered to the model"),
            names => out.line(&format!("\noffered tools: {}", names.join(", ")))?,
        }
        if !actions.is_empty() {
            out.line(&format!(
                "\nbuttons under its answers:\n{}",
                actions_as_table(&actions, out.results())
            ))?;
        }
        if let Some(answering) = providers::answering(config, model) {
            out.line(&format!("\nanswered by: {answering}"))?;
        }
    }
    project.store.close().await;
    Ok(Exit::Done)
}

/// Returns the actions in the order of their buttons.
fn actions_as_table(actions: &[ActionPart], paint: Paint) -> String {
    let rows = actions.iter().map(|part| {
        let id = match part.shown {
            true => paint.bold(&part.plugin.id),
            false => paint.dim(&part.plugin.id),
        };
        let mark = if part.shown { "   ·" } else { "   -" };
        let buttons = part.plugin.button_ids().join(" ");
        vec![mark.to_owned(), id, buttons, clean(&part.reason).replace('\n', " ")]
    });
    table(&rows.collect::<Vec<_>>())
}

fn action_as_json(part: &ActionPart) -> Json {
    let buttons: Vec<Json> = part.plugin.button_ids().into_iter().map(Json::from).collect();
    Json::from([
        ("id", (*part.plugin.id).into()),
        ("shown", part.shown.into()),
        ("reason", part.reason.as_str().into()),
        ("priority", part.plugin.priority().into()),
        ("buttons", buttons.into()),
    ])
}

/// Shows the guards that ran in the requests of the last hour on all running hosts, for `--coverage`.
async fn coverage(args: &args::Explain, project: &Project, out: &Console) -> Result<Exit, CommandError> {
    let standing = project.standing().await?;
    let is_meant = |row: &GuardCoverageRow| {
        args.model.as_ref().is_none_or(|model| *model == row.model)
            && args.user.as_ref().is_none_or(|user| *user == row.user)
    };
    let rows: Vec<GuardCoverageRow> = standing.coverage().into_iter().filter(is_meant).collect();
    if out.is_json() {
        out.json(&serialized(&project.snapshot.coverage_table(rows))?)?;
    } else if standing.hosts == 0 {
        out.note("no host is running on this store: counts exist only while a host is running");
    } else if project.snapshot.guards().is_empty() {
        out.note("no guards: no filter has `security: true`");
    } else if rows.is_empty() {
        out.note("no requests in the last hour");
    } else {
        out.line(&coverage_table(&project.snapshot, &rows, out.results()))?;
    }
    project.store.close().await;
    Ok(Exit::Done)
}

fn coverage_table(snapshot: &Snapshot, rows: &[GuardCoverageRow], paint: Paint) -> String {
    let head = ["", "endpoint", "model", "user", "hook", "requests", "guards"];
    let mut lines = vec![head.map(|text| paint.dim(text)).to_vec()];
    for row in rows {
        let names = [&row.endpoint, &row.model, &row.user].map(|name| match name.as_str() {
            "" => "-".to_owned(),
            name => clean(name),
        });
        let cells = snapshot.coverage_cells(row);
        if cells.is_empty() {
            let [endpoint, model, user] = names;
            let count = row.requests.to_string();
            lines.push(vec!["-".into(), endpoint, model, user, "-".into(), count, "none succeeded".into()]);
            continue;
        }
        for cell in cells {
            let ran = cell.guards.iter().filter(|guard| guard.requests > 0);
            let ran: Vec<String> = ran
                .map(|guard| match guard.requests == cell.requests {
                    true => guard.id.clone(),
                    false => format!("{} ({})", guard.id, guard.requests),
                })
                .collect();
            let (mark, guards) = match cell.state {
                "covered" => (paint.green("✓"), ran.join(", ")),
                "partly" => (paint.yellow("!"), ran.join(", ")),
                _ => (paint.red("✗"), paint.red("none")),
            };
            let [endpoint, model, user] = names.clone();
            let (hook, count) = (cell.hook.to_owned(), cell.requests.to_string());
            lines.push(vec![mark, endpoint, model, user, hook, count, guards]);
        }
    }
    table(&lines)
}

/// A filter and its part in a request, for output.
struct FilterReport {
    id: String,
    mark: Mark,
    /// The name of the decision in JSON.
    word: &'static str,
    priority: Option<f64>,
    hooks: Vec<&'static str>,
    reason: String,
    /// The user's own valves; null if there are none.
    user_valves: Json,
    /// The number of requests on all running hosts for which it preserved the prompt cache.
    prompt_cache: PromptCacheCount,
}

/// The mark of a filter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Runs,
    Refuses,
    None,
}

impl FilterReport {
    fn new(part: &Part, user: Option<&str>, prompt_cache: PromptCacheCount) -> Self {
        let plugin = &part.plugin;
        Self {
            id: plugin.id.to_string(),
            mark: match part.decision {
                FilterDecision::Runs => Mark::Runs,
                FilterDecision::Refuses(_) => Mark::Refuses,
                _ => Mark::None,
            },
            word: part.decision_name(),
            priority: plugin.priority(),
            hooks: plugin.hooks(),
            reason: clean(&part.reason).replace('\n', " "),
            user_valves: user.map_or(Json::Null, |user| plugin.valves_of_user(user)),
            prompt_cache,
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
            prompt_cache: PromptCacheCount::default(),
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
            ("prompt_cache", self.prompt_cache.to_json()),
        ])
    }
}

fn as_table(filters: &[FilterReport], paint: Paint) -> String {
    let (mut running, mut others) = (Vec::new(), Vec::new());
    for filter in filters {
        let priority = filter.priority.map_or_else(String::new, |priority| format!("priority {priority}"));
        let reason = with_details(filter);
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

/// Returns the reason, the user's valves, and whether the filter preserves the prompt cache.
fn with_details(filter: &FilterReport) -> String {
    let valves = match &filter.user_valves {
        Json::Null => None,
        valves => Some(format!("user valves {valves}")),
    };
    let details = [Some(filter.reason.clone()), valves, filter.prompt_cache.to_words()];
    details.into_iter().flatten().collect::<Vec<_>>().join("; ")
}
