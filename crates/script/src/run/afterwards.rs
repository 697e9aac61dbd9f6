//! Work that scripts leave for after the answer: `after(|| …)` and `fn done(body)`.

use super::argument::UserValves;
use crate::declare::hooks::{DONE, Param};
use crate::script::Script;
use rhai::{Dynamic, FnPtr};
use std::sync::{Arc, Weak};
use valvehouse_core::BoxError;
use valvehouse_core::context::{FinishedChat, Turn, TurnFacts};
use valvehouse_core::error::PluginError;
use valvehouse_core::trace::Counting;
use valvehouse_dialect::call::Later;
use valvehouse_dialect::call::resources::{RunWork, Work};
use valvehouse_dialect::value::{Shape, live};
use valvehouse_json::Json;

/// A piece of such work.
enum Job {
    /// A function that was passed to `after`.
    Function(FnPtr),
    /// `done` with this body.
    Done(Json, Arc<UserValves>),
}

impl Job {
    fn name(&self) -> &'static str {
        match self {
            Self::Function(_) => "after",
            Self::Done(..) => DONE,
        }
    }
}

impl Script {
    /// Makes the script reachable from its calls, for work that they leave.
    pub(crate) fn may_leave_work(self: &Arc<Self>) {
        let this: Weak<Self> = Arc::downgrade(self);
        // Fails only if another filter or tool of the same script has set the same value.
        let _ = self.caller.script.set(this.clone());
        let _ = self.behind.script.set(this);
    }

    /// Schedules `done` for after the client of a turn has received its answer.
    pub(crate) fn leave_done(
        self: &Arc<Self>,
        users: &Arc<UserValves>,
        conversation: &Arc<FinishedChat>,
        turn: &Turn,
    ) {
        let Some(background) = self.settings.background.clone() else { return };
        let (script, users, conversation) = (self.clone(), users.clone(), conversation.clone());
        let behind = turn.behind();
        let hand_on = move || {
            let facts = behind.facts();
            let Some(body) = conversation.body(&facts.chat_id, &facts.message_id) else { return };
            let (bytes, origin, counting) = (body.size_estimate(), origin(facts), counting(facts));
            let (plugin, job) = (script.caller.plugin.clone(), Job::Done(body, users));
            let run: RunWork = Box::new(move |trace| Box::pin(script.work(job, behind.turn(trace))));
            background.put(Work { plugin, what: DONE, bytes, origin, counting, run });
        };
        // A model call made by such work does not schedule more work.
        if let Err(why) = turn.afterwards().leave_hook(hand_on) {
            tracing::debug!(plugin = self.id(), "`{DONE}` does not run: {why}");
        }
    }

    /// Does a piece of work.
    async fn work(self: Arc<Self>, job: Job, turn: Turn) -> Result<(), PluginError> {
        let (name, budget) = (job.name(), self.budget_behind());
        let input = match &job {
            Job::Done(body, _) => Some(body.clone()),
            Job::Function(_) => None,
        };
        let worked = self.call_in_background(name, budget, turn, input, move |script, turn| match &job {
            Job::Function(function) => function.call::<Dynamic>(&script.engine, &script.ast, ()).map(drop),
            Job::Done(body, users) => {
                let params = script.done.iter().flatten().map(|param| match param {
                    Param::Subject => live(body, Shape::Body),
                    param => script.argument(*param, turn, users),
                });
                script.evaluate(name, params.collect()).map(drop)
            }
        });
        worked.await
    }
}

impl Later for Script {
    fn leave(self: Arc<Self>, function: FnPtr, bytes: usize, turn: &Turn) -> Result<(), BoxError> {
        let background = self.settings.background.clone();
        let background = background.ok_or("`after` is not available in this program")?;
        let behind = turn.behind();
        let afterwards = turn.afterwards().leave(bytes, move || {
            let facts = behind.facts();
            let (origin, counting) = (origin(facts), counting(facts));
            let (plugin, job) = (self.caller.plugin.clone(), Job::Function(function));
            let what = job.name();
            let run: RunWork = Box::new(move |trace| Box::pin(self.work(job, behind.turn(trace))));
            background.put(Work { plugin, what, bytes, origin, counting, run });
        });
        afterwards.map_err(|why| why.to_string().into())
    }
}

/// Returns the count of what the work of a turn uses.
fn counting(facts: &TurnFacts) -> Counting {
    facts.exchange.as_ref().map_or_else(Counting::default, |exchange| exchange.counting())
}

/// Returns the origin of work: the ids of the model, the user and the conversation.
fn origin(facts: &TurnFacts) -> [String; 3] {
    [facts.model.string("id"), facts.user.string("id"), facts.chat_id.clone()]
}
