//! `valvehouse serve`: opens the project, listens, follows its folder, tells what happens.

use super::exit::{Exit, Failure};
use super::output::Output;
use super::server::{self, Serving};
use super::settings::Reading;
use super::{list, report};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::broadcast;
use valvehouse_agent::{INTERRUPTED, Wanted};
use valvehouse_config::{Config, FILE};
use valvehouse_core::words::count;
use valvehouse_host::app::App;
use valvehouse_host::{Change, Report, Snapshot, Standing};
use valvehouse_json::Json;
use valvehouse_script::{Kind, Problem};

pub(super) async fn run(config: Config, reading: &Reading, out: &Output) -> Result<Exit, Failure> {
    let serving = Serving::open(&config).await?;
    // Deleted when this function ends: whatever loads or runs is attributed from here on.
    let _record = server::crash_record(&config);
    let app = server::open_app(config, out).await?;
    greet(&app, serving.address, out);
    tell_waiting(&app, out).await;
    let news = tokio::spawn(tell_news(app.clone(), app.host.reports(), out.clone()));
    let ended = serving.run(&app, reading, out).await;
    news.abort();
    ended
}

/// Says which runs of agents somebody has to look at: they wait, or were broken off with an earlier host.
async fn tell_waiting(app: &App, out: &Output) {
    for word in [INTERRUPTED, "paused"] {
        let wanted = Wanted { status: Some(word.to_owned()), limit: 1_000, ..Wanted::default() };
        match app.runs.list(&wanted).await {
            Ok(runs) if runs.is_empty() => {}
            Ok(runs) => out.say(&format!("{} {word}: valvehouse runs", count(runs.len(), "run"))),
            Err(fault) => out.say(&format!("failed to look for runs that are {word}: {fault}")),
        }
    }
}

/// Its models and folders, a line each.
pub(super) fn what_is_there(app: &App, snapshot: &Snapshot) -> String {
    let mut text = format!("  models   {}\n", in_a_row(&snapshot.model_names()));
    let folders = &app.config.folders;
    for (kind, word, folder) in
        [(Kind::Filter, "filters", &folders.filters), (Kind::Tool, "tools  ", &folders.tools)]
    {
        let plugins = snapshot.plugins.values().filter(|plugin| plugin.kind == kind).count();
        let (files, folder) = (count(plugins, "file"), report::near(folder));
        text.push_str(&format!("  {word}  {files} in {}, followed live\n", folder.display()));
    }
    text
}

/// Shows the address, the contents of the project, and a way to try it.
fn greet(app: &App, address: SocketAddr, out: &Output) {
    let snapshot = app.host.snapshot();
    let url = format!("http://{address}");
    let models = snapshot.model_names();
    let problems = list::problems(&snapshot);
    let human = || {
        let paint = out.talk();
        let version = concat!("valvehouse ", env!("CARGO_PKG_VERSION"));
        let mut text = format!("{} on {}\n", paint.bold(version), paint.bold(&url));
        text.push_str(&what_is_there(app, &snapshot));
        if !snapshot.plugins.is_empty() {
            text.push_str(&format!("\n{}\n", list::as_table(&snapshot, &Standing::default(), paint)));
        }
        for problem in &problems {
            text.push_str(&format!("\n{}\n", report::shown(problem, paint)));
        }
        if snapshot.plugins.is_empty() && !app.config.project.join(FILE).exists() {
            let begin = "nothing is here yet:  valvehouse new project  makes settings, a filter and a tool";
            text.push_str(&format!("\n{}\n", paint.dim(begin)));
        }
        text.push_str(&format!("\n{}", paint.dim(&how_to_try(app, &url, models.first()))));
        text
    };
    let json = || {
        let plugins = snapshot
            .plugins
            .values()
            .map(|plugin| Json::from([("id", (*plugin.id).into()), ("state", plugin.state.word().into())]));
        Json::from([
            ("event", "listening".into()),
            ("address", url.as_str().into()),
            ("generation", snapshot.generation.into()),
            ("models", models.iter().map(|name| Json::from(name.as_str())).collect::<Vec<_>>().into()),
            ("plugins", plugins.collect::<Vec<_>>().into()),
            ("problems", report::all_as_json(&problems)),
        ])
    };
    out.tell(human, json);
}

