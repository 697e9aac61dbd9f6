//! Calls the script under test: its hooks, streams, whole turns, tools, functions.

use super::registration::{environment, function};
use rhai::{Array, Dynamic, EvalAltResult, Module};
use std::future::Future;
use valvehouse_core::chat::{event, message, response};
use valvehouse_core::context::Turn;
use valvehouse_core::error::{Error, Rejection};
use valvehouse_core::filter::Hook;
use valvehouse_dialect::answer::ThrownError;
use valvehouse_dialect::budget;
use valvehouse_dialect::value::{Shape, error, json_of, live};
use valvehouse_executor::{self as executor, Workload};
use valvehouse_json::{Json, Object};
use valvehouse_script::{Lists, ScheduledCall};
use valvehouse_script_std::functions::RhaiResultOf;

/// Returns a conversation that begins with a question.
pub(in crate::testing) fn body_of(text: &str) -> Json {
    Json::from([("messages", vec![message::user(text)].into())])
}

pub(super) fn register(module: &mut Module) {
    hooks(module);
    function("stream", &["chunks: array", "Map"], STREAM).set_into_module(module, |chunks: Dynamic| {
        let environment = environment("stream")?;
        let turn = environment.turn();
        let chunks = match json_of(&chunks)? {
            text @ Json::Text(_) => Json::from(vec![text]),
            list @ Json::Array(_) => list.deep_clone(),
            other => return Err(error(format!("stream: expected a list of chunks, got {}", other.kind()))),
        };
        let (answer, events) = waited(&turn, environment.stream(chunks))?;
        Ok(live(&streamed(&answer, events), Shape::Plain))
    });
    function("chat", &["request", "Map"], CHAT)
        .set_into_module(module, |request: Dynamic| chat(&request, &Dynamic::UNIT));
    function(
        "chat",
        &["request", "options: map", "Map"],
        "Runs a whole turn, like `chat`, with an option: `#{ stream: true }` streams the answer.",
    )
    .set_into_module(module, |request: Dynamic, options: Dynamic| chat(&request, &options));
    function("invoke", &["args: map", "any"], INVOKE)
        .set_into_module(module, |args: Dynamic| invoke(None, &args));
    function(
        "invoke",
        &["tool: &str", "args: map", "any"],
        "Calls one of the script's several tools, like `invoke`.",
    )
    .set_into_module(module, |tool: &str, args: Dynamic| invoke(Some(tool), &args));
    function("action", &["body", "any"], ACTION).set_into_module(module, |body: Dynamic| action(None, &body));
    function(
        "action",
        &["body", "button: &str", "any"],
        "Presses one of the script's several buttons, like `action`.",
    )
    .set_into_module(module, |body: Dynamic, button: &str| action(Some(button), &body));
    function(
        "run_function",
        &["name: &str", "arguments: array", "any"],
        "Calls any function of the script with these arguments and returns its result.",
    )
    .set_into_module(module, |name: &str, arguments: Array| run_function(name, arguments));
    function("tick", &["()"], "Calls the script's `tick()` like a running host.")
        .set_into_module(module, || -> RhaiResultOf<()> { scheduled("tick", ScheduledCall::Tick).map(drop) });
    function("refresh", &["list: &str", "array"], REFRESH).set_into_module(
        module,
        |list: &str| -> RhaiResultOf<Dynamic> {
            let what = ScheduledCall::from_name(list).filter(|what| *what != ScheduledCall::Tick);
            let what = what.ok_or_else(|| error("refresh: expected \"pipes\" or \"tools\""))?;
            let list = scheduled("refresh", what)?;
            Ok(live(&Lists::entries(&list), Shape::Plain))
        },
    );
    function(
        "conversation",
        &["texts: array", "Map"],
        "Creates a body with these texts as messages, alternately of user and assistant.",
    )
    .set_into_module(module, |texts: Array| -> RhaiResultOf<Dynamic> {
        let mut messages = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let text = json_of(text)?;
            messages.push(if index % 2 == 0 { message::user(text) } else { message::assistant(text) });
        }
        Ok(live(&Json::from([("messages", messages.into())]), Shape::Body))
    });
}

