//! The replay of a recorded request with the current chain, without a client and without lasting effects.

use crate::app::App;
use crate::snapshot::Snapshot;
use std::sync::Arc;
use std::time::Duration;
use valvehouse_config::Capability;
use valvehouse_core::chat::ChatRequest;
use valvehouse_core::context::{Context, Events, Turn, TurnFacts, begun_again};
use valvehouse_core::error::Error;
use valvehouse_core::kernel::{Kernel, Route, Routes, RunOptions};
use valvehouse_core::provider::{CannedProvider, Provider, Reply};
use valvehouse_core::tool::{Tool, ToolError, ToolResult};
use valvehouse_core::trace::{RequestFacts, StepRecord, Trace, Traces};
use valvehouse_json::Json;
use valvehouse_script::Sandbox;

/// The time limit of a replay.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The result of a tool that a replay must not run and that has no recorded call.
const NEVER_CALLED: &str =
    "a replay does not run this tool: it reaches outside, and no call with these arguments is recorded";

/// Replays the turn of a request and returns its trace. Its models answer as recorded, unless the sandbox reaches them.
///
/// # Errors
/// Returns the reason why the request cannot be replayed.
pub async fn replay_turn(app: &App, trace: &Trace, sandbox: &Sandbox) -> Result<Arc<Trace>, Error> {
    let body = trace.body().ok_or_else(|| Error::invalid("its request was not recorded", None))?;
    let request = ChatRequest::new(body.deep_clone())?;
    let is_live = sandbox.reaches(&[Capability::Llm]);
    if !is_live && !trace.is_whole() {
        return Err(Error::invalid(
            "its request was too large to be recorded in full; use --replay=live to call the model again",
            None,
        ));
    }
    let snapshot = app.host.snapshot();
    let model = body.text_or_empty("model");
    let (facts, context) = begun_again(trace);
    let ready = snapshot.ready(&model, &facts.filter_ids)?;
    let within = Arc::new(snapshot.within(sandbox));
    let stage = ReplayStage { snapshot: within, sandbox, is_live, records: Arc::new(trace.records()) };
    let kernel = stage.kernel(&ready.kernel, &model, &facts.filter_ids)?;

    // The trace is not added to the traces of the host.
    let request_facts =
        RequestFacts { endpoint: "replay", generation: snapshot.generation, ..trace.request.clone() };
    let mut recording = Traces::new(0).begin(request_facts, true);
    let played = recording.trace().clone();
    let own = Some(played.clone());
    let facts = TurnFacts { trace: own, model: ready.facts, models: ready.models, ..facts };
    let turn = Turn::new(facts, context, Events::default());
    let answer = kernel.run(request, RunOptions::new(turn).streamed(trace.request.stream)).answer();
    let replied = tokio::time::timeout(TIMEOUT, answer).await;
    let replied = replied
        .map_err(|_| Error::invalid(format!("it exceeded its limit of {} s", TIMEOUT.as_secs()), None))?;
    recording.answered(match replied {
        Ok(_) => 200,
        Err(error) => recording.failed(error).status(),
    });
    recording.done();
    Ok(played)
}

/// The parts of a turn that is replayed.
struct ReplayStage<'a> {
    /// The snapshot with all scripts in the sandbox.
    snapshot: Arc<Snapshot>,
    sandbox: &'a Sandbox,
    /// `true` if the models themselves answer, instead of the records.
    is_live: bool,
    records: Arc<Vec<StepRecord>>,
}

