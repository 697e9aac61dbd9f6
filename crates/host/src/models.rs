//! Calls of models and tools by scripts, through the host.

use crate::embeddings;
use crate::snapshot::Snapshot;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use std::fmt;
use std::sync::{Arc, OnceLock};
use valvehouse_core::chat::ChatRequest;
use valvehouse_core::context::{Turn, TurnFacts};
use valvehouse_core::error::Error;
use valvehouse_core::kernel::{Kernel, RunOptions, TurnEvent};
use valvehouse_core::tool::{Tool, ToolSpec};
use valvehouse_dialect::call::resources::{EmbedRequest, Embeddings, HostTools, Models, Question};
use valvehouse_json::Json;
use valvehouse_script::Kind;

/// Returns the current snapshot; `None` after its host ended.
type InForce = Box<dyn Fn() -> Option<Arc<Snapshot>> + Send + Sync>;

/// The access of scripts to the models of their host; it is set once everything is loaded.
#[derive(Default)]
pub(crate) struct ScriptModels(OnceLock<InForce>);

impl ScriptModels {
    /// Connects the scripts to the current snapshot of a host.
    pub(crate) fn at(&self, in_force: impl Fn() -> Option<Arc<Snapshot>> + Send + Sync + 'static) {
        // There is one host, which calls this once.
        let _ = self.0.set(Box::new(in_force));
    }
}

impl fmt::Debug for ScriptModels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() {
            "ScriptModels(connected)"
        } else {
            "ScriptModels(not connected)"
        })
    }
}

impl Models for ScriptModels {
    fn chat(&self, question: Question) -> BoxFuture<'static, Result<Json, Error>> {
        let snapshot = self.0.get().and_then(|in_force| in_force());
        Box::pin(async move {
            let snapshot = snapshot.ok_or_else(no_host)?;
            ask(&snapshot, &question).await
        })
    }

    fn stream(&self, question: Question) -> BoxStream<'static, Result<Json, Error>> {
        let snapshot = self.0.get().and_then(|in_force| in_force());
        match events(snapshot, &question) {
            Ok(events) => events,
            Err(error) => stream::once(std::future::ready(Err(error))).boxed(),
        }
    }

    fn embed(
        &self,
        plugin: String,
        request: EmbedRequest,
        turn: Turn,
    ) -> BoxFuture<'static, Result<Embeddings, Error>> {
        let snapshot = self.0.get().and_then(|in_force| in_force());
        Box::pin(async move {
            let snapshot = snapshot.ok_or_else(no_host)?;
            embeddings::embed(&snapshot, plugin, request, &turn).await
        })
    }
}

impl HostTools for ScriptModels {
    fn tools(&self, is_meant: &dyn Fn(&ToolSpec) -> bool) -> Vec<Tool> {
        let snapshot = self.0.get().and_then(|in_force| in_force());
        let tools = snapshot.iter().flat_map(|snapshot| &snapshot.tools);
        tools.filter(|tool| is_meant(&tool.spec)).cloned().collect()
    }
}

/// Returns the kernel of the called model without the script's own filter, and the turn of the call.
fn asked(snapshot: &Snapshot, question: &Question) -> Result<(Kernel, Turn), Error> {
    let Question { plugin, request, turn, filters } = question;
    let own_model = || turn.facts().model.text("id");
    let model = request.text("model").or_else(own_model).map(String::from);
    let missing =
        || Error::invalid("missing model: none is configured, and the request names none", Some("model"));
    let model = model.or_else(|| snapshot.model_names().into_iter().next()).ok_or_else(missing)?;
    // The object is new and not shared.
    request.edit("model", model.as_str());
    request.remove("stream");
    let ready = snapshot.ready(&model, &[])?;
    let callers = [turn.facts().callers.clone(), vec![plugin.clone()]].concat();
    let mut left_out = callers.clone();
    if !filters {
        // Guards always run.
        let is_plain = |id: &&str| {
            let plugin = snapshot.plugins.get(*id).filter(|plugin| plugin.kind == Kind::Filter);
            plugin.is_some_and(|plugin| !plugin.security && plugin.refusal().is_none())
        };
        let chain = ready.kernel.chain().filters().iter();
        left_out.extend(chain.map(|filter| filter.name()).filter(is_plain).map(str::to_owned));
    }
    let kernel = ready.kernel.without(&left_out);
    let facts = turn.facts().clone();
    let exchange = facts.exchange.as_ref().map(|exchange| Arc::new(exchange.beside()));
    let facts = TurnFacts {
        model: ready.facts,
        models: ready.models,
        callers,
        states: None,
        exchange,
        load: Some(turn.load().clone()),
        nesting: turn.nesting(),
        ..facts
    };
    Ok((kernel, Turn::new(facts, turn.context().fork(), turn.events().clone())))
}

fn events(
    snapshot: Option<Arc<Snapshot>>,
    question: &Question,
) -> Result<BoxStream<'static, Result<Json, Error>>, Error> {
    let snapshot = snapshot.ok_or_else(no_host)?;
    let (kernel, own) = asked(&snapshot, question)?;
    let request = ChatRequest::new(question.request.clone())?;
    let answer = kernel.run(request, RunOptions::new(own).streamed(true));
    // The turn runs while the stream is read; an error follows its last event.
    let events = answer.filter_map(|event| async {
        match event {
            Ok(TurnEvent::Chunk(chunk)) => Some(Ok(chunk.event)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        }
    });
    Ok(events.boxed())
}

fn no_host() -> Error {
    Error::Host("cannot call a model: no host is running".into())
}

async fn ask(snapshot: &Snapshot, question: &Question) -> Result<Json, Error> {
    let (kernel, own) = asked(snapshot, question)?;
    let chat = ChatRequest::new(question.request.clone())?;
    let answer = kernel.run(chat, RunOptions::new(own)).answer().await?;
    Ok(Question::answer(&answer.reply))
}
