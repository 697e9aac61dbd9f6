//! `llm::chat`: a script calls a model of this host.

use super::argument::{AnyArray, AnyMap, RhaiResultOf, effect, fail, items, running, unfit};
use super::host_calls;
use super::reading::{Item, OpenAnswer};
use super::records::charge_embedding;
use super::waiting::{Options, beside_each_other};
use futures::StreamExt;
use rhai::{Array, Dynamic, Map, Module};
use std::sync::Arc;
use valvehouse_core::context::{Claim, Share, Turn};
use valvehouse_dialect::budget;
use valvehouse_dialect::call::Call;
use valvehouse_dialect::call::resources::{EmbedRequest, Models, Question};
use valvehouse_dialect::value::{Shape, json_of, live};
use valvehouse_executor::Job;
use valvehouse_json::{Json, Object};

pub(super) fn module() -> Module {
    let mut module = Module::new();
    effect(
        "chat",
        &["request: map", "result"],
        "Sends a chat request to a model of this host: `llm::chat(#{ model: \"assistant\", messages: [#{ \
         role: \"user\", content: \"…\" }] })`.\n\
         Returns `#{ content, tool_calls, finish_reason, usage, model, id }`. The default `model` is that of \
         the turn.\n\
         The filters of that model run, except for those of this script.",
    )
    .set_into_module(&mut module, |request: AnyMap| chat("llm::chat", &request, &Map::new().into()));
    effect(
        "chat",
        &["request: map", "options: map", "result"],
        "Like `llm::chat` with an option: `filters: false` runs no filters but guards.",
    )
    .set_into_module(&mut module, |request: AnyMap, options: AnyMap| chat("llm::chat", &request, &options));
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
        "Like `llm::all` with the options of parallel(): `limit`, and `settle: true` for `#{ value }` or `#{ error }` of each.",
    )
    .set_into_module(&mut module, |requests: AnyArray, options: AnyMap| all(&requests, &options));
    effect(
        "stream",
        &["request: map", "stream"],
        "Sends a chat request to a model of this host and reads its answer as a stream: `for event in \
         llm::stream(#{ messages: body.messages }) { \
         yield_text(event.text); }`. The request is that of llm::chat().",
    )
    .set_into_module(&mut module, |request: AnyMap| stream(&request, &Map::new().into()));
    effect(
        "stream",
        &["request: map", "options: map", "stream"],
        "Like `llm::stream` with the option `filters` of llm::chat().",
    )
    .set_into_module(&mut module, |request: AnyMap, options: AnyMap| stream(&request, &options));
    effect(
        "embed",
        &["texts", "array"],
        "Returns the vector of a text as an array of numbers, or the vectors of an array of at most 256 texts, in \
         order. The default model is `embeddings.model` of the settings; without one the host computes vectors that \
         compare words. Filters of the endpoint `embeddings` run, except for this script.",
    )
    .set_into_module(&mut module, |texts: Dynamic| embed(&texts, &Map::new().into()));
    effect(
        "embed",
        &["texts", "options: map", "array"],
        "Like `llm::embed` with an option: `model`, a model of this host that serves /v1/embeddings. Vectors of different \
         models cannot be compared.",
    )
    .set_into_module(&mut module, |texts: Dynamic, options: AnyMap| embed(&texts, &options));
    module
}

/// The maximum number of texts in one call, and their maximum size in bytes.
const MAX_TEXTS: usize = 256;
const MAX_TEXT_BYTES: usize = 2 << 20;

/// The maximum number of concurrent model calls by the scripts of one request.
const MAX_QUESTIONS: usize = 256;

/// A model call that is allowed.
struct ModelCall {
    claim: Claim,
    turn: Turn,
    models: Arc<dyn Models>,
    question: Question,
}

/// The permission to call models.
struct Right {
    call: Call,
    claim: Claim,
    models: Arc<dyn Models>,
}

impl Right {
    fn of(name: &str) -> RhaiResultOf<Self> {
        let call = running(name)?;
        let models = call.resources.models.clone();
        let models = models.ok_or_else(|| {
            fail(
                name,
                "missing capability `llm`; add a line to the opening comment of the file: requirements: llm",
            )
        })?;
        if call.turn.facts().callers.iter().any(|caller| **caller == *call.caller.plugin) {
            return Err(fail(name, "cannot call a model from within a model call of the same script"));
        }
        let claim = call.turn.load().claim(Share::Questions, 1, MAX_QUESTIONS).map_err(|_| {
            fail(
                name,
                format!(
                    "the model calls of this request exceeded their limit of {MAX_QUESTIONS} at a time; \
                         send fewer in parallel"
                ),
            )
        })?;
        Ok(Self { call, claim, models })
    }
}

