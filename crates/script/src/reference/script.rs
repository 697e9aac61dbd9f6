//! The parts of a script: functions that the host calls, the parameters they may ask for, the opening comment
//! and the constants.

use crate::value::Type;

/// A function that the host calls when a script has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryPoint {
    /// Its name.
    pub name: &'static str,
    /// The kind of script it makes.
    pub role: ScriptRole,
    /// Its own value: name and kind. It may ask for [`PARAMETERS`] beside it.
    pub subject: Option<(&'static str, Type)>,
    /// The time of its call, and the meaning of its answer.
    pub doc: &'static str,
    /// A body to begin with, what it answers for last.
    pub begins: &'static str,
}

/// The kind of script that a function makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptRole {
    /// A filter.
    Filter,
    /// A tool, or a module of tools.
    Tool,
    /// A model.
    Pipe,
    /// One that listens to agents.
    Callback,
}

/// A name with its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyDoc {
    /// The name.
    pub name: &'static str,
    /// The type of its value.
    pub kind: Type,
    /// The only values it may have; empty where any will do.
    pub values: &'static [&'static str],
    /// Its meaning.
    pub doc: &'static str,
}

const fn key(name: &'static str, kind: Type, doc: &'static str) -> KeyDoc {
    KeyDoc { name, kind, values: &[], doc }
}

const fn switch(name: &'static str, values: &'static [&'static str], doc: &'static str) -> KeyDoc {
    KeyDoc { name, kind: Type::Text, values, doc }
}

/// Every function that the host calls.
pub fn entries() -> &'static [EntryPoint] {
    ENTRIES
}

/// The one of that name.
pub fn entry(name: &str) -> Option<&'static EntryPoint> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

const BODY: Option<(&str, Type)> = Some(("body", Type::Handle("body")));
const CTX: Option<(&str, Type)> = Some(("ctx", Type::Handle("ctx")));
const EVENT: Option<(&str, Type)> = Some(("event", Type::Handle("event")));
const TOLD: Option<(&str, Type)> = Some(("event", Type::Map));

