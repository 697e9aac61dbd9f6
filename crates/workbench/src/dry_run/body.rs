//! The input of a dry run, converted to the value that the host passes to a hook.

use super::options::DryRunOptions;
use std::path::Path;
use valvehouse_core::chat::{message, response};
use valvehouse_core::context::Turn;
use valvehouse_core::filter::Hook;
use valvehouse_host::Snapshot;
use valvehouse_json::Json;
use valvehouse_net::sse::Parser;
use valvehouse_terminal::{CommandError, files};

/// The given body, parsed as far as possible without knowing the hook.
pub(crate) enum Body {
    /// A plain text.
    Text(String),
    /// A JSON value.
    Value(Json),
    /// The events of a recorded response.
    Events(Vec<Json>),
}

/// Returns the body given on the command line.
pub(super) fn body(options: &DryRunOptions) -> Result<Body, CommandError> {
    if let Some(text) = &options.text {
        return Ok(Body::Text(text.clone()));
    }
    read(options.body.as_deref().unwrap_or("-"))
}

/// Reads a file, stdin for `-`, or the argument itself if it is JSON.
pub(crate) fn read(word: &str) -> Result<Body, CommandError> {
    let (from, text) = match word {
        "-" => ("stdin".to_owned(), files::read_stdin(files::MAX_INPUT)?),
        json if json.trim_start().starts_with(['{', '[']) => ("--body".to_owned(), json.to_owned()),
        file => (file.to_owned(), files::read_text(Path::new(file), files::MAX_INPUT).map_err(unread)?),
    };
    if is_recorded(&text) {
        return events(&from, &text).map(Body::Events);
    }
    Json::parse(text.as_bytes()).map(Body::Value).map_err(|error| {
        CommandError::data(format!(
            "{from} is not valid JSON: {error}; a body is JSON, a stream is a list of chunks or the `data: …` lines of a response; pass plain text with --text"
        ))
    })
}

fn unread(error: CommandError) -> CommandError {
    CommandError::data(format!(
        "{}; --body accepts a file, - for stdin, or JSON that begins with {{ or [",
        error.message
    ))
}

/// Returns `true` if a text is a recorded response in the format of server-sent events.
fn is_recorded(text: &str) -> bool {
    let first = text.lines().map(str::trim_start).find(|line| !line.is_empty());
    first.is_some_and(|line| line.starts_with("data:") || line.starts_with("event:") || line.starts_with(':'))
}

/// Returns the events of a recorded response in the form for hooks.
fn events(from: &str, text: &str) -> Result<Vec<Json>, CommandError> {
    let wrong = |error: &dyn std::fmt::Display| CommandError::data(format!("cannot read {from}: {error}"));
    let mut parser = Parser::default();
    parser.push(text.as_bytes());
    parser.push(b"\n\n");
    let mut events = Vec::new();
    for event in parser.by_ref() {
        let data = event.map_err(|error| wrong(&error))?.data;
        if data.as_ref() != b"[DONE]" {
            events.push(Json::parse(&data).map_err(|error| wrong(&error))?);
        }
    }
    Ok(events)
}

/// Returns the request body for a given body.
pub(crate) fn conversation_of(body: Body) -> Result<Json, CommandError> {
    match body {
        Body::Text(text) => Ok(of_text(Hook::Inlet, &text)),
        Body::Value(messages @ Json::Array(_)) => Ok(Json::from([("messages", messages)])),
        Body::Value(body @ Json::Object(_)) => Ok(body),
        _ => Err(CommandError::data(
            "a body is a request: {\"messages\": [{\"role\": \"user\", \"content\": \"hello\"}]}",
        )),
    }
}

