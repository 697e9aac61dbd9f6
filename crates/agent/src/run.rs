//! The execution of one run until it ends or pauses, and the setup of an agent's runs.

use super::callbacks::{Notifier, Who};
use super::journal::{Keeper, RunJournal};
use super::saved::RunSnapshot;
use crate::callbacks::Callbacks;
use std::sync::Arc;
use tokio::sync::mpsc::Sender;
use valvehouse_core::callback::Listener;
use valvehouse_core::context::{Exchange, Turn, TurnFacts};
use valvehouse_core::error::Error;
use valvehouse_core::kernel::{Kernel, RunOptions, TurnAnswer};
use valvehouse_core::provider::StreamChunk;
use valvehouse_json::Json;

/// The inputs of a run.
pub(super) struct Drive<'a> {
    pub(super) setup: &'a Setup,
    /// The state of the run.
    pub(super) saved: RunSnapshot,
    /// The number of its messages that are already stored.
    pub(super) stored_messages: usize,
    pub(super) turn: Turn,
    pub(super) stream: Option<Sender<StreamChunk>>,
    /// The way in which the run starts.
    pub(super) opening: RunInput,
    /// The notifier of the callbacks.
    pub(super) notifier: Option<Arc<Notifier>>,
}

/// The way in which a run starts.
pub(super) enum RunInput {
    /// A new run with these messages.
    Begins(Json),
    /// A resumed run with this decision on its pending action.
    GoesOn { decision: Json, pending: Json },
}

/// The result of a run that ended or paused.
pub(super) struct RunEnd {
    /// The answer, or the text for a paused run.
    pub(super) answer: TurnAnswer,
    /// The pending action, or null.
    pub(super) pending: Json,
    /// The state of the run.
    pub(super) saved: RunSnapshot,
}

/// Executes a run until it ends or pauses.
pub(super) async fn drive(drive: Drive<'_>, keeper: &dyn Keeper) -> Result<RunEnd, Error> {
    let Drive { setup, saved, stored_messages, turn, stream, opening, notifier } = drive;
    let turn = match &notifier {
        Some(notifier) => notifier.watch(turn),
        None => turn,
    };
    turn.context().set_run(&setup.id, keeper.run());
    let tell = |tell: &dyn Fn(&Notifier)| notifier.as_deref().into_iter().for_each(tell);
    match &opening {
        RunInput::Begins(messages) => tell(&|notifier| notifier.started(messages)),
        RunInput::GoesOn { decision, pending } => {
            tell(&|notifier| notifier.resumed(decision, pending, setup.kernel.chain()));
        }
    }
    let progress = saved.progress.clone();
    let keeping = RunJournal::new(keeper, saved, stored_messages);
    let result = match keeping.decided().await {
        Ok(()) => {
            let options = RunOptions::new(turn).sending(stream).journal(&keeping);
            setup.kernel.run(progress, options).answer().await
        }
        Err(error) => Err(error),
    };
    match result {
        Ok(answer) => {
            let (pending, saved) = (keeping.pending(), keeping.saved());
            match pending.is_null() {
                true => tell(&|notifier| notifier.ended(&answer.text(), &answer.response)),
                false => tell(&|notifier| notifier.interrupted(&pending)),
            }
            Ok(RunEnd { answer, pending, saved })
        }
        Err(error) => {
            if let Err(unkept) = keeping.fail(&error).await {
                tracing::warn!(run = keeper.run(), "cannot record the failure of a run: {unkept}");
            }
            tell(&|notifier| notifier.failed(&error.to_string()));
            Err(error)
        }
    }
}

/// Creates the notifier of a run, if there are callbacks.
pub(super) fn notifier(setup: &Setup, run: &str, turn: &Turn) -> Option<Arc<Notifier>> {
    if setup.callbacks.is_empty() && setup.listeners.is_empty() {
        return None;
    }
    let who = Who { agent_id: setup.id.clone(), agent_name: setup.name.clone(), run_id: run.to_owned() };
    Some(Arc::new(Notifier::new(who, setup.callbacks.clone()).with_listeners(&setup.listeners, turn)))
}

/// The setup of an agent's runs.
pub struct Setup {
    /// The agent's id: a model's name in the configuration.
    pub id: String,
    /// The filters, tools and provider, including those of the middleware.
    pub kernel: Kernel,
    /// The model, as scripts see it.
    pub model: Json,
    /// All models, as scripts see them.
    pub models: Json,
    /// The agent's name, for callbacks.
    pub name: String,
    /// The callbacks in Rust.
    pub callbacks: Callbacks,
    /// The callbacks in scripts.
    pub listeners: Vec<Arc<dyn Listener>>,
    /// The exchange of the request that resumes a run; a new run has its own in its facts.
    pub exchange: Option<Arc<Exchange>>,
}

impl Setup {
    /// Returns the facts about models for a resumed turn.
    pub(super) fn known(&self) -> TurnFacts {
        TurnFacts {
            model: self.model.clone(),
            models: self.models.clone(),
            exchange: self.exchange.clone(),
            ..TurnFacts::default()
        }
    }
}
