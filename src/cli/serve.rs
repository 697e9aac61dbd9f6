//! `valvehouse serve`: opens the project, listens, follows its folder, tells what happens.

use super::descriptors;
use super::exit::{Exit, Failure};
use super::output::{Output, count};
use super::service::{self, Word};
use super::{list, report};
use crate::agent::{INTERRUPTED, Wanted};
use crate::app::App;
use crate::config::{Config, ConfigError, Listen};
use crate::host::{Change, Report, Standing};
use crate::json::Json;
use crate::script::{Kind, Problem};
use crate::server;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{broadcast, oneshot};
use tokio::time::timeout;

/// How long answers under way may take to finish.
const DRAIN: Duration = Duration::from_secs(30);
/// How long the store may take to let go.
const CLOSING: Duration = Duration::from_secs(2);

/// How the settings are read: at the start, and again while we run.
pub(super) struct Reading {
    /// The project's folder.
    pub(super) project: PathBuf,
    /// What the command line says.
    pub(super) overrides: Vec<(String, String)>,
    /// The port to listen on, in place of the configured one.
    pub(super) port: Option<u16>,
}

impl Reading {
    pub(super) fn load(&self) -> Result<Config, ConfigError> {
        let mut config = Config::load(&self.project, &self.overrides)?;
        if let Some(port) = self.port {
            config.server.listen.port = port;
        }
        Ok(config)
    }
}

pub(super) async fn run(config: Config, reading: &Reading, out: &Output) -> Result<Exit, Failure> {
    let mut signals = Signals::new()?;
    descriptors::take_enough();
    let listener = bind(&config.server.listen).await?;
    let address = listener.local_addr().map_err(|error| unavailable(&config.server.listen, &error))?;
    let app = App::open(config).await?;
    greet(&app, address, out);
    tell_waiting(&app, out).await;
    let news = tokio::spawn(tell_news(app.clone(), app.host.reports(), out.clone()));
    app.follow();
    let pulse = tokio::spawn(service::live());
    service::tell(&Word::Ready);
    let ended = serve(listener, &app, &mut signals, reading, out).await;
    pulse.abort();
    news.abort();
    // Whoever asked for the end twice does not wait for a disk.
    let _ = timeout(CLOSING, app.close()).await;
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

async fn bind(listen: &Listen) -> Result<TcpListener, Failure> {
    TcpListener::bind(listen.to_string()).await.map_err(|error| unavailable(listen, &error))
}

fn unavailable(listen: &Listen, error: &io::Error) -> Failure {
    let mend = match error.kind() {
        ErrorKind::AddrInUse => "something listens there already; another valvehouse? use --port",
        ErrorKind::PermissionDenied => "ports below 1024 are for administrators; use --port",
        _ => "change server.listen, or use --listen",
    };
    Failure::new(Exit::Unavailable, format!("failed to listen on {listen}: {error}; {mend}"))
}

/// Serves until a signal says otherwise; then lets answers under way finish.
async fn serve(
    listener: TcpListener,
    app: &Arc<App>,
    signals: &mut Signals,
    reading: &Reading,
    out: &Output,
) -> Result<Exit, Failure> {
    let (stop, stopped) = oneshot::channel::<()>();
    let until = async {
        // Sent or dropped, both mean the end.
        let _ = stopped.await;
    };
    let mut serving = tokio::spawn(server::serve(listener, app.clone(), until));
    loop {
        tokio::select! {
            ended = &mut serving => return ended_by_itself(ended),
            signal = signals.next() => match signal {
                Signal::LookAgain => look_again(app, reading, out).await,
                Signal::Stop => break,
            },
        }
    }
    service::tell(&Word::Stopping);
    let seconds = DRAIN.as_secs();
    out.say(&format!("stopping: answers under way have {seconds} s to finish; Ctrl-C again ends at once"));
    drop(stop);
    tokio::select! {
        _ = &mut serving => {}
        () = tokio::time::sleep(DRAIN) => out.say("stopped before all answers were finished"),
        () = signals.stop() => out.say("stopped at once"),
    }
    Ok(Exit::Done)
}

fn ended_by_itself(ended: Result<io::Result<()>, tokio::task::JoinError>) -> Result<Exit, Failure> {
    let why = match ended {
        Ok(Ok(())) => return Ok(Exit::Done),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    Err(Failure::new(Exit::Internal, format!("failed to go on serving: {why}")))
}

/// Reads the settings again and looks at the folders. A mistake changes nothing.
async fn look_again(app: &App, reading: &Reading, out: &Output) {
    service::tell(&Word::Reloading);
    let taken_up = match reading.load() {
        Ok(config) => app.reconfigure(config).await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match taken_up {
        Ok(waiting) => {
            let generation = app.host.snapshot().generation;
            out.say(&format!("the settings are read again (generation {generation})"));
            if !waiting.is_empty() {
                out.say(&format!("these wait for the next start: {}", waiting.join(", ")));
            }
        }
        Err(why) => {
            out.say(&format!("the settings are left as they were, since they could not be taken up:\n{why}"));
            app.host.reload().await;
        }
    }
    service::tell(&Word::Ready);
}

/// Where it is, what is there, and how to try it.
fn greet(app: &App, address: SocketAddr, out: &Output) {
    let snapshot = app.host.snapshot();
    let url = format!("http://{address}");
    let models = snapshot.model_names();
    let problems = list::problems(&snapshot);
    let human = || {
        let paint = out.talk();
        let version = concat!("valvehouse ", env!("CARGO_PKG_VERSION"));
        let mut text = format!("{} on {}\n", paint.bold(version), paint.bold(&url));
        text.push_str(&format!("  models   {}\n", in_a_row(&models)));
        let folders = &app.config.folders;
        for (kind, word, folder) in
            [(Kind::Filter, "filters", &folders.filters), (Kind::Tool, "tools  ", &folders.tools)]
        {
            let plugins = snapshot.plugins.values().filter(|plugin| plugin.kind == kind).count();
            let (files, folder) = (count(plugins, "file"), report::near(folder));
            text.push_str(&format!("  {word}  {files} in {}, followed live\n", folder.display()));
        }
        if !snapshot.plugins.is_empty() {
            text.push_str(&format!("\n{}\n", list::as_table(&snapshot, &Standing::default(), paint)));
        }
        for problem in &problems {
            text.push_str(&format!("\n{}\n", report::shown(problem, paint)));
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

fn how_to_try(app: &App, url: &str, model: Option<&String>) -> String {
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

/// What is not meant in a script that loads.
fn warnings(app: &App, id: &str) -> Vec<Problem> {
    let snapshot = app.host.snapshot();
    let script = snapshot.plugins.get(id).and_then(|plugin| plugin.script.as_ref());
    script.map(|script| script.warnings.clone()).unwrap_or_default()
}

/// What the system asks of us.
enum Signal {
    Stop,
    LookAgain,
}

/// Ctrl-C, SIGTERM and SIGHUP, from the moment it is made.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let take = |kind| {
            let failed =
                |error| Failure::new(Exit::Internal, format!("failed to listen for signals: {error}"));
            signal(kind).map_err(failed)
        };
        Ok(Self {
            interrupt: take(SignalKind::interrupt())?,
            terminate: take(SignalKind::terminate())?,
            hang_up: take(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.terminate.recv() => Signal::Stop,
            _ = self.hang_up.recv() => Signal::LookAgain,
        }
    }
}

/// Ctrl-C.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Result<Self, Failure> {
        Ok(Self)
    }

    async fn next(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal::Stop
    }
}

impl Signals {
    async fn stop(&mut self) {
        while !matches!(self.next().await, Signal::Stop) {}
    }
}
