//! Functions that prepare a test: valves, turns, canned answers, the time.

use super::registration::{environment, function, within};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rhai::{Dynamic, Module};
use std::sync::atomic::Ordering::Relaxed;
use valvehouse_dialect::value::{Bytes, error, json_of};
use valvehouse_json::Json;
use valvehouse_script_std::functions::RhaiResultOf;

pub(super) fn register(module: &mut Module) {
    function(
        "valves",
        &["values: map", "()"],
        "Sets the script's valves from now on; all others have their defaults. An invalid value throws an \
         error.",
    )
    .set_into_module(module, |values: Dynamic| {
        environment("valves")?.set_valves(&json_of(&values)?).map_err(|why| error(format!("valves: {why}")))
    });
    function(
        "turn",
        &["facts: map", "()"],
        "Starts a new turn with these keys, all of them optional: `user` (its `valves` are the user's own), \
         `chat_id`, `message_id`, `model`, `request`, `features`, `files`, `metadata`, `variables`. The user is \
         verified, unless `verified` is false.",
    )
    .set_into_module(module, |facts: Dynamic| {
        environment("turn")?.begin_turn(&json_of(&facts)?).map_err(|why| error(format!("turn: {why}")))
    });
}

/// The module `canned::…`.
pub(super) fn canned() -> Module {
    let mut module = Module::new();
    register_services(&mut module);
    register_records(&mut module);
    module
}

/// Registers the answers of models, hosts, tools, people and programs.
fn register_services(module: &mut Module) {
    within(
        "model",
        &["answer", "()"],
        "Sets the answer to the next model call: a text, a list of chunks, a message such as `#{ \
         tool_calls: [#{ name: \"x\", arguments: #{} }] }`, or `#{ error: \"…\", status: 503 }`. Several \
         answers are used in order, each once.",
    )
    .set_into_module(module, |answer: Dynamic| -> RhaiResultOf<()> {
        environment("canned::model")?.model.answers(&json_of(&answer)?.deep_clone());
        Ok(())
    });
    const HTTP: &str = "Sets the answer for a URL, which may end with `*`: a text, `#{ status, headers, \
                        json }`, `#{ status, headers, text }` or `#{ status, headers, bytes }`, or `#{ error: \"connection refused\" }`. \
                        Several answers are used in order; the last one is repeated.";
    within("http", &["url: &str", "answer", "()"], HTTP)
        .set_into_module(module, |url: &str, answer: Dynamic| http(None, url, &answer));
    within(
        "http",
        &["method: &str", "url: &str", "answer", "()"],
        "Sets the answer for a URL, like `canned::http`, only for requests with this method.",
    )
    .set_into_module(module, |method: &str, url: &str, answer: Dynamic| http(Some(method), url, &answer));
    within(
        "tool",
        &["name: &str", "result", "()"],
        "Adds a tool that the model may call in `chat`, and the script with `tools::call`. The tool returns \
         this result, or fails with `#{ error: \"…\" }`.",
    )
    .set_into_module(module, |name: &str, result: Dynamic| -> RhaiResultOf<()> {
        environment("canned::tool")?.add_tool(name, json_of(&result)?.deep_clone());
        Ok(())
    });
    within(
        "answer",
        &["value", "()"],
        "Sets a person's answer to the next `ask`; without it, the question is not answered.",
    )
    .set_into_module(module, |value: Dynamic| -> RhaiResultOf<()> {
        environment("canned::answer")?.people.answer(json_of(&value)?.deep_clone());
        Ok(())
    });
    within(
        "shell",
        &["command: &str", "output", "()"],
        "Sets the output of a program, by its name or its whole command line, which may end with `*`: a text, \
         `#{ stdout, stderr, exit_code }`, `#{ timed_out: true }` or `#{ error: \"…\" }`. Nothing is started. Several \
         outputs are used in order; the last one is repeated.",
    )
    .set_into_module(module, |command: &str, output: Dynamic| -> RhaiResultOf<()> {
        environment("canned::shell")?.shell.answers(None, command, json_of(&output)?.deep_clone());
        Ok(())
    });
}

