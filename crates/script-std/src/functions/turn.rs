//! Functions of the running turn: events, questions, the log.

use super::argument::effect;
use super::host_calls;
use rhai::{
    Dynamic, EvalAltResult, FnNamespace, FuncRegistration, Module, NativeCallContext, Position, RhaiFunc,
    Shared,
};
use std::any::TypeId;
use std::time::Duration;
use valvehouse_core::context::NobodyAnswers;
use valvehouse_core::kernel;
use valvehouse_dialect::answer::ThrownError;
use valvehouse_dialect::standard::shortened_text;
use valvehouse_dialect::value::{Shape, error, json_of, live};
use valvehouse_dialect::{budget, call};
use valvehouse_json::{Json, Object};

type Answer<T> = Result<T, Box<EvalAltResult>>;

/// The default timeout of a question, in milliseconds.
const ASK_TIMEOUT_MS: i64 = 60_000;
/// The maximum number of values in one call of `print` or `debug`: the engine resolves a function of several values
/// once per combination of their types.
pub const MAX_PRINTED: usize = 8;

pub(crate) fn register(module: &mut Module) {
    fn global(name: &'static str, params: &[&str], comment: &str) -> FuncRegistration {
        FuncRegistration::new(name)
            .with_namespace(FnNamespace::Global)
            .with_params_info(params)
            .with_comments([comment])
    }
    for name in ["emit", "__event_emitter__"] {
        let about = match name {
            "emit" => {
                "/// Sends an event `#{ type, data }` to the client: `emit(#{ type: \"status\", data: #{ \
                 description: \"Searching\", done: false } })`."
            }
            _ => "/// Sends an event, like emit(), under Open WebUI's name.",
        };
        global(name, &["event: map"], about).set_into_module(module, |event: Dynamic| send_event(&event));
    }
    for name in ["ask", "__event_call__"] {
        let about = match name {
            "ask" => {
                "/// Sends a question `#{type, data, timeout?}` to the client and waits for the answer of a \
                 person. `timeout` is in ms, 60 000 by default."
            }
            _ => "/// Sends a question and waits for the answer, like ask(), under Open WebUI's name.",
        };
        global(name, &["question: map", "any"], about)
            .set_into_module(module, |question: Dynamic| ask(&question));
    }
    let holds = "/// Delays the stream of this request until all filters have run, as `hold: true` does for every request. \
                 Call it in `inlet`.";
    global("hold_answer", &[], holds).set_into_module(module, || {
        if let Some(call) = call::current() {
            kernel::hold_answer(&call.turn);
        }
    });
    print_several(module);
    let yields = "/// Sends a text as the next chunk of a pipe's answer; the client receives it at once.";
    global("yield_text", &["text"], yields)
        .set_into_module(module, |text: Dynamic| send_chunk("yield_text", &text));
    let yields = "/// Sends the next chunk of a pipe's answer: a text, an event of llm::stream(), `#{ reasoning_content }`, \
                  `#{ tool_calls }` …";
    global("yield_piece", &["chunk"], yields)
        .set_into_module(module, |chunk: Dynamic| send_chunk("yield_piece", &chunk));
    // Rhai's own `sleep` would ignore every budget; it has an overload per kind of number.
    let comment = "/// Not available: write `time::sleep(milliseconds)`.";
    global("sleep", &["seconds"], comment).set_into_module(module, |_seconds: i64| no_sleep());
    global("sleep", &["seconds"], comment).set_into_module(module, |_seconds: f64| no_sleep());
}

fn send_event(event: &Dynamic) -> Answer<()> {
    let event = checked_event(event)?;
    if is_of_model() {
        return Err(error("cannot send an event from code of a model; return the value instead"));
    }
    if !call::was_reported()
        && let Some(call) = call::current()
    {
        call.turn.emit(&call.caller.plugin, event).map_err(|unsent| error(unsent.to_string()))?;
    }
    Ok(())
}

/// Returns `true` if a model wrote the running code: filters see its result, but would not see the events it sends.
fn is_of_model() -> bool {
    call::current().is_some_and(|call| call.resources.of_model.is_some())
}

fn ask(question: &Dynamic) -> Answer<Dynamic> {
    let event = checked_event(question)?;
    if is_of_model() {
        return Err(error("cannot ask a person from code of a model; ask in the answer"));
    }
    // A copy, so that the script's own map keeps its `timeout`.
    let fields = event.entries();
    let event = Json::from(fields.into_iter().collect::<Object>());
    let timeout = event.remove("timeout").and_then(|ms| ms.as_i64()).unwrap_or(ASK_TIMEOUT_MS);
    let Some(call) = call::current() else { return Err(error("cannot ask a person outside of a turn")) };
    let timeout = Duration::from_millis(u64::try_from(timeout).unwrap_or(0));
    let pending = call.turn.ask(&call.caller.plugin, event, timeout);
    let answer = budget::wait_for_person(&call.turn, pending)?;
    if answer == Err(NobodyAnswers::Paused) {
        return Err(budget::ended(budget::ExceededLimit::Paused));
    }
    answer.map(|answer| live(&answer, Shape::Plain)).map_err(|nobody| unanswered(&nobody))
}