/// Returns the value of a hook, except the hooks of streams.
pub(super) fn value(hook: Hook, body: Body, snapshot: &Snapshot, turn: &Turn) -> Result<Json, CommandError> {
    let value = match body {
        Body::Text(text) => of_text(hook, &text),
        Body::Events(_) => {
            return Err(CommandError::data(format!(
                "{hook} needs a whole value, not the events of a stream"
            )));
        }
        Body::Value(messages @ Json::Array(_)) => Json::from([("messages", messages)]),
        Body::Value(value @ Json::Object(_)) => value,
        Body::Value(other) => {
            return Err(CommandError::data(format!("{hook} needs an object, not {}", other.kind())));
        }
    };
    let value = match hook {
        Hook::Inlet | Hook::Outlet => return conversation(hook, value, turn),
        Hook::PreChat => ctx(hook, &value, &["messages", "model"], &["messages"])?,
        Hook::PostChat => {
            if value.get("choices").is_some() {
                // The value is a complete response of a provider.
                value.edit("result", response::message_of(&value).deep_clone());
            }
            if value.get("messages").is_none() {
                value.edit("messages", Json::array());
            }
            ctx(hook, &value, &["messages", "result"], &["result"])?
        }
        _ => {
            describe_tool(&value, snapshot);
            let known = ["tool", "args", "result", "error"];
            let needed: &[&str] =
                if hook == Hook::PreInvocation { &["tool", "args"] } else { &["tool", "args", "result"] };
            ctx(hook, &value, &known, needed)?
        }
    };
    // The object is new and not read-only.
    value.edit("context", turn.context().as_json());
    value.edit("metadata", turn.metadata().clone());
    Ok(value)
}

fn of_text(hook: Hook, text: &str) -> Json {
    let messages = || Json::from(vec![message::user(text)]);
    match hook {
        Hook::Outlet => {
            Json::from([("messages", vec![message::user("hello"), message::assistant(text)].into())])
        }
        Hook::PostChat => {
            let messages: Json = vec![message::user("hello")].into();
            let result = Json::from([
                ("content", text.into()),
                ("tool_calls", Json::array()),
                ("finish_reason", "stop".into()),
            ]);
            Json::from([("messages", messages), ("result", result)])
        }
        Hook::PostInvocation => Json::from([("result", text.into())]),
        _ => Json::from([("messages", messages())]),
    }
}

fn conversation(hook: Hook, value: Json, turn: &Turn) -> Result<Json, CommandError> {
    if !matches!(value.get("messages"), Some(Json::Array(_))) {
        return Err(CommandError::data(format!(
            "{hook} needs a conversation: {{\"messages\": [{{\"role\": \"user\", \"content\": \"hello\"}}]}}"
        )));
    }
    let facts = turn.facts();
    let own = [("model", facts.model.field("id")), ("chat_id", facts.chat_id.as_str().into())];
    for (key, own) in own {
        if value.get(key).is_none() {
            // The object is ours and not read-only.
            value.edit(key, own);
        }
    }
    Ok(value)
}

/// Returns the parts of a value that the host passes to this hook.
fn ctx(hook: Hook, value: &Json, known: &[&str], needed: &[&str]) -> Result<Json, CommandError> {
    if let Some(missing) = needed.iter().find(|key| value.get(key).is_none()) {
        let example = match hook {
            Hook::PreChat => r#"{"messages": [{"role": "user", "content": "hello"}]}"#,
            Hook::PostChat => r#"{"messages": […], "result": {"content": "an answer", "tool_calls": []}}"#,
            Hook::PreInvocation => r#"{"tool": "weather", "args": {"city": "Oslo"}}"#,
            _ => r#"{"tool": "weather", "args": {"city": "Oslo"}, "result": "sunny"}"#,
        };
        return Err(CommandError::data(format!("missing `{missing}`: {hook} needs {example}")));
    }
    let parts = known.iter().filter_map(|key| Some(((*key).into(), value.get(key)?)));
    Ok(Json::Object(parts.collect()))
}

/// Replaces the name of a tool by the host's description of the tool.
fn describe_tool(value: &Json, snapshot: &Snapshot) {
    if value.get("args").is_none() {
        value.edit("args", Json::object());
    }
    let Some(name) = value.text("tool") else { return };
    let own = snapshot.tools.iter().find(|tool| tool.name() == name);
    let about = own.map_or_else(|| Json::from([("name", name.as_str().into())]), |tool| tool.describe());
    value.edit("tool", about);
}
