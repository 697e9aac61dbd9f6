//! A session: the events so far, and the handling of keys.

use super::keys::{HELP, Key, Keys};
use super::options::{DevOptions, ReplayModels, StepDetail};
use super::reloads::Reloads;
use super::replay::{Difference, Outcome};
use super::requests::{self, Requests};
use super::test_runs::{self, Tests};
use super::view::View;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, mpsc};
use valvehouse_core::trace::{News, Trace};
use valvehouse_host::app::App;
use valvehouse_host::{Change, Report, replay_turn};
use valvehouse_json::Json;
use valvehouse_script::{Watch, tests_of_script};

/// The time for which related saves are awaited: a script and its tests are often saved together.
const MORE: Duration = Duration::from_millis(60);

/// The state of a session: the requests and reloads so far, and the pending work.
pub(super) struct Session {
    app: Arc<App>,
    view: View,
    open: StepDetail,
    /// The models for the replay of the last request after a save; `None` disables the replay.
    on_save: Option<ReplayModels>,
    requests: Requests,
    reloads: Reloads,
    /// The outcome of the last replay, and the id of its trace.
    outcome: Option<(String, Outcome)>,
    tests: Tests,
    /// `true` if tests run after a save.
    runs_tests: bool,
    work: mpsc::UnboundedSender<Work>,
    replayed: mpsc::UnboundedReceiver<ReplayedRequest>,
    stop: Arc<Notify>,
}

/// Slow work, done in a separate task.
#[derive(Default)]
struct Work {
    /// The test files to run.
    tests: BTreeSet<PathBuf>,
    /// `true` to show only failed tests, and the number of all.
    in_sum: bool,
    /// A request to replay: its number, its trace, and the models that answer.
    replay: Option<(usize, Arc<Trace>, ReplayModels)>,
}

impl Work {
    fn and(mut self, later: Self) -> Self {
        self.tests.extend(later.tests);
        Self { in_sum: self.in_sum || later.in_sum, replay: later.replay.or(self.replay), ..self }
    }
}

/// A replayed request.
struct ReplayedRequest {
    number: usize,
    of: Arc<Trace>,
    again: Result<Arc<Trace>, String>,
}

impl Session {
    pub(super) fn begin(app: Arc<App>, options: &DevOptions, view: View, stop: Arc<Notify>) -> Self {
        let (work, waiting) = mpsc::unbounded_channel();
        let (tell, replayed) = mpsc::unbounded_channel();
        // The task ends with the session, which holds the sender.
        tokio::spawn(work_off(app.clone(), view.clone(), waiting, tell));
        Self {
            reloads: Reloads::new(app.host.snapshot()),
            tests: Tests::of(&app.config),
            runs_tests: !options.no_tests,
            app,
            view,
            open: options.open,
            on_save: options.replay,
            requests: Requests::default(),
            outcome: None,
            work,
            replayed,
            stop,
        }
    }

    /// Shows events until the future is dropped or the host ends.
    pub(super) async fn watch(
        mut self,
        mut reports: Receiver<Arc<Report>>,
        mut news: Receiver<News>,
        mut keys: Option<Keys>,
    ) {
        let pressed = async |keys: &mut Option<Keys>| match keys {
            Some(keys) => keys.next().await,
            None => std::future::pending().await,
        };
        let mut saved = Watch::new(self.tests.folders());
        loop {
            let missed = tokio::select! {
                report = reports.recv() => missed(report.map(|report| self.reloaded(&report))),
                news = news.recv() => missed(news.map(|news| self.happened(news))),
                Some(replayed) = self.replayed.recv() => { self.compare(replayed); Some(0) }
                () = saved.tick() => { self.tests_saved(); Some(0) }
                key = pressed(&mut keys) => { self.pressed(key); Some(0) }
            };
            match missed {
                None => return,
                Some(0) => {}
                Some(missed) => self.view.event(
                    |_| format!("{missed} events were skipped"),
                    || Json::from([("event", "lost".into()), ("missed", missed.into())]),
                ),
            }
        }
    }

