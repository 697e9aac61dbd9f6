//! Storage of a run's steps, and of a run abandoned by its client.

use super::journal::{JournalEntry, Keeper};
use super::memory;
use super::pending::conflict;
use super::saved::RunSnapshot;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::broadcast;
use valvehouse_core::error::Error;
use valvehouse_json::Json;
use valvehouse_store::{Run, RunStatus, RunStep, Store};

/// The journal of a run in the store.
pub(super) struct StoreKeeper<'a> {
    store: &'a Arc<Store>,
    moved: &'a broadcast::Sender<Arc<str>>,
    owner: &'a str,
    /// The run when this process took it over.
    pub(super) run: Run,
    at: Mutex<CheckpointPlace>,
}

struct CheckpointPlace {
    step: u64,
    kept: Json,
}

impl<'a> StoreKeeper<'a> {
    pub(super) fn new(
        store: &'a Arc<Store>,
        owner: &'a str,
        moved: &'a broadcast::Sender<Arc<str>>,
        run: &Run,
        kept: Json,
    ) -> Self {
        let at = Mutex::new(CheckpointPlace { step: run.step, kept });
        Self { store, moved, owner, at, run: run.clone() }
    }

    /// Returns the number of the current step.
    pub(super) fn step(&self) -> u64 {
        self.at.lock().step
    }

    /// Announces that the run changed.
    pub(super) fn announce(&self) {
        // Usually there are no subscribers.
        let _ = self.moved.send(self.run.id.as_str().into());
    }

    async fn write(&self, kept: JournalEntry<'_>) -> Result<(), Error> {
        let (expected, mut lasting) = {
            let at = self.at.lock();
            (at.step, at.kept.clone())
        };
        let is_news = !kept.messages.is_empty() || kept.status == RunStatus::Done;
        if !kept.messages.is_empty() {
            lasting = memory::remembering(&lasting, kept.messages);
        }
        if let Some(saved) = kept.saved.filter(|_| kept.status == RunStatus::Done) {
            lasting = memory::leaving(&lasting, saved);
        }
        let state = kept.saved.map(RunSnapshot::to_json);
        let step = RunStep {
            run: &self.run.id,
            owner: self.owner,
            expected,
            messages: kept.messages,
            checkpoint: state.as_ref().map(|state| (kept.name, state)),
            status: kept.status,
            pending: kept.pending,
            error: kept.error,
            kept: is_news.then_some(&lasting),
        };
        if !self.store.keep_step(&step).await? {
            return Err(conflict(format!(
                "cannot store a step of run {}: the run continued elsewhere",
                self.run.id
            )));
        }
        let mut at = self.at.lock();
        (at.step, at.kept) = (expected + 1, lasting);
        drop(at);
        self.announce();
        Ok(())
    }
}

impl Keeper for StoreKeeper<'_> {
    fn keep<'a>(&'a self, kept: JournalEntry<'a>) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.write(kept))
    }

    fn run(&self) -> &str {
        &self.run.id
    }

    fn seal(&self, host_calls: Json) -> Json {
        match host_calls {
            Json::Null => Json::Null,
            calls => self.store.seal(&calls.to_string(), &host_calls_of(&self.run.id)).into(),
        }
    }
}

/// Returns the purpose for which the results of host calls are sealed, so that only their own run can open
/// them.
fn host_calls_of(run: &str) -> String {
    format!("host calls {run:?}")
}

/// Returns the results of the host calls that a run made before it paused.
///
/// # Errors
///
/// Returns an error if they were sealed for another run or by another store.
pub(super) fn opened_host_calls(store: &Store, run: &str, saved: &RunSnapshot) -> Result<Json, Error> {
    let Json::Text(sealed) = &saved.host_calls else { return Ok(saved.host_calls.deep_clone()) };
    let opened = store.unseal(sealed, &host_calls_of(run));
    opened.and_then(|calls| Json::parse(calls.as_bytes()).ok()).ok_or_else(|| {
        conflict(format!(
            "cannot open the results of the host calls that run {run} made before it paused; resume it with `retry`, \
             which runs the step afresh"
        ))
    })
}

/// A guard that records an abandoned run if the client disconnects, so that the run can be resumed.
pub(super) struct AbandonedRunGuard<'a> {
    store: &'a Arc<Store>,
    owner: &'a str,
    run: &'a str,
    step: &'a (dyn Fn() -> u64 + Sync),
    done: bool,
}

impl<'a> AbandonedRunGuard<'a> {
    pub(super) fn new(
        store: &'a Arc<Store>,
        owner: &'a str,
        run: &'a str,
        step: &'a (dyn Fn() -> u64 + Sync),
    ) -> Self {
        Self { store, owner, run, step, done: false }
    }

    /// Records that the run was not abandoned.
    pub(super) fn done(mut self) {
        self.done = true;
    }
}

impl Drop for AbandonedRunGuard<'_> {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.done {
            return;
        }
        let (store, run, owner) = (self.store.clone(), self.run.to_owned(), self.owner.to_owned());
        let expected = (self.step)();
        runtime.spawn(async move {
            let pending = Json::Null;
            let step = RunStep {
                run: &run,
                owner: &owner,
                expected,
                messages: &[],
                checkpoint: None,
                status: RunStatus::Failed,
                pending: &pending,
                error: "the client disconnected before the run ended",
                kept: None,
            };
            // A run that failed has already recorded a later step.
            if let Err(error) = store.keep_step(&step).await {
                tracing::warn!(run, "cannot record that a run was abandoned: {error}");
            }
        });
    }
}