const STREAM: &str = "Sends chunks of an answer through `stream` and then `stream_end`, like an endpoint. A \
                      chunk is a text, a delta such as `#{ reasoning_content: \"…\" }` or a whole event. \
                      Returns `#{ text, reasoning, tool_calls, finish_reason, events }` of the filtered \
                      answer.";
const CHAT: &str = "Runs a whole turn with the script and the canned model (`canned::model`). The request \
                    is a map, a list of messages or a text. Returns `#{ text, message, finish_reason, \
                    usage, messages, events }`; `messages` are those of the last model call.";
const REFRESH: &str = "Calls `pipes()` or `tools()` of a script with a `ttl` like a running host: \
                       `refresh(\"tools\")`. Returns the list, which the script offers from then on.";
const INVOKE: &str = "Calls the script's tool and returns its result. The arguments are checked like those \
                      of a model; an error is thrown.";

const ACTION: &str = "Presses the script's button under an answer and returns the result: `()`, or a map; a text \
                      that the script returns is `content`. A text is the answer, a list is the conversation. \
                      A rejection or an error is thrown.";

/// Registers the script's hooks by name; `stream` takes all chunks at once.
fn hooks(module: &mut Module) {
    let subject = |hook: Hook| match hook {
        Hook::Inlet | Hook::Outlet => ("body", Shape::Body),
        _ => ("ctx", Shape::Ctx),
    };
    for hook in Hook::ALL.into_iter().filter(|hook| !matches!(hook, Hook::Stream | Hook::StreamEnd)) {
        let (name, shape) = subject(hook);
        let comment = format!(
            "Runs the script's `{hook}` on a copy of `{name}` and returns the result: the changed copy, or \
             the value that the hook skipped with (`seen::skipped()`). A rejection or an error is thrown. A \
             text or a list of messages may replace the body."
        );
        function(hook.name(), &[name, "any"], &comment).set_into_module(
            module,
            move |value: Dynamic| -> RhaiResultOf<Dynamic> {
                let environment = environment(hook.name())?;
                let (turn, value) = (environment.turn(), subject_of(hook, &value)?);
                let after = waited(&turn, environment.hook(hook, value))?;
                Ok(live(&after, shape))
            },
        );
    }
}

/// Returns the subject of a hook: a copy of the value, completed if the test uses a short form.
fn subject_of(hook: Hook, value: &Dynamic) -> RhaiResultOf<Json> {
    let of_messages = |messages: Json| Json::from([("messages", messages)]);
    Ok(match (hook, json_of(value)?) {
        (Hook::Outlet, Json::Text(text)) => {
            of_messages(vec![message::user("hello"), message::assistant(text)].into())
        }
        (Hook::Inlet, Json::Text(text)) => body_of(&text),
        (Hook::Inlet | Hook::Outlet, list @ Json::Array(_)) => of_messages(list.deep_clone()),
        (_, map @ Json::Object(_)) => map.deep_clone(),
        (hook, other) => return Err(error(format!("{hook}: expected a map, got {}", other.kind()))),
    })
}

/// Waits for work of the host; its rejection is thrown like in a script.
fn waited<T>(turn: &Turn, work: impl Future<Output = Result<T, Error>>) -> RhaiResultOf<T> {
    budget::wait(turn, work)?.map_err(thrown)
}

/// Converts an error into one that a script throws.
fn thrown(failure: Error) -> Box<EvalAltResult> {
    match failure {
        Error::Rejected(rejection) => ThrownError::refused(rejection),
        Error::Broken(failure) => ThrownError::refused(Rejection {
            plugin: failure.plugin,
            ..Rejection::new(failure.cause).with_status(500)
        }),
        other => error(other.to_string()),
    }
}

