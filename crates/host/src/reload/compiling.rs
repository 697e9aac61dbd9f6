//! Files that take long to compile, beside the look that found them: they delay nobody else's change.

use super::super::plan::Plan;
use super::super::plugin::Given;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use valvehouse_core::lanes::STACK;
use valvehouse_script::{Problem, Read, Script, Settings};

/// The time for which a look waits for a file.
const SOON: Duration = Duration::from_millis(if cfg!(debug_assertions) { 2_000 } else { 100 });

type Compiled = Result<Script, Vec<Problem>>;

/// The files that are being compiled, by the ids of their plugins.
#[derive(Default)]
pub(super) struct Compiling(Mutex<HashMap<Arc<str>, Job>>);

struct Job {
    read: Read,
    given: Given,
    plan: Arc<Plan>,
    result: Receiver<Compiled>,
    /// It was asked for at the last look.
    is_wanted: bool,
}

impl Compiling {
    /// Forgets that files were asked for: a look begins.
    pub(super) fn begin(&self) {
        self.0.lock().values_mut().for_each(|job| job.is_wanted = false);
    }

    /// Forgets the files that the look did not ask for, and returns the ids of those that are left.
    pub(super) fn end(&self) -> Vec<Arc<str>> {
        let mut jobs = self.0.lock();
        jobs.retain(|_, job| job.is_wanted);
        jobs.keys().cloned().collect()
    }

    /// Compiles a file; returns `None` if that takes long. A later look gets the result.
    pub(super) fn soon(
        &self,
        read: &Read,
        given: &Given,
        plan: &Arc<Plan>,
        settings: &Settings,
    ) -> Option<Compiled> {
        let id = read.file.id.clone();
        let is_of = |job: &Job| {
            job.read.hash == read.hash
                && job.read.file.path == read.file.path
                && job.read.file.kind == read.file.kind
                && job.given == *given
                && Arc::ptr_eq(&job.plan, plan)
        };
        let known = self.0.lock().remove(&id).filter(is_of);
        let (mut job, patience) = match known {
            Some(job) => (job, Duration::ZERO),
            None => {
                let (sender, result) = channel();
                let (file, settings) = (read.file.clone(), settings.clone());
                let compile = move || {
                    // A look that found another text meanwhile does not wait for this one.
                    let _ = sender.send(Script::compile(&file, &settings));
                };
                let named = std::thread::Builder::new().name("compiles".into()).stack_size(STACK);
                if let Err(error) = named.spawn(compile) {
                    tracing::warn!("cannot compile {} apart: {error}", read.file.path.display());
                }
                let job = Job {
                    read: read.clone(),
                    given: given.clone(),
                    plan: plan.clone(),
                    result,
                    is_wanted: true,
                };
                (job, SOON)
            }
        };
        match job.result.recv_timeout(patience) {
            Ok(compiled) => Some(compiled),
            Err(RecvTimeoutError::Timeout) => {
                job.is_wanted = true;
                self.0.lock().insert(id, job);
                None
            }
            // There was no thread.
            Err(RecvTimeoutError::Disconnected) => Some(Script::compile(&read.file, settings)),
        }
    }
}
