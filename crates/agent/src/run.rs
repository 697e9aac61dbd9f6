//! One run, from where it stands until it ends or waits for a person.
//!
//! The settings of an agent's runs.

use super::callbacks::{Teller, Who};
use super::journal::{Keeper, Keeping};
use super::saved::RunSnapshot;
use crate::callbacks::Callbacks;
use std::sync::Arc;
use tokio::sync::mpsc::Sender;
use valvehouse_core::callback::Listener;
use valvehouse_core::context::{Exchange, Turn, TurnFacts};
use valvehouse_core::fault::Fault;
use valvehouse_core::kernel::{Kernel, RunOptions, TurnAnswer};
use valvehouse_core::provider::Piece;
use valvehouse_json::Json;

/// A run to drive.
pub(super) struct Drive<'a> {
    pub(super) setup: &'a Setup,
    /// The state of the run.
    pub(super) saved: RunSnapshot,
    /// The number of its messages that are kept.
    pub(super) said: usize,
    pub(super) turn: Turn,
    pub(super) stream: Option<Sender<Piece>>,
    /// The way in which it comes to be driven.
    pub(super) opening: Opening,
    /// The notifier of its listeners.
    pub(super) teller: Option<Arc<Teller>>,
}

/// The way in which a run begins or goes on.
pub(super) enum Opening {
    /// With these messages.
    Begins(Json),
    /// With this decision on what it waited for.
    GoesOn { decision: Json, pending: Json },
}

/// The end of a run, for now.
pub(super) struct RunEnd {
    /// The answer, or what stands in its place.
    pub(super) answer: TurnAnswer,
    /// The action that it waits for, or null.
    pub(super) pending: Json,
    /// The state of the run.
    pub(super) saved: RunSnapshot,
}

/// Runs it.
pub(super) async fn drive(drive: Drive<'_>, keeper: &dyn Keeper) -> Result<RunEnd, Fault> {
    let Drive { setup, saved, said, turn, stream, opening, teller } = drive;
    let turn = match &teller {
        Some(teller) => teller.watch(turn),
        None => turn,
    };
    let tell = |tell: &dyn Fn(&Teller)| teller.as_deref().into_iter().for_each(tell);
    match &opening {
        Opening::Begins(messages) => tell(&|teller| teller.started(messages)),
        Opening::GoesOn { decision, pending } => {
            tell(&|teller| teller.resumed(decision, pending, setup.kernel.chain()));
        }
    }
    let progress = saved.progress.clone();
    let keeping = Keeping::new(keeper, saved, said);
    let result = match keeping.decided().await {
        Ok(()) => {
            let options = RunOptions::new(turn).sending(stream).journal(&keeping);
            setup.kernel.run(progress, options).answer().await
        }
        Err(fault) => Err(fault),
    };
    match result {
        Ok(answer) => {
            let (pending, saved) = (keeping.pending(), keeping.saved());
            match pending.is_null() {
                true => tell(&|teller| teller.ended(&answer.text(), &answer.response)),
                false => tell(&|teller| teller.interrupted(&pending)),
            }
            Ok(RunEnd { answer, pending, saved })
        }
        Err(fault) => {
            if let Err(unkept) = keeping.fail(&fault).await {
                tracing::warn!(run = keeper.run(), "failed to note that a run failed: {unkept}");
            }
            tell(&|teller| teller.failed(&fault.to_string()));
            Err(fault)
        }
    }
}

/// The notifier of a run, where anybody listens.
pub(super) fn teller(setup: &Setup, run: &str, turn: &Turn) -> Option<Arc<Teller>> {
    if setup.callbacks.is_empty() && setup.listeners.is_empty() {
        return None;
    }
    let who = Who { agent_id: setup.id.clone(), agent_name: setup.name.clone(), run_id: run.to_owned() };
    Some(Arc::new(Teller::new(who, setup.callbacks.clone()).with_listeners(&setup.listeners, turn)))
}

/// The parts that a run runs with.
pub struct Setup {
    /// The agent: a model's name in the configuration.
    pub id: String,
    /// Filters, tools and provider, the middleware's among them.
    pub kernel: Kernel,
    /// The model, as scripts see it.
    pub model: Json,
    /// All models, as scripts see them.
    pub models: Json,
    /// Its name, for callbacks.
    pub name: String,
    /// Closures that are told what it does.
    pub callbacks: Callbacks,
    /// Scripts that are told.
    pub listeners: Vec<Arc<dyn Listener>>,
    /// The outer side of the request that goes on with a run; one that begins has its own in its facts.
    pub exchange: Option<Arc<Exchange>>,
}

impl Setup {
    /// The facts about models that a resumed turn knows.
    pub(super) fn known(&self) -> TurnFacts {
        TurnFacts {
            model: self.model.clone(),
            models: self.models.clone(),
            exchange: self.exchange.clone(),
            ..TurnFacts::default()
        }
    }
}