const fn filter(
    name: &'static str,
    subject: Option<(&'static str, Type)>,
    doc: &'static str,
    begins: &'static str,
) -> EntryPoint {
    EntryPoint { name, role: ScriptRole::Filter, subject, doc, begins }
}

const fn callback(name: &'static str, doc: &'static str) -> EntryPoint {
    EntryPoint { name, role: ScriptRole::Callback, subject: TOLD, doc, begins: "" }
}

const ENTRIES: &[EntryPoint] = &[
    filter(
        "inlet",
        BODY,
        "Once per turn, before its first model call. It sees the request, returns it or nothing, and may refuse (`throw`, `deny`) or answer itself (`skip`).",
        "body",
    ),
    filter(
        "pre_chat",
        CTX,
        "Before every model call, each round of tool calls included. `ctx.messages` is what the model will be asked; `skip(text)` answers in its place.",
        "ctx",
    ),
    filter(
        "stream",
        EVENT,
        "For each event of an answer; one that is not streamed is one event. Nothing returned: the event goes on as changed. An array: those events in its place, `[]` drops it.",
        "event",
    ),
    filter(
        "stream_end",
        None,
        "Once when an answer's stream ends. What it returns is sent before the end: a text, an event, or a list of them.",
        "",
    ),
    filter("post_chat", CTX, "After every model call, on the whole answer in `ctx.result`.", "ctx"),
    filter(
        "pre_invocation",
        CTX,
        "Before every tool call. It sees `ctx.tool` and `ctx.args`; `skip(value)` is the result in the tool's place.",
        "ctx",
    ),
    filter(
        "post_invocation",
        CTX,
        "After every tool call that went well, with `const on_tool_error = true` also after others. It sees `ctx.result`.",
        "ctx",
    ),
    filter(
        "outlet",
        BODY,
        "Once per turn, after its last model call. It sees the conversation with the answer last; what it changes there is what the client receives.",
        "body",
    ),
    filter(
        "done",
        BODY,
        "When the client has its answer, or is gone: the conversation with the answer last, `body.usage`, and `body.error` where the turn failed. Nobody waits for it; what it returns is left out.",
        "body",
    ),
    filter(
        "tick",
        None,
        "With `const every = \"1h\"`, in any file: called again and again while a host runs, by one host of those that share a store. It has ten times the budget of a hook and five minutes; nobody waits for it, and what it returns is left out.",
        "",
    ),
    EntryPoint {
        name: "handler",
        role: ScriptRole::Tool,
        subject: Some(("args", Type::Map)),
        doc: "Runs when a model calls the tool of this file. Its arguments are checked before, against \
              `const parameters`; the second parameter, `ctx`, is the turn's context. What it returns is \
              the result; `error(reason)` or `throw` tell the model why there is none.",
        begins: "#{ }",
    },
    EntryPoint {
        name: "tools",
        role: ScriptRole::Tool,
        subject: None,
        doc: "Lists the tools of a file that has several: `#{ name, description, tag, parameters, timeout, retry, idempotent, filters, metadata, handler }` each. It runs when the file is loaded; with `const ttl = \"10m\"` it runs in the background, and may wait.",
        begins: "[]",
    },
    EntryPoint {
        name: "tool_info",
        role: ScriptRole::Tool,
        subject: None,
        doc: "Beside `tools()`: `#{ description, tags }` of the file, the tags for tools that have none.",
        begins: "#{ description: \"\", tags: [] }",
    },
    EntryPoint {
        name: "prompts",
        role: ScriptRole::Tool,
        subject: None,
        doc: "Lists prompts for clients of MCP: `#{ name, title, description, arguments, handler, complete }` each. A handler returns a text, a list of messages `#{ role, content }`, or `#{ messages, description }`. It runs when the file is loaded.",
        begins: "[]",
    },
    EntryPoint {
        name: "resources",
        role: ScriptRole::Tool,
        subject: None,
        doc: "Lists resources for clients of MCP: `#{ uri, name, title, description, mimeType }` each, or `uriTemplate` in place of `uri`. It runs when the file is loaded.",
        begins: "[]",
    },
    EntryPoint {
        name: "resource",
        role: ScriptRole::Tool,
        subject: Some(("uri", Type::Text)),
        doc: "Beside `resources()`: returns the content of one, a text, `#{ text | blob, mimeType }` or a list of those; `()` where there is none.",
        begins: "()",
    },
    EntryPoint {
        name: "pipe",
        role: ScriptRole::Pipe,
        subject: BODY,
        doc: "Answers a chat as a model of its own. It returns a text, a message, a list of pieces, or a function that is called for one piece after the other until it gives `()`.",
        begins: "\"\"",
    },
    EntryPoint {
        name: "pipes",
        role: ScriptRole::Pipe,
        subject: None,
        doc: "Beside `pipe`: lists the models that it answers for, `[#{ id: \"small\", name: \"Small\" }]`. It runs when the file is loaded; with `const ttl = \"10m\"` it runs in the background, and may wait.",
        begins: "[]",
    },
    callback("on_chain_start", "A run begins: `input`."),
    callback("on_chain_end", "A run has its answer: `result`."),
    callback("on_chain_error", "A run failed: `error`."),
    callback("on_llm_start", "A model is asked: `messages`."),
    callback("on_llm_end", "A model answered: `response`."),
    callback("on_llm_error", "A model did not answer: `error`."),
    callback("on_llm_new_token", "A piece of a model's text: `token`."),
    callback("on_text", "An answer has text: `text`."),
    callback("on_agent_action", "An answer calls tools: `text`, `tool_calls`."),
    callback("on_agent_finish", "An answer is the final one: `text`."),
    callback("on_tool_start", "A tool is next: `tool`, `args`, `tool_call_id`."),
    callback("on_tool_end", "A tool gave its result: `tool`, `args`, `tool_call_id`, `result`."),
    callback("on_tool_error", "A tool failed: `tool`, `args`, `tool_call_id`, `error`."),
    callback(
        "on_retry",
        "A model or a tool is tried again: `what`, `attempt`, `max_retries`, `error`, `delay` (ms).",
    ),
    callback("on_custom_event", "A plugin emitted an event: `name`, `data`."),
    callback("on_retriever_start", "A tool tagged `retriever` is next: `tool`, `args`, `tool_call_id`."),
    callback(
        "on_retriever_end",
        "A tool tagged `retriever` gave its result: `tool`, `args`, `tool_call_id`, `result`.",
    ),
    callback(
        "on_retriever_error",
        "A tool tagged `retriever` failed: `tool`, `args`, `tool_call_id`, `error`.",
    ),
    callback("on_turn_start", "A run begins: `input`."),
    callback("on_turn_end", "A run has its answer: `result`."),
    callback("on_turn_error", "A run failed: `error`."),
    callback("on_llm_call", "What a model is sent, behind all other filters: `messages`, `model`."),
    callback("on_tool_call", "What a tool is given, behind all other filters: `tool`, `args`."),
    callback("on_token", "A piece of a model's text: `token`."),
    callback("on_interrupt", "The run stops for a person: `pending`."),
    callback("on_resume", "The run continues: `decision`."),
];

/// The parameters that every function that the host calls may ask for by name, in any order.
pub const PARAMETERS: &[KeyDoc] = &[
    key("valves", Type::Map, "The script's settings in force."),
    key("state", Type::Map, "A map of this script for this turn, which all of its hooks share."),
    key("__id__", Type::Text, "The script's own id, its file's name."),
    key("__user__", Type::Handle("__user__"), "The user of the request: `id name email role valves`."),
    key(
        "__metadata__",
        Type::Map,
        "One map per turn that all hooks of all filters share: what `inlet` puts there, `outlet` reads.",
    ),
    key(
        "__model__",
        Type::Handle("__model__"),
        "The turn's model: `id name provider`; `()` for one that the configuration does not know.",
    ),
    key(
        "__request__",
        Type::Handle("__request__"),
        "The HTTP request: `method path headers client`, without credentials.",
    ),
    key("__chat_id__", Type::Text, "The conversation's id, \"\" where there is none."),
    key(
        "__message_id__",
        Type::Text,
        "The id of the message that is being answered, \"\" where there is none.",
    ),
    key("__features__", Type::Any, "The features that the client switched on; `()` if it sends none."),
    key("__files__", Type::Any, "Uploaded files; `()` where there are none."),
    key(
        "__event_emitter__",
        Type::Closure,
        "A function value: `__event_emitter__.call(#{ type, data })` is `emit(…)`.",
    ),
    key(
        "__event_call__",
        Type::Closure,
        "A function value: `__event_call__.call(#{ type, data })` is `ask(…)`.",
    ),
    key(
        "__messages__",
        Type::Handle("messages"),
        "In a tool: the conversation up to the call of the model, a copy; empty where no model called it.",
    ),
    key(
        "__tools__",
        Type::Map,
        "In a pipe with `requirements: tools`: the tools that the turn offers, by name: `__tools__.weather.spec`, \
         `__tools__.weather.callable.call(#{ city: \"Rome\" })`.",
    ),
];

/// Returns the keys of the comment that a file opens with; other keys are kept for people.
pub fn frontmatter() -> &'static [KeyDoc] {
    FRONTMATTER
}

