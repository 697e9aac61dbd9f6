//! `llm::chat`: a script asks a model of this host.

use super::argument::effect;
use super::argument::{AnyArray, AnyMap, RhaiResultOf, fail, items, running, unfit};
use super::host_calls;
use super::reading::{Item, OpenAnswer};
use super::waiting::{Options, beside_each_other};
use crate::budget;
use crate::call::Call;
use crate::reach::Models;
use crate::value::{Shape, json_of, live};
use futures::StreamExt;
use rhai::{Array, Dynamic, Map, Module};
use std::sync::Arc;
use valvehouse_core::context::{Claim, Share};
use valvehouse_core::executor::Job;
use valvehouse_json::{Json, Object};

pub(super) fn module() -> Module {
    let mut module = Module::new();
    effect(
        "chat",
        &["request: map", "result"],
        "Sends a chat request to a model of this host: `llm::chat(#{ model: \"assistant\", messages: [#{ \
         role: \"user\", content: \"…\" }] })`.\n\
         Gives `#{ content, tool_calls, finish_reason, usage, model, id }`. The default `model` is that of \
         the turn.\n\
         The filters of that model run, except for those of this script.",
    )
    .set_into_module(&mut module, |request: AnyMap| chat("llm::chat", &request));
    effect(
        "all",
        &["requests: array", "Array"],
        "Sends several requests in parallel, each like llm::chat(), and returns the answers in order. At \
         most 8 run at a time. If one fails, the others are canceled and the error is thrown.",
    )
    .set_into_module(&mut module, |requests: AnyArray| all(&requests, &Map::new().into()));
    effect(
        "all",
        &["requests: array", "options: map", "Array"],
        "The same with the options of parallel(): `limit`, and `settle: true` for `#{ value }` or `#{ error }` of each.",
    )
    .set_into_module(&mut module, |requests: AnyArray, options: AnyMap| all(&requests, &options));
    effect(
        "stream",
        &["request: map", "stream"],
        "Sends a chat request to a model of this host and reads its answer as a stream: `for event in \
         llm::stream(#{ messages: body.messages }) { \
         yield_text(event.text); }`. The request is that of llm::chat().",
    )
    .set_into_module(&mut module, |request: AnyMap| stream(&request));
    module
}

/// The most questions to models that the scripts of one request have in progress at a time.
const MAX_QUESTIONS: usize = 256;

/// A question that may be asked.
struct Question {
    call: Call,
    claim: Claim,
    models: Arc<dyn Models>,
    request: Json,
}

impl Question {
    fn read(name: &str, request: &Dynamic) -> RhaiResultOf<Self> {
        let call = running(name)?;
        let models = call.reach.models.clone();
        let models = models.ok_or_else(|| {
            fail(
                name,
                "missing capability `llm`; add a line to the opening comment of the file: requirements: llm",
            )
        })?;
        if call.turn.facts().callers.iter().any(|caller| **caller == *call.caller.plugin) {
            return Err(fail(name, "cannot call a model from within a model call of the same script"));
        }
        let request = match json_of(request)? {
            request @ Json::Object(_) => request.copy(),
            _ => return Err(unfit(name, "request", "a map", request)),
        };
        let claim = call.turn.load().claim(Share::Questions, 1, MAX_QUESTIONS).map_err(|_| {
            fail(
                name,
                format!(
                    "the model calls of this request exceeded their limit of {MAX_QUESTIONS} at a time; \
                         send fewer in parallel"
                ),
            )
        })?;
        Ok(Self { call, claim, models, request })
    }
}

fn chat(name: &str, request: &Dynamic) -> RhaiResultOf<Dynamic> {
    let Question { call, claim: _claim, models, request } = Question::read(name, request)?;
    let plugin = call.caller.plugin.to_string();
    let answer = host_calls::once(
        name,
        || request.copy(),
        || {
            let asked = models.chat(plugin, request.copy(), call.turn.clone());
            budget::wait(&call.turn, asked)?.map_err(|fault| fail(name, fault))
        },
    )?;
    Ok(live(&answer, Shape::Message))
}

/// Asks several times beside each other.
fn all(requests: &Dynamic, options: &Dynamic) -> RhaiResultOf<Array> {
    const NAME: &str = "llm::all";
    let options = Options::read(NAME, options, &["limit", "settle"])?;
    let (limit, settles) = (options.limit()?, options.truth("settle")?);
    let requests = items(NAME, "requests", requests)?;
    let works = requests.iter().map(|request| Box::new(|| chat(NAME, request)) as Job<'_, _>);
    beside_each_other(NAME, works.collect(), limit, settles)
}

fn stream(request: &Dynamic) -> RhaiResultOf<OpenAnswer> {
    const NAME: &str = "llm::stream";
    let Question { call, claim, models, request } = Question::read(NAME, request)?;
    let plugin = call.caller.plugin.to_string();
    let mut events = None;
    host_calls::once(
        NAME,
        || request.copy(),
        || {
            let asked = models.stream(plugin, request.copy(), call.turn.clone());
            let asked = asked.map(move |event| {
                // It is in progress as long as it is read.
                let _ = &claim;
                event.map(Item::Event).map_err(|fault| fault.to_string())
            });
            events = Some(asked.boxed());
            Ok(())
        },
    )?;
    Ok(OpenAnswer::new(NAME, Object::default(), events))
}