/// Creates the error of an unanswered question. A client without events or a slow person is not a fault of the
/// script.
fn unanswered(nobody: &NobodyAnswers) -> Box<EvalAltResult> {
    let status = match nobody {
        NobodyAnswers::NoListener | NobodyAnswers::Gone => 400,
        NobodyAnswers::Timeout(_) => 408,
        NobodyAnswers::Paused | NobodyAnswers::Unsent(_) => return error(nobody.to_string()),
    };
    ThrownError::unanswered(nobody.to_string(), status).into_error(Position::NONE)
}

/// Registers `print` and `debug` with several values, separated by blanks; the engine prints the returned text.
fn print_several(module: &mut Module) {
    fn joined(values: &[&Dynamic]) -> String {
        let most = valvehouse_dialect::call::log::PRINTED_BYTES;
        let lines = values.iter().map(|value| {
            let mut line = line_of(value);
            line.truncate(line.floor_char_boundary(most));
            line
        });
        lines.collect::<Vec<_>>().join(" ")
    }
    fn several(name: &'static str, params: &[&str]) -> FuncRegistration {
        let about = "/// Writes several values as one line to the log, separated by blanks.";
        FuncRegistration::new(name)
            .with_namespace(FnNamespace::Global)
            .with_params_info(params)
            .with_comments([about])
    }
    for name in ["print", "debug"] {
        several(name, &[]).set_into_module(module, String::new);
        for count in 2..=MAX_PRINTED {
            let params: Vec<String> = (1..=count).map(|place| format!("value_{place}: any")).collect();
            let params: Vec<&str> = params.iter().map(String::as_str).collect();
            let print = |_: Option<NativeCallContext<'_>>, values: &mut [&mut Dynamic]| {
                Ok(Dynamic::from(joined(&values.iter().map(|value| &**value).collect::<Vec<_>>())))
            };
            let func = RhaiFunc::Pure {
                func: Shared::new(print),
                has_context: false,
                is_pure: true,
                is_volatile: true,
            };
            several(name, &params).set_into_module_raw(module, vec![TypeId::of::<Dynamic>(); count], func);
        }
    }
}

fn send_chunk(name: &str, chunk: &Dynamic) -> Answer<()> {
    let out = call::current().and_then(|call| call.out);
    let out = out.ok_or_else(|| error(format!("{name}: cannot send a chunk outside of `fn pipe(body)`")))?;
    let chunk = json_of(chunk)?;
    // An event may have no text, for example at the end.
    if chunk == Json::Null || chunk.as_str().is_some_and(str::is_empty) {
        return Ok(());
    }
    out.chunk(&chunk)
}

fn no_sleep() -> Answer<()> {
    Err(error("cannot sleep in seconds: write time::sleep(milliseconds), as in time::sleep(1_000)"))
}

fn checked_event(event: &Dynamic) -> Answer<Json> {
    let event = json_of(event)?;
    match event.get("type") {
        Some(Json::Text(_)) => Ok(event),
        _ => Err(error(
            "invalid event: expected a map with a `type`, such as `#{ type: \"status\", data: #{ … } }`",
        )),
    }
}

/// The module with `models::list()` and `models::get(id)`.
pub(super) fn models() -> Module {
    fn all() -> Json {
        call::current().map(|call| call.turn.facts().models.clone()).into()
    }
    let mut module = Module::new();
    effect("list", &["array"], "Returns the models of this host, a list of `#{ id, name, provider }` with their properties in the settings: \
         `description`, `abilities`, `context_length` (tokens), `price` (of a million tokens, `#{ input, output }`).")
        .set_into_module(&mut module, || match all() {
            Json::Null => live(&Json::array(), Shape::Plain),
            models => live(&models, Shape::Plain),
        });
    effect("get", &["id: &str", "__model__"], "Returns the properties of a model, `()` for an unknown one.")
        .set_into_module(&mut module, |id: &str| {
            let found = all().items().into_iter().find(|model| model.text("id").is_some_and(|own| own == id));
            live(&found.into(), Shape::Plain)
        });
    module
}

/// The module with `log::info` and the other levels.
pub(super) fn log() -> Module {
    let mut module = Module::new();
    for (name, level) in [
        ("debug", tracing::Level::DEBUG),
        ("info", tracing::Level::INFO),
        ("warn", tracing::Level::WARN),
        ("error", tracing::Level::ERROR),
    ] {
        FuncRegistration::new(name)
            .with_params_info(["value"])
            .with_comments([format!("/// Writes a line of level `{name}` to the log.")])
            .set_into_module(&mut module, move |value: Dynamic| {
                valvehouse_dialect::call::log::log(level, &line_of(&value))
            });
    }
    module
}

/// Returns a value as a line of the log: containers as JSON.
fn line_of(value: &Dynamic) -> String {
    match json_of(value) {
        Ok(json @ (Json::Array(_) | Json::Object(_))) => json.to_string(),
        _ => shortened_text(value, valvehouse_dialect::call::log::PRINTED_BYTES),
    }
}

/// Returns the milliseconds since the turn began.
pub(crate) fn elapsed_ms() -> i64 {
    host_calls::value("time::elapsed_ms", elapsed)
}

fn elapsed() -> i64 {
    call::current().map_or(0, |call| call.resources.clock.elapsed_ms(&call.turn))
}
