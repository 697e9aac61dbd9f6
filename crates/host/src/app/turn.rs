//! Turns and runs of agents on the models of a host.

use super::lifecycle::App;
use crate::snapshot::{Ready, Snapshot};
use std::sync::Arc;
use tokio::sync::mpsc::Sender;
use valvehouse_agent::callbacks::Callbacks;
use valvehouse_agent::{Begin, Decision, Ended, Given, Saved, Setup};
use valvehouse_core::chat::ChatRequest;
use valvehouse_core::context::{Events, Turn};
use valvehouse_core::fault::Fault;
use valvehouse_core::kernel::{Reply, Wish};
use valvehouse_core::provider::Piece;
use valvehouse_json::Json;
use valvehouse_providers::Formatted;
use valvehouse_store::Run;

impl App {
    /// A turn of a model: remembered where the model has a memory and the turn a conversation, which `begun`
    /// hears of.
    pub async fn turn(
        &self,
        ready: &Ready,
        request: ChatRequest,
        turn: &Turn,
        wish: Wish,
        begun: impl FnOnce(&Run),
    ) -> Result<Reply, Fault> {
        let facts = turn.facts();
        if let Some(trace) = turn.trace() {
            trace.remember(|| begun_with(turn));
        }
        // Open WebUI has titles and tags made of a chat: that is not said in it.
        let is_task = turn.metadata().get("task").is_some_and(|task| !task.is_empty());
        if !ready.memory || facts.chat_id.is_empty() || is_task {
            return self.unremembered(ready, request, turn, wish).await;
        }
        let begin = Begin {
            conversation: facts.chat_id.clone(),
            request,
            facts: facts.clone(),
            context: turn.context().clone(),
            events: turn.events().clone(),
            stream: wish.stream,
            given: Given::Known,
            window: None,
        };
        // Turns without a memory do not carry the room of one along.
        let ended = Box::pin(self.runs.begin(&setup(ready), begin, begun)).await?;
        Ok(Reply::Answer(ended.reply))
    }

    /// A turn that is not stored. Those who listen to agents hear of it, and its answer has the form that the request
    /// asks for.
    async fn unremembered(
        &self,
        ready: &Ready,
        request: ChatRequest,
        turn: &Turn,
        wish: Wish,
    ) -> Result<Reply, Fault> {
        let is_formed = !ready.memory && Formatted::is_wanted(request.body());
        if ready.callbacks.is_empty() && !is_formed {
            return ready.kernel.turn(request, turn, wish).await;
        }
        let mut setup = setup(ready);
        if let Some(provider) = ready.kernel.provider().filter(|_| is_formed) {
            let formed = Formatted::new(provider.clone(), Formatted::RETRIES);
            setup.kernel = setup.kernel.with_provider(Arc::new(formed));
        }
        Box::pin(self.runs.unstored(&setup, request, turn, wish)).await
    }

    /// Goes on with a run that waits, failed, or whose host died.
    pub async fn resume(
        &self,
        run: &str,
        decision: &Decision,
        hash: Option<&str>,
        events: Events,
        stream: Option<Sender<Piece>>,
    ) -> Result<Ended, Fault> {
        let snapshot = self.host.snapshot();
        let setup = |saved: &Saved| setup_of(&snapshot, saved);
        self.runs.resume(run, decision, hash, setup, events, stream).await
    }
}

/// Returns what a turn was begun with: its facts, its model, and what is shared in it.
fn begun_with(turn: &Turn) -> Json {
    let facts = turn.facts().to_json();
    let parts = [
        ("model", turn.facts().model.clone()),
        ("metadata", turn.metadata().copy()),
        ("variables", turn.context().variables().copy()),
    ];
    for (name, part) in parts {
        // New values in a new object: they fit.
        let _ = facts.set(name, part);
    }
    facts
}

/// Returns what a stored run would resume with now.
pub fn setup_of(snapshot: &Snapshot, saved: &Saved) -> Result<Setup, Fault> {
    Ok(setup(&snapshot.ready(&saved.model(), &saved.filter_ids())?))
}

/// A model as its runs need it.
fn setup(ready: &Ready) -> Setup {
    Setup {
        id: ready.facts.text("id").unwrap_or_default().into(),
        kernel: ready.kernel.clone(),
        model: ready.facts.clone(),
        models: ready.models.clone(),
        name: ready.facts.text("name").unwrap_or_default().into(),
        callbacks: Callbacks::new(),
        listeners: ready.callbacks.clone(),
    }
}