const TRUTH: &[&str] = &["true", "false"];

const FRONTMATTER: &[KeyDoc] = &[
    key("title", Type::Text, "The display name."),
    key("author", Type::Text, "The author."),
    key("author_url", Type::Text, "The author's web page."),
    key("version", Type::Text, "Its version."),
    key("description", Type::Text, "The description, in one line. For a tool it is sent to models."),
    key("license", Type::Text, "The license."),
    key("icon_url", Type::Text, "The URL of an icon."),
    key(
        "requirements",
        Type::Text,
        "The capabilities it uses, between commas: `http kv llm files shell env`.",
    ),
    key(
        "required_host_version",
        Type::Text,
        "The oldest version of the host that it works with, as in 1.2.0.",
    ),
    switch("global", TRUTH, "`false`: it runs only for models that list it."),
    switch(
        "on_error",
        &["abort", "continue"],
        "The effect of an error in it: `abort` fails the request, `continue` skips the filter.",
    ),
    switch("security", TRUTH, "`true`: a guard. Where it cannot run, requests are refused."),
    switch("hold", TRUTH, "`true`: streamed answers wait until it has seen the whole text."),
    key(
        "match",
        Type::Text,
        "Texts between commas; `stream` is called only for events with one of them in their text.",
    ),
    key(
        "needs",
        Type::Text,
        "Valves between commas; the filter is in no chain until one of them has a value: not empty, not 0, not `false`. A guard with other valves set, but none of these, refuses.",
    ),
    key(
        "allow_hosts",
        Type::Text,
        "Hosts that `http::` may reach, between commas: `api.example.com`, `*.example.com`, `valve:NAME` for the one that a valve names.",
    ),
    key("tag", Type::Text, "The tags of a tool, separated by commas."),
    key("timeout", Type::Integer, "The time limit of a tool or a pipe, in milliseconds."),
    key("retry", Type::Text, "The retries of a tool and the milliseconds between them, `3, 1000`."),
    switch("idempotent", TRUTH, "`true`: running the tool twice has the same effect as running it once."),
];