fn in_a_row(models: &[String]) -> String {
    const SHOWN: usize = 8;
    match models.len() {
        0 => "whatever its providers have".to_owned(),
        more if more > SHOWN => format!("{} … ({more} in all)", models[..SHOWN].join(", ")),
        _ => models.join(", "),
    }
}

pub(super) fn how_to_try(app: &App, url: &str, model: Option<&String>) -> String {
    let model = model.map_or("MODEL", String::as_str);
    let key = match app.config.server.keys.is_empty() {
        true => "",
        false => " -H \"authorization: Bearer $KEY\"",
    };
    let body = format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hello"}}]}}"#);
    format!("try it:  curl {url}/v1/chat/completions -H 'content-type: application/json'{key} -d '{body}'")
}

/// Tells what every reload brought, as it happens.
async fn tell_news(app: Arc<App>, mut reports: broadcast::Receiver<Arc<Report>>, out: Output) {
    loop {
        match reports.recv().await {
            Ok(report) => tell_report(&app, &report, &out),
            Err(broadcast::error::RecvError::Lagged(missed)) => {
                out.say(&format!("{} went by too fast to be told", count(missed as usize, "reload")));
            }
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

fn tell_report(app: &App, report: &Report, out: &Output) {
    let ms = report.took.as_millis();
    for change in &report.changes {
        let news = News::of(change, app);
        let human = || {
            let paint = out.talk();
            let id = change.id().map(|id| format!("{} ", paint.bold(id))).unwrap_or_default();
            let word = if news.is_bad { paint.red(news.word) } else { paint.green(news.word) };
            let when = paint.dim(&format!("(generation {}, {ms} ms)", report.generation));
            let mut text = format!("{id}{word}{} {when}", news.what_now);
            for problem in &news.problems {
                text.push_str(&format!("\n{}", report::shown(problem, paint)));
            }
            text
        };
        let json = || {
            Json::from([
                ("event", "reload".into()),
                ("generation", report.generation.into()),
                ("ms", (ms as u64).into()),
                ("id", change.id().into()),
                ("change", news.word.into()),
                ("problems", report::all_as_json(&news.problems)),
            ])
        };
        out.tell(human, json);
    }
}

/// One change in words.
struct News {
    word: &'static str,
    what_now: String,
    is_bad: bool,
    problems: Vec<Problem>,
}

impl News {
    fn of(change: &Change, app: &App) -> Self {
        let good = |word| Self { word, what_now: String::new(), is_bad: false, problems: Vec::new() };
        let bad = |word, what_now: &str, problems: &[Problem]| Self {
            word,
            what_now: what_now.to_owned(),
            is_bad: true,
            problems: problems.to_vec(),
        };
        match change {
            Change::Loaded(id) => Self { problems: warnings(app, id), ..good("loaded") },
            Change::Updated(id) => Self { problems: warnings(app, id), ..good("updated") },
            Change::Settings(id) => Self { problems: warnings(app, id), ..good("settings") },
            Change::Removed(_) => good("removed"),
            Change::Stale(_, problems) => bad("stale", ": its last good version runs on", problems),
            Change::Broken(_, problems) => bad("broken", ": it does not load", problems),
            Change::Missing(id) => {
                let mend =
                    format!(": requests are refused until it is back, or valvehouse confirm-removal {id}");
                bad("missing", &mend, &[])
            }
            Change::Problem(problem) => bad("problem", "", std::slice::from_ref(problem)),
        }
    }
}

/// The warnings of a script that loads.
fn warnings(app: &App, id: &str) -> Vec<Problem> {
    let snapshot = app.host.snapshot();
    let script = snapshot.plugins.get(id).and_then(|plugin| plugin.script.as_ref());
    script.map(|script| script.findings()).unwrap_or_default()
}