    fn reloaded(&mut self, report: &Report) {
        let now = self.app.host.snapshot();
        let is_new = self.reloads.show(report, now.clone(), &self.view);
        let saved = report.changes.iter().filter_map(|change| match change {
            Change::Loaded(id) | Change::Updated(id) => Some(&now.plugins.get(id)?.path),
            _ => None,
        });
        let tests = saved
            .filter(|_| self.runs_tests)
            .map(|path| tests_of_script(path))
            .filter(|tests| tests.is_file())
            .collect();
        let replay = self.on_save.filter(|_| is_new).and_then(|models| self.last(models));
        self.ask(Work { tests, replay, ..Work::default() });
    }

    /// Handles a change in the folders, which may affect tests.
    fn tests_saved(&mut self) {
        let tests = self.tests.saved();
        if self.runs_tests {
            self.ask(Work { tests, ..Work::default() });
        }
    }

    /// Returns the last request that can be replayed.
    fn last(&self, models: ReplayModels) -> Option<(usize, Arc<Trace>, ReplayModels)> {
        self.requests.last().map(|(number, trace)| (number, trace, models))
    }

    fn happened(&mut self, news: News) {
        if let News::Ended(trace) = news {
            let number = self.requests.add(trace.clone());
            requests::show(number, &trace, self.open, &self.view);
        }
    }

    fn pressed(&mut self, key: Key) {
        match key {
            Key::Open(number) => self.requests.open(number, &self.view),
            Key::Replay => match self.last(self.on_save.unwrap_or(ReplayModels::Recorded)) {
                None => self.view.note("no request to replay yet"),
                replay => self.ask(Work { replay, ..Work::default() }),
            },
            Key::Test => match self.tests.all() {
                none if none.is_empty() => self.view.note(
                    "no tests yet: the tests of turn_limit.rhai belong in turn_limit.test.rhai next to it",
                ),
                tests => self.ask(Work { tests, in_sum: true, replay: None }),
            },
            Key::Clear => self.view.note("\u{1b}[2J\u{1b}[H"),
            Key::Help => self.view.note(HELP),
            Key::Quit => self.stop.notify_one(),
        }
    }

    fn ask(&self, work: Work) {
        if work.tests.is_empty() && work.replay.is_none() {
            return;
        }
        // The worker runs as long as the session.
        let _ = self.work.send(work);
    }

    /// Compares a replay with the previous run of its request.
    fn compare(&mut self, replayed: ReplayedRequest) {
        let ReplayedRequest { number, of, again } = replayed;
        let again = match again {
            Ok(again) => again,
            Err(why) => {
                let human = || format!("cannot replay #{number}: {why}");
                let json = || {
                    Json::from([
                        ("event", "replay".into()),
                        ("number", number.into()),
                        ("error", why.as_str().into()),
                    ])
                };
                return self.view.event(|_| human(), json);
            }
        };
        let before = self.outcome.take().filter(|(id, _)| *id == of.id);
        let before = before.map_or_else(|| Outcome::of(&of), |(_, outcome)| outcome);
        let outcome = Outcome::of(&again);
        let took_ms = again.ended().map_or(0.0, |ended| ended.took.as_secs_f64() * 1_000.0);
        Difference::between(&before, &outcome).show(number, took_ms, &self.view);
        self.outcome = Some((of.id.clone(), outcome));
        self.requests.again(number, again);
    }
}

/// Returns the number of missed events; `None` if the channel is closed.
fn missed(result: Result<(), RecvError>) -> Option<u64> {
    match result {
        Ok(()) => Some(0),
        Err(RecvError::Lagged(missed)) => Some(missed),
        Err(RecvError::Closed) => None,
    }
}

/// Does the requested work, one item after the other.
async fn work_off(
    app: Arc<App>,
    view: View,
    mut waiting: mpsc::UnboundedReceiver<Work>,
    tell: mpsc::UnboundedSender<ReplayedRequest>,
) {
    while let Some(mut work) = waiting.recv().await {
        // Of several requested replays, the last one counts.
        tokio::time::sleep(MORE).await;
        while let Ok(later) = waiting.try_recv() {
            work = work.and(later);
        }
        if !work.tests.is_empty() {
            test_runs::run(work.tests, &app.config).await.show(work.in_sum, &view);
        }
        if let Some((number, trace, models)) = work.replay {
            let again = replay_turn(&app, &trace, &models.sandbox()).await.map_err(|error| error.to_string());
            if tell.send(ReplayedRequest { number, of: trace, again }).is_err() {
                return;
            }
        }
    }
}