/// Registers what is there in the test: files, models, memories, conversations, variables.
fn register_records(module: &mut Module) {
    within(
        "file",
        &["path: &str", "content", "()"],
        "Creates a file, of a text or of bytes, in a folder of this test only: `data/notes.txt` is in the granted \
         folder `data`.",
    )
    .set_into_module(module, |path: &str, content: Dynamic| -> RhaiResultOf<()> {
        let text = content.as_immutable_string_ref().ok().map(|text| text.as_bytes().to_vec());
        let bytes = || Bytes::of(&content).map(|bytes| bytes.0.to_vec());
        let content = text.or_else(bytes).ok_or_else(|| error("canned::file: expected a text or bytes"))?;
        environment("canned::file")?.add_file(path, &content).map_err(|why| error(format!("canned::file: {why}")))
    });
    within(
        "models",
        &["models: Array", "()"],
        "Sets the models of `models::list` and `models::get`: ids, or maps with an `id`.",
    )
    .set_into_module(module, |models: Dynamic| {
        environment("canned::models")?
            .set_models(&json_of(&models)?)
            .map_err(|why| error(format!("canned::models: {why}")))
    });
    within(
        "memory",
        &["text: &str", "()"],
        "Stores a memory of the user of the turn, for `memories::`. A turn has a user after `turn(#{ user: #{ id: \
         \"ann\" } })`.",
    )
    .set_into_module(module, |text: &str| {
        environment("canned::memory")?.add_memory(text).map_err(|why| error(format!("canned::memory: {why}")))
    });
    within(
        "chat",
        &["id: &str", "messages", "()"],
        "Stores a conversation of the user of the turn, for `chats::`: a list of messages, or the text of one.",
    )
    .set_into_module(module, |id: &str, messages: Dynamic| {
        let messages = json_of(&messages)?.deep_clone();
        environment("canned::chat")?.add_chat(id, &messages).map_err(|why| error(format!("canned::chat: {why}")))
    });
    within("env", &["name: &str", "value: &str", "()"], "Sets an environment variable for `env::get`.")
        .set_into_module(module, |name: &str, value: &str| -> RhaiResultOf<()> {
            environment("canned::env")?.add_variable(name, value);
            Ok(())
        });
}

fn http(method: Option<&str>, url: &str, answer: &Dynamic) -> RhaiResultOf<()> {
    environment("canned::http")?.hosts.answers(method, url, answer_of(answer)?);
    Ok(())
}

/// Converts an answer to JSON, with bytes in base64.
fn answer_of(answer: &Dynamic) -> RhaiResultOf<Json> {
    let encoded = |bytes: &Bytes| Json::from(STANDARD.encode(&bytes.0));
    if let Some(bytes) = Bytes::of(answer) {
        return Ok(Json::from([("base64", encoded(&bytes))]));
    }
    let bytes = answer.as_map_ref().ok().and_then(|map| Bytes::of(map.get("bytes")?));
    let Some(bytes) = bytes else { return Ok(json_of(answer)?.deep_clone()) };
    let mut rest = answer.clone();
    if let Ok(mut map) = rest.as_map_mut() {
        map.remove("bytes");
    }
    let answer = json_of(&rest)?.deep_clone();
    answer.edit("base64", encoded(&bytes));
    Ok(answer)
}

/// The module `clock::…`.
pub(super) fn clock() -> Module {
    let mut module = Module::new();
    within(
        "set",
        &["time", "()"],
        "Sets the time: `\"2026-11-21T10:00:00Z\"` or Unix seconds. A test starts at 2026-01-01T00:00:00Z, \
         and the clock does not advance by itself.",
    )
    .set_into_module(&mut module, |time: Dynamic| -> RhaiResultOf<()> {
        let milliseconds = match json_of(&time)? {
            Json::Text(text) => text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond),
            number => number.as_f64().map(|seconds| (seconds * 1e3).round() as i64),
        };
        let milliseconds = milliseconds.ok_or_else(|| {
            error(format!(
                "clock::set: invalid time `{time}`: expected \"2026-11-21T10:00:00Z\" or Unix seconds"
            ))
        })?;
        environment("clock::set")?.clock.now.store(milliseconds, Relaxed);
        Ok(())
    });
    within("advance", &["seconds", "()"], "Advances the clock by a number of seconds.").set_into_module(
        &mut module,
        |seconds: Dynamic| -> RhaiResultOf<()> {
            let seconds = json_of(&seconds)?
                .as_f64()
                .ok_or_else(|| error("clock::advance: expected a number of seconds"))?;
            environment("clock::advance")?.clock.now.fetch_add((seconds * 1e3).round() as i64, Relaxed);
            Ok(())
        },
    );
    module
}