/// Constants that say something of a plugin. They are literal, and read without running it.
pub const CONSTANTS: &[KeyDoc] = &[
    key(
        "Valves",
        Type::Map,
        "Settings that operators may change: a plain default, or a map with `value` and what may be said of it.",
    ),
    key(
        "UserValves",
        Type::Map,
        "Settings that each user may change, in the same form. They come as `__user__.valves`.",
    ),
    key(
        "file_handler",
        Type::Boolean,
        "`true`: the script handles uploaded files; the host removes them from the request.",
    ),
    key(
        "endpoints",
        Type::Array,
        "The endpoints at which it runs: `\"chat\"` (all protocols of chats; the default), `\"embeddings\"`, `\"images\"`, `\"completions\"`. Beside chats only `inlet` runs: each text that flows in is a message of `body.messages`, `body.endpoint` names the endpoint, and edited contents are written back.",
    ),
    key("toggle", Type::Boolean, "`true`: it runs only for requests that ask for it."),
    key("icon", Type::Text, "A picture for people: a URL, `data:` included."),
    key("on_tool_error", Type::Boolean, "`true`: `post_invocation` sees failed tool calls too."),
    key("callbacks", Type::Boolean, "`true`: its functions `on_…` receive the events of agents."),
    key(
        "tool",
        Type::Map,
        "Of a tool: what the opening comment would say of it, `#{ description, tag, timeout, retry }`.",
    ),
    key(
        "parameters",
        Type::Map,
        "Of a tool: its arguments by name, `#{ type, description, required, \"default\", \"enum\" … }` each.",
    ),
    key(
        "ttl",
        Type::Text,
        "How long a list of `pipes()` or `tools()` counts, from `\"1s\"` to `\"30d\"`, such as `\"1h30m\"`. They are called in the background then and may wait; the last list that could be used stays until the next one can.",
    ),
    key(
        "every",
        Type::Text,
        "The time between two calls of `tick()`, from `\"1s\"` to `\"30d\"`. Up to a tenth, at most a minute, is added to each, so that not all scripts run at once.",
    ),
];

/// The keys of a valve.
pub const VALVE_KEYS: &[KeyDoc] = &[
    key("value", Type::Any, "Its default; `()` beside a `type` makes it optional."),
    switch(
        "type",
        &["string", "integer", "number", "boolean", "array", "object"],
        "The type, if it is not that of the default.",
    ),
    key("title", Type::Text, "The display name."),
    key("description", Type::Text, "What it does."),
    key("minimum", Type::Number, "The least value."),
    key("maximum", Type::Number, "The greatest value."),
    key("enum", Type::Array, "The only values it may have."),
    key("pattern", Type::Text, "A pattern that a text must match."),
    key(
        "items",
        Type::Any,
        "What the elements of an array are: a type, or a map of `type minimum maximum enum pattern`.",
    ),
    key("secret", Type::Boolean, "`true`: the value is never shown in an answer, a log or on the page."),
    key("multiline", Type::Boolean, "`true`: a text of several lines."),
];

/// The keys of a tool's argument.
pub const PARAMETER_KEYS: &[KeyDoc] = &[
    switch("type", &["string", "integer", "float", "number", "boolean", "array", "object"], "Its type."),
    key("description", Type::Text, "The description for the model."),
    key("required", Type::Boolean, "`true`: a call without it is rejected."),
    key("default", Type::Any, "The value if the model sends none."),
    key("enum", Type::Array, "The only values it may have."),
    key("items", Type::Map, "What the elements of an array are."),
    key("properties", Type::Map, "The fields of an object."),
    key("minimum", Type::Number, "The least value."),
    key("maximum", Type::Number, "The greatest value."),
    key("pattern", Type::Text, "A pattern that a text must match."),
];

/// The keys of an entry of `tools()`.
pub const TOOL_KEYS: &[KeyDoc] = &[
    key("name", Type::Text, "The name for models."),
    key("description", Type::Text, "The description for the model."),
    key("tag", Type::Text, "The tags for searching tools."),
    key("parameters", Type::Map, "Its arguments by name."),
    key("timeout", Type::Integer, "The time limit in milliseconds, 30 000 by default."),
    key("retry", Type::Any, "The retries and the milliseconds between them: `#{ max: 3, delay: 1000 }`."),
    key("idempotent", Type::Boolean, "`true`: running it twice has the same effect as running it once."),
    key("filters", Type::Array, "Ids of filters that run around this tool only."),
    key("metadata", Type::Map, "Further properties of the tool."),
    key("handler", Type::Closure, "The function that runs."),
];

/// The capabilities that scripts may ask for in `requirements`.
pub const CAPABILITIES: &[KeyDoc] = &[
    key("http", Type::Nothing, "Other hosts: `http::…`. Name them in `allow_hosts`, or have them granted."),
    key("files", Type::Nothing, "Files in folders that are granted: `files::…`."),
    key("shell", Type::Nothing, "Programs that are granted: `shell::run`."),
    key("env", Type::Nothing, "Variables of the environment that are granted: `env::get`."),
    key("kv", Type::Nothing, "A map of its own that lasts: `kv::…`. Declaring it is enough."),
    key("llm", Type::Nothing, "Models of this host: `llm::chat`. Declaring it is enough."),
    key(
        "tools",
        Type::Nothing,
        "Tools of this host: `tools::call`. Declaring it is enough for those that the turn offers; others are granted.",
    ),
];