fn chat(request: &Dynamic, options: &Dynamic) -> RhaiResultOf<Dynamic> {
    let environment = environment("chat")?;
    let body = subject_of(Hook::Inlet, request)?;
    let streams = json_of(options)?.get("stream").or(body.remove("stream"));
    let streams = streams.is_some_and(|stream| stream == true.into());
    let turn = environment.turn();
    let (answer, events) = waited(&turn, environment.clone().chat(body, streams))?;
    let messages = environment.model.requests().pop().and_then(|request| request.get("messages"));
    let fields = [
        ("text", text_of(&answer)),
        ("message", response::message_of(&answer)),
        ("finish_reason", answer.at_path("choices.0.finish_reason")),
        ("usage", answer.field("usage")),
        ("messages", messages.unwrap_or_else(Json::array)),
        ("events", events.into()),
    ];
    Ok(live(&Json::from(fields), Shape::Body))
}

fn text_of(answer: &Json) -> Json {
    message::text_of(&response::message_of(answer)).as_str().into()
}

/// Returns the result of a stream.
fn streamed(answer: &Json, events: Vec<Json>) -> Json {
    let message = response::message_of(answer);
    let thought: String = events.iter().map(|event| event::reasoning(event).to_string()).collect();
    Json::from([
        ("text", text_of(answer)),
        ("reasoning", thought.into()),
        ("tool_calls", message.get("tool_calls").unwrap_or_else(Json::array)),
        ("finish_reason", answer.at_path("choices.0.finish_reason")),
        ("events", events.into()),
    ])
}

fn invoke(tool: Option<&str>, args: &Dynamic) -> RhaiResultOf<Dynamic> {
    let environment = environment("invoke")?;
    let args = match json_of(args)? {
        Json::Null => Json::Object(Object::default()),
        map @ Json::Object(_) => map.deep_clone(),
        other => return Err(error(format!("invoke: expected a map of arguments, got {}", other.kind()))),
    };
    let turn = environment.turn();
    let value = waited(&turn, environment.invoke(tool.map(str::to_owned), args))?;
    Ok(live(&value, Shape::Plain))
}

fn action(button: Option<&str>, body: &Dynamic) -> RhaiResultOf<Dynamic> {
    let environment = environment("action")?;
    let body = subject_of(Hook::Outlet, body)?;
    let turn = environment.turn();
    let value = waited(&turn, environment.press(button.map(str::to_owned), body))?;
    Ok(live(&value, Shape::Plain))
}

/// Calls a scheduled function.
fn scheduled(word: &str, what: ScheduledCall) -> RhaiResultOf<Json> {
    let environment = environment(word)?;
    let made = environment.made().map_err(error)?;
    if !made.own.script.scheduled().iter().any(|(own, _)| *own == what) {
        let constant = if what == ScheduledCall::Tick { "every" } else { "ttl" };
        let name = what.as_str();
        return Err(error(format!("{word}: the script has no `fn {name}()` with `const {constant}`")));
    }
    let work = made.own.script.run_scheduled_in(what, environment.same_turn());
    let list = budget::wait(&environment.turn(), work)?.map_err(|failure| error(failure.cause))?;
    if what != ScheduledCall::Tick {
        environment.set_list(what, list.clone());
    }
    Ok(list)
}

fn run_function(name: &str, arguments: Array) -> RhaiResultOf<Dynamic> {
    let environment = environment("run_function")?;
    let made = environment.made().map_err(error)?;
    let known: Vec<String> = made.own.script.functions().map(|function| function.name.to_owned()).collect();
    if !known.iter().any(|known| known == name) {
        let hint = valvehouse_core::text::did_you_mean(name, known.iter().map(String::as_str));
        return Err(error(format!("run_function: unknown function `{name}`{hint}")));
    }
    let (turn, own) = (environment.turn(), name.to_owned());
    let (script, within) = (made.own.script, turn.clone());
    let work = executor::run(Workload::Blocking, move || script.call_function(&own, arguments, &within));
    match budget::wait(&turn, work)? {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(failure)) => Err(thrown(failure)),
        Err(why) => Err(error(why.to_string())),
    }
}