impl ReplayStage<'_> {
    /// Returns a kernel with sandboxed scripts and, unless models are live, recorded answers. It has the same
    /// tools as the real one, because requests list them.
    fn kernel(&self, real: &Kernel, model: &str, filters: &[String]) -> Result<Kernel, Error> {
        let ready = self.snapshot.ready(model, filters)?;
        let kernel = ready.kernel;
        let tools = real.toolbox().iter().map(|tool| self.tool(tool, kernel.find_tool(tool.name())));
        let own = kernel.provider().ok_or_else(|| Error::invalid("no provider serves its model", None))?;
        let provider: Arc<dyn Provider> = match self.is_live {
            true => own.clone(),
            false => Arc::new(recorded(own.name(), &self.records)),
        };
        let leads =
            Leads { snapshot: self.snapshot.clone(), recorded: (!self.is_live).then(|| provider.clone()) };
        Ok(kernel.replaying(tools.collect(), provider, Arc::new(leads)))
    }

    /// Returns a tool that runs again if it changes nothing outside, and otherwise repeats its recorded
    /// result.
    fn tool(&self, real: &Tool, dry: Option<&Tool>) -> Tool {
        let module = real.spec.module.as_deref();
        let script = module.and_then(|module| self.snapshot.plugins.get(module)?.script.as_ref());
        let may_run = script.is_some_and(|script| self.sandbox.reaches(&script.manifest.requirements));
        match dry.filter(|_| may_run) {
            Some(dry) => dry.clone(),
            None => {
                let (name, records) = (real.name().to_owned(), self.records.clone());
                let handler = move |args: Json, _: Context| std::future::ready(again(&name, &records, &args));
                let filters = dry.unwrap_or(real).filters.clone();
                let mut tool = Tool::new((*real.spec).clone(), handler);
                tool.filters = filters;
                tool
            }
        }
    }
}

/// Returns a provider that repeats the recorded answers of a request, call by call.
fn recorded(provider: &str, records: &[StepRecord]) -> CannedProvider {
    let error = |message: &str| Error::Provider { message: message.into(), timeout: false };
    let replies = records.iter().filter(|record| record.hook == "model" && !is_within(record, records));
    let replies = replies.map(|record| {
        let answer = record.details().model_answer.iter().map(Json::deep_clone);
        match (record.word, record.details().model_answer.as_slice()) {
            ("ended", [whole]) if !whole.at_path("choices.0.message").is_null() => {
                Reply::whole(whole.deep_clone())
            }
            ("ended", _) => Reply::chunks(answer),
            ("failed", _) => {
                let cause = record.details().cause.as_deref().unwrap_or("the model failed");
                Reply::chunks_then_error(answer, error(cause))
            }
            _ => Reply::chunks_then_error(
                answer,
                error("the recorded response of the model is incomplete; use --replay=live to call it again"),
            ),
        }
    });
    let more = "the model is called more often than it was recorded; use --replay=live to call it";
    CannedProvider::named(provider, replies.chain([Reply::error(error(more))]))
}

/// Returns `true` if a script made the call within a step of its own; a sandboxed script does not call
/// recorded models.
fn is_within(call: &StepRecord, records: &[StepRecord]) -> bool {
    let end = |record: &StepRecord| record.at + record.cost.took;
    let holds = |record: &StepRecord| {
        !matches!(record.hook, "model" | "stream") && record.at <= call.at && end(call) <= end(record)
    };
    records.iter().any(holds)
}

/// The routes of models in a replay.
struct Leads {
    snapshot: Arc<Snapshot>,
    /// The provider that answers for all models; `None` if they answer themselves.
    recorded: Option<Arc<dyn Provider>>,
}

impl Routes for Leads {
    fn route(&self, name: &str) -> Option<Route> {
        let kernel = self.snapshot.ready(name, &[]).ok()?.kernel;
        let provider = self.recorded.as_ref().or(kernel.provider())?.clone();
        Some(Route { provider, settings: kernel.settings().clone(), chain: kernel.chain().clone() })
    }
}

/// Returns the recorded result of a call of a tool with these arguments.
fn again(name: &str, records: &[StepRecord], args: &Json) -> Result<ToolResult, ToolError> {
    // The name of a tool follows that of its module if there is one.
    let mut own =
        records.iter().filter(|record| record.hook == "tool" && record.name.rsplit('/').next() == Some(name));
    let call = own.find_map(|record| {
        let (given, result) = record.details().values.first()?;
        (given == args).then_some((record, result))
    });
    match call {
        None => Err(NEVER_CALLED.into()),
        Some((record, Some(result))) if record.word == "ended" => Ok(result.deep_clone().into()),
        Some((record, _)) => Err(record.details().cause.as_deref().unwrap_or("the tool failed").into()),
    }
}
