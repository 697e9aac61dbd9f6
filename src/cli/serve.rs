//! `valvehouse serve`: opens the project, listens, follows its folders, and reports events.

use super::list;
use super::listener::Port;
use super::server::{self, Serving};
use super::settings::Reading;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::broadcast;
use valvehouse_agent::{INTERRUPTED, RunQuery};
use valvehouse_config::{Config, FILE};
use valvehouse_core::text::{count, optional};
use valvehouse_host::app::App;
use valvehouse_host::{Change, RefusedModels, Report, SharedStatus};
use valvehouse_json::Json;
use valvehouse_script::Diagnostic;
use valvehouse_terminal::{CommandError, Console, Exit, contents, first_request, plugin_problems, report};
#[cfg(feature = "workbench")]
use valvehouse_workbench::dev::{self, DevOptions};

pub(super) async fn run(
    config: Config,
    passed: Option<Port>,
    reading: &Reading,
    out: &Console,
) -> Result<Exit, CommandError> {
    let mut serving = Serving::open(&config, passed).await?;
    if !serving.finds_tables(&config, out).await {
        return Ok(Exit::Done);
    }
    // The record is deleted when this function ends, so that it covers everything that loads or runs from
    // here on.
    let _record = server::crash_record(&config);
    let app = server::open_app(config, out).await?;
    greet(&app, serving.address, out);
    note_waiting_runs(&app, out).await;
    let reports = app.host.reports();
    let mut refused = Refusals::default();
    refused.log_changes(&app);
    let news = tokio::spawn(print_reports(app.clone(), reports, refused, out.clone()));
    let ended = serving.run(&app, reading, out).await;
    news.abort();
    ended
}

/// Serves for script authors: shows the results of each save and each request.
#[cfg(feature = "workbench")]
pub(super) async fn dev(
    options: DevOptions,
    config: Config,
    reading: &Reading,
    out: &Console,
) -> Result<Exit, CommandError> {
    let mut serving = Serving::open(&config, None).await?;
    if !serving.finds_tables(&config, out).await {
        return Ok(Exit::Done);
    }
    // The record is deleted when this function ends.
    let _record = server::crash_record(&config);
    let app = server::open_app(config, out).await?;
    let (address, stop) = (serving.address, serving.stop());
    let ended = serving.run(&app, reading, out);
    dev::run(&options, &app, address, stop, ended, out).await
}

/// Prints the agent runs that need attention: they wait for an answer, or were interrupted with an earlier host.
async fn note_waiting_runs(app: &App, out: &Console) {
    for word in [INTERRUPTED, "paused"] {
        let query = RunQuery { status: Some(word.to_owned()), limit: 1_000, ..RunQuery::default() };
        match app.runs.list(&query).await {
            Ok(runs) if runs.is_empty() => {}
            Ok(runs) => out.note(&format!("{} {word}: valvehouse runs", count(runs.len(), "run"))),
            Err(error) => out.note(&format!("cannot list runs that are {word}: {error}")),
        }
    }
}

/// Shows the address, the contents of the project, and a first command.
fn greet(app: &App, address: SocketAddr, out: &Console) {
    let snapshot = app.host.snapshot();
    let url = format!("http://{address}");
    let models = snapshot.model_names();
    let problems = plugin_problems(&snapshot);
    let human = || {
        let (paint, limits) = (out.talk(), &app.config.limits);
        let version = concat!("valvehouse ", env!("CARGO_PKG_VERSION"));
        let mut text = format!("{} on {}\n", paint.bold(version), paint.bold(&url));
        text.push_str(&contents(app, &snapshot));
        if limits.time_scale != 1.0 {
            text.push_str(&format!("\nlimits of CPU time are multiplied by {}", limits.time_scale));
        }
        if !snapshot.plugins.is_empty() {
            text.push_str(&format!("\n{}\n", list::as_table(&snapshot, &SharedStatus::default(), paint)));
        }
        for problem in &problems {
            text.push_str(&format!("\n{}\n", report::shown(problem, paint)));
        }
        if snapshot.plugins.is_empty() && !app.config.project.join(FILE).exists() {
            let begin = "empty project:  valvehouse new project  creates settings, a filter and a tool";
            text.push_str(&format!("\n{}\n", paint.dim(begin)));
        }
        text.push_str(&format!("\n{}", paint.dim(&first_request(app, &url, models.first()))));
        text
    };
    let json = || {
        let plugins = snapshot
            .plugins
            .values()
            .map(|plugin| Json::from([("id", (*plugin.id).into()), ("state", plugin.state.as_str().into())]));
        Json::from([
            ("event", "listening".into()),
            ("address", url.as_str().into()),
            ("generation", snapshot.generation.into()),
            ("time_scale", app.config.limits.time_scale.into()),
            ("models", models.iter().map(|name| Json::from(name.as_str())).collect::<Vec<_>>().into()),
            ("plugins", plugins.collect::<Vec<_>>().into()),
            ("problems", report::all_as_json(&problems)),
        ])
    };
    out.event(human, json);
}