impl ModelCall {
    fn read(name: &str, request: &Dynamic, options: &Dynamic) -> RhaiResultOf<Self> {
        let options = Options::read(name, options, &["filters"])?;
        let filters = options.value("filters").is_none() || options.truth("filters")?;
        let Right { call, claim, models } = Right::of(name)?;
        let request = match json_of(request)? {
            request @ Json::Object(_) => request.deep_clone(),
            _ => return Err(unfit(name, "request", "a map", request)),
        };
        let (plugin, turn) = (call.caller.plugin.to_string(), call.turn.clone());
        Ok(Self { claim, turn: call.turn, models, question: Question { plugin, request, turn, filters } })
    }
}

fn embed(given: &Dynamic, options: &Dynamic) -> RhaiResultOf<Dynamic> {
    const NAME: &str = "llm::embed";
    let options = Options::of(NAME, options)?;
    let model = match options.value("model").map(Dynamic::into_immutable_string) {
        None => None,
        Some(Ok(model)) => Some(model.to_string()),
        Some(Err(_)) => return Err(options.wrong("`model` must be a text")),
    };
    let (texts, is_one) = match json_of(given)? {
        Json::Text(text) => (vec![text.to_string()], true),
        Json::Array(list) => {
            let items = list.items();
            let texts: Option<Vec<String>> =
                items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
            (texts.ok_or_else(|| fail(NAME, "`texts` must be a text or an array of texts"))?, false)
        }
        _ => return Err(unfit(NAME, "texts", "a text or an array of texts", given)),
    };
    if texts.len() > MAX_TEXTS {
        return Err(fail(
            NAME,
            format!("exceeded its limit of {MAX_TEXTS} texts; embed them in several calls"),
        ));
    }
    let bytes: usize = texts.iter().map(String::len).sum();
    if bytes > MAX_TEXT_BYTES {
        let most = MAX_TEXT_BYTES >> 20;
        return Err(fail(
            NAME,
            format!("the texts exceeded their limit of {most} MiB; embed them in several calls"),
        ));
    }
    let Right { call, claim: _claim, models } = Right::of(NAME)?;
    let count = texts.len();
    let arguments: Json = texts.iter().map(|text| text.as_str().into()).collect::<Vec<Json>>().into();
    let vectors: Json = host_calls::once(
        NAME,
        || arguments,
        || {
            if texts.is_empty() {
                return Ok(Json::array());
            }
            let plugin = call.caller.plugin.to_string();
            let request = EmbedRequest { texts: texts.clone(), model: model.clone() };
            let reply = models.embed(plugin, request, call.turn.clone());
            let embedded = budget::wait(&call.turn, reply)?.map_err(|error| fail(NAME, error))?;
            charge_embedding(&embedded, bytes)?;
            if embedded.vectors.len() != count {
                let vectors = embedded.vectors.len();
                return Err(fail(NAME, format!("the model returned {vectors} vectors for {count} texts")));
            }
            let numbers: usize = embedded.vectors.iter().map(Vec::len).sum();
            budget::charge(numbers as u64 / 64).map_err(budget::ended)?;
            budget::reserve(numbers * size_of::<Json>()).map_err(budget::ended)?;
            let vectors = embedded.vectors.into_iter();
            let vectors = vectors.map(|vector| {
                vector.into_iter().map(|part| f64::from(part).into()).collect::<Vec<Json>>().into()
            });
            Ok(vectors.collect::<Vec<Json>>().into())
        },
    )?;
    let shown = if is_one { vectors.at(0).into() } else { vectors };
    Ok(live(&shown, Shape::Plain))
}

fn chat(name: &str, request: &Dynamic, options: &Dynamic) -> RhaiResultOf<Dynamic> {
    let ModelCall { claim: _claim, turn, models, question } = ModelCall::read(name, request, options)?;
    let request = question.request.deep_clone();
    let answer = host_calls::once(
        name,
        || request,
        || budget::wait(&turn, models.chat(question))?.map_err(|error| fail(name, error)),
    )?;
    Ok(live(&answer, Shape::Message))
}

/// Calls models concurrently.
fn all(requests: &Dynamic, options: &Dynamic) -> RhaiResultOf<Array> {
    const NAME: &str = "llm::all";
    let options = Options::of(NAME, options)?;
    let (limit, settles) = (options.limit()?, options.truth("settle")?);
    let requests = items(NAME, "requests", requests)?;
    let none = Map::new().into();
    let works = requests.iter().map(|request| Box::new(|| chat(NAME, request, &none)) as Job<'_, _>);
    beside_each_other(NAME, works.collect(), limit, settles)
}

fn stream(request: &Dynamic, options: &Dynamic) -> RhaiResultOf<OpenAnswer> {
    const NAME: &str = "llm::stream";
    let ModelCall { claim, models, question, .. } = ModelCall::read(NAME, request, options)?;
    let request = question.request.deep_clone();
    let mut events = None;
    host_calls::once(
        NAME,
        || request,
        || {
            let replies = models.stream(question);
            let replies = replies.map(move |event| {
                // The claim is held as long as the answer is read.
                let _ = &claim;
                event.map(Item::Event).map_err(|error| error.to_string())
            });
            events = Some(replies.boxed());
            Ok(())
        },
    )?;
    Ok(OpenAnswer::new(NAME, Object::default(), events))
}