/// Shows the changes of every reload.
async fn print_reports(
    app: Arc<App>,
    mut reports: broadcast::Receiver<Arc<Report>>,
    mut refused: Refusals,
    out: Console,
) {
    loop {
        match reports.recv().await {
            Ok(report) => {
                print_report(&app, &report, &out);
                refused.log_changes(&app);
            }
            Err(broadcast::error::RecvError::Lagged(missed)) => {
                out.note(&format!("{} were skipped", count(missed as usize, "reload")));
            }
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

/// The last look at all requests: which are refused, and which guards let everything pass.
#[derive(Default)]
struct Refusals {
    models: Vec<RefusedModels>,
    audited: Vec<Arc<str>>,
}

impl Refusals {
    /// Logs a sentence for each reason that is new, and one when there are none any more.
    fn log_changes(&mut self, app: &App) {
        let now = app.host.snapshot().refused_models();
        for row in now.iter().filter(|row| !self.models.contains(row)) {
            tracing::error!("{row}");
        }
        if now.is_empty() && !self.models.is_empty() {
            tracing::info!("requests to all models are accepted again");
        }
        self.models = now;
        let snapshot = app.host.snapshot();
        let audited = snapshot.filters().filter(|plugin| plugin.security && plugin.audited && plugin.enabled);
        let audited: Vec<Arc<str>> = audited.map(|plugin| plugin.id.clone()).collect();
        for id in audited.iter().filter(|id| !self.audited.contains(id)) {
            tracing::warn!("guard `{id}` is in audit mode: it refuses nothing and changes nothing");
        }
        self.audited = audited;
    }
}

fn print_report(app: &App, report: &Report, out: &Console) {
    let ms = report.took.as_millis();
    for change in &report.changes {
        let news = News::of(change, app);
        let human = || {
            let paint = out.talk();
            let id = optional(change.id(), |id| format!("{} ", paint.bold(id)));
            let word = if news.is_bad { paint.red(news.word) } else { paint.green(news.word) };
            let when = paint.dim(&format!("(generation {}, {ms} ms)", report.generation));
            let stamp = out.stamp(news.level());
            let mut text = format!("{stamp}{id}{word}{} {when}", news.what_now);
            for problem in &news.problems {
                text.push_str(&format!("\n{}", report::shown(problem, paint)));
            }
            text
        };
        let json = || {
            Json::from([
                ("level", news.level().into()),
                ("event", "reload".into()),
                ("generation", report.generation.into()),
                ("ms", (ms as u64).into()),
                ("id", change.id().into()),
                ("change", news.word.into()),
                ("problems", report::all_as_json(&news.problems)),
            ])
        };
        out.event(human, json);
    }
}

/// One change as text.
struct News {
    word: &'static str,
    what_now: String,
    is_bad: bool,
    problems: Vec<Diagnostic>,
}

impl News {
    fn of(change: &Change, app: &App) -> Self {
        let good = |word| Self { word, what_now: String::new(), is_bad: false, problems: Vec::new() };
        let bad = |word, what_now: &str, problems: &[Diagnostic]| Self {
            word,
            what_now: what_now.to_owned(),
            is_bad: true,
            problems: problems.to_vec(),
        };
        match change {
            Change::Loaded(id) => Self { problems: warnings(app, id), ..good("loaded") },
            Change::Updated(id) => Self { problems: warnings(app, id), ..good("updated") },
            Change::Settings(id) => Self { problems: warnings(app, id), ..good("settings") },
            Change::Listed(id) => Self { problems: warnings(app, id), ..good("listed") },
            Change::Removed(_) => good("removed"),
            Change::Stale(_, problems) => bad("stale", ": its last good version keeps running", problems),
            Change::Broken(_, problems) => bad("broken", ": it does not load", problems),
            Change::Missing(id) => {
                let snapshot = app.host.snapshot();
                let what_now = snapshot.plugins.get(id).map_or("", |plugin| plugin.consequence());
                let ways = format!("restore its file, or run: valvehouse confirm {id}");
                bad("missing", &format!(": {what_now}; {ways}"), &[])
            }
            Change::Diagnostic(problem) => bad("problem", "", std::slice::from_ref(problem)),
        }
    }
}

impl News {
    fn level(&self) -> &'static str {
        if self.is_bad { "WARN" } else { "INFO" }
    }
}

/// Returns the warnings of a script that loads.
fn warnings(app: &App, id: &str) -> Vec<Diagnostic> {
    let snapshot = app.host.snapshot();
    let script = snapshot.plugins.get(id).and_then(|plugin| plugin.script.as_ref());
    script.map_or_else(Vec::new, |script| script.findings())
}
