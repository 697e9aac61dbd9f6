//! The parts of a script: functions that the host calls, their parameters, the opening comment and the constants.

use std::sync::LazyLock;
use valvehouse_core::callback::Callback;
use valvehouse_core::schema::ValueKind;
use valvehouse_core::valve::ValveSchema;
use valvehouse_dialect::value::Type;

/// A function that the host calls if a script defines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryPoint {
    /// Its name.
    pub name: &'static str,
    /// The kind of script that the function makes.
    pub role: ScriptRole,
    /// The name and kind of its subject. It may also have the [`PARAMETERS`].
    pub subject: Option<(&'static str, Type)>,
    /// The time of the call, and the meaning of the result.
    pub doc: &'static str,
    /// A body to start with, which ends with its result.
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
    /// A button under messages.
    Action,
    /// Callbacks of agents.
    Callback,
}

/// A name with its documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyDoc {
    /// The name.
    pub name: &'static str,
    /// The type of its value.
    pub kind: Type,
    /// The possible values; empty if any value is valid.
    pub values: &'static [&'static str],
    /// Its meaning.
    pub doc: &'static str,
}

pub(super) const fn key(name: &'static str, kind: Type, doc: &'static str) -> KeyDoc {
    KeyDoc { name, kind, values: &[], doc }
}

pub(super) const fn switch(name: &'static str, values: &'static [&'static str], doc: &'static str) -> KeyDoc {
    KeyDoc { name, kind: Type::Text, values, doc }
}

/// Returns all functions that the host calls.
pub fn entries() -> &'static [EntryPoint] {
    static ALL: LazyLock<Vec<EntryPoint>> = LazyLock::new(|| {
        let subject = Some(("event", Type::Map));
        let callback =
            |(name, doc)| EntryPoint { name, role: ScriptRole::Callback, subject, doc, begins: "" };
        ENTRIES.iter().copied().chain(Callback::documented().map(callback)).collect()
    });
    &ALL
}

/// Returns the entry point of this name.
pub fn entry(name: &str) -> Option<&'static EntryPoint> {
    entries().iter().find(|entry| entry.name == name)
}

const BODY: Option<(&str, Type)> = Some(("body", Type::Handle("body")));
const CTX: Option<(&str, Type)> = Some(("ctx", Type::Handle("ctx")));
const EVENT: Option<(&str, Type)> = Some(("event", Type::Handle("event")));

const fn filter(
    name: &'static str,
    subject: Option<(&'static str, Type)>,
    doc: &'static str,
    begins: &'static str,
) -> EntryPoint {
    EntryPoint { name, role: ScriptRole::Filter, subject, doc, begins }
}

/// The functions that the host calls, without callbacks.
const ENTRIES: &[EntryPoint] = &[
    filter(
        "inlet",
        BODY,
        "Called once per turn, before its first model call, with the request. Returns it or nothing; can reject it (`throw`, `deny`) or answer it (`skip`).",
        "body",
    ),
    filter(
        "pre_chat",
        CTX,
        "Called before every model call, including each round of tool calls. `ctx.messages` is the model's input; `skip(text)` answers instead of the model.",
        "ctx",
    ),
    filter(
        "stream",
        EVENT,
        "Called for each event of an answer; an unstreamed answer is one event. If it returns nothing, the changed event is sent; if it returns an array, those events are sent instead (`[]` drops the event).",
        "event",
    ),
    filter(
        "stream_end",
        None,
        "Called when an answer's stream ends, once for each model call of the turn. Its result is sent before the end: a text, an event, or a list of them.",
        "",
    ),
    filter(
        "post_chat",
        CTX,
        "Called after every model call, with the complete answer in `ctx.result`.",
        "ctx",
    ),
    filter(
        "pre_invocation",
        CTX,
        "Called before every tool call, with `ctx.tool` and `ctx.args`; `skip(value)` is the result instead of the tool's.",
        "ctx",
    ),
    filter(
        "post_invocation",
        CTX,
        "Called after every successful tool call, with `const on_tool_error = true` also after failed ones, with `ctx.result`.",
        "ctx",
    ),
    filter(
        "outlet",
        BODY,
        "Called once per turn, after its last model call, with the conversation and the answer last. The client receives its changes.",
        "body",
    ),
    filter(
        "done",
        BODY,
        "Called after the client has received the answer or disconnected, with the conversation and the answer last, `body.usage`, and `body.error` if the turn failed. The client does not wait for it; its result is ignored.",
        "body",
    ),
    filter(
        "tick",
        None,
        "Called at the interval `const every = \"1h\"`, in any file, by one of the hosts that share a store. It has ten times the budget of a hook and five minutes; its result is ignored.",
        "",
    ),
    EntryPoint {
        name: "handler",
        role: ScriptRole::Tool,
        subject: Some(("args", Type::Map)),
        doc: "Runs when a model calls the tool of this file. Its arguments are checked before, against \
              `const parameters`; the second parameter, `ctx`, is the turn's context. Its return \
              value is the result; `error(reason)` or `throw` send the reason of a failure to the model.",
        begins: "#{ }",
    },
    EntryPoint {
        name: "tools",
        role: ScriptRole::Tool,
        subject: None,
        doc: "Lists the tools of a file that has several: `#{ name, description, tag, parameters, timeout, retry, idempotent, filters, metadata, handler }` each. It runs when the file is loaded; with `const ttl = \"10m\"` it runs in the background, and can wait.",
        begins: "[]",
    },
    EntryPoint {
        name: "tool_info",
        role: ScriptRole::Tool,
        subject: None,
        doc: "With `tools()`: returns `#{ description, tags }` of the file, with tags for tools that have none.",
        begins: "#{ description: \"\", tags: [] }",
    },
    EntryPoint {
        name: "prompts",
        role: ScriptRole::Tool,
        subject: None,
        doc: "Lists prompts for MCP clients: `#{ name, title, description, arguments, handler, complete }` each. A handler returns a text, a list of messages `#{ role, content }`, or `#{ messages, description }`. It runs when the file is loaded.",
        begins: "[]",
    },
    EntryPoint {
        name: "resources",
        role: ScriptRole::Tool,
        subject: None,
        doc: "Lists resources for MCP clients: `#{ uri, name, title, description, mimeType }` each, or `uriTemplate` instead of `uri`. It runs when the file is loaded.",
        begins: "[]",
    },
    EntryPoint {
        name: "resource",
        role: ScriptRole::Tool,
        subject: Some(("uri", Type::Text)),
        doc: "With `resources()`: returns the content of a resource, a text, `#{ text | blob, mimeType }` or a list of those; `()` if there is none.",
        begins: "()",
    },
    EntryPoint {
        name: "pipe",
        role: ScriptRole::Pipe,
        subject: BODY,
        doc: "Answers a chat as a model. Returns a text, a message, a list of chunks, or a function that is called for each chunk until it returns `()`.",
        begins: "\"\"",
    },
    EntryPoint {
        name: "pipes",
        role: ScriptRole::Pipe,
        subject: None,
        doc: "With `pipe`: lists the models that it answers for, `[#{ id: \"small\", name: \"Small\" }]`. It runs when the file is loaded; with `const ttl = \"10m\"` it runs in the background, and can wait.",
        begins: "[]",
    },
    EntryPoint {
        name: "action",
        role: ScriptRole::Action,
        subject: BODY,
        doc: "Runs when a person presses a button under a message: `body.messages` is the conversation with that message last, `body.id` its id. Returns nothing, the new content as a text, or a map such as `#{ content: \"…\" }`; can emit events, ask the person, and reject the press (`throw`, `deny`).",
        begins: "emit(#{ type: \"status\", data: #{ description: \"Done\", done: true } });",
    },
];

/// The parameters that every function called by the host may have, by name and in any order.
pub const PARAMETERS: &[KeyDoc] = &[
    key("valves", Type::Map, "The script's effective settings."),
    key("state", Type::Map, "A map of this script for this turn, which all of its hooks share."),
    key("__id__", Type::Text, "The script's own id, its file's name."),
    key("__user__", Type::Handle("__user__"), "The user of the request: `id name email role valves`."),
    key(
        "__metadata__",
        Type::Map,
        "One map per turn that all hooks of all filters share: `outlet` reads the entries that `inlet` stores.",
    ),
    key(
        "__model__",
        Type::Handle("__model__"),
        "The turn's model: `id name provider`; `()` if it is not configured.",
    ),
    key(
        "__request__",
        Type::Handle("__request__"),
        "The HTTP request: `method path headers client`, without credentials.",
    ),
    key("__chat_id__", Type::Text, "The conversation's id, \"\" if there is none."),
    key("__message_id__", Type::Text, "The id of the message that is being answered, \"\" if there is none."),
    key("__features__", Type::Any, "The features that the client enabled; `()` if it sends none."),
    key("__files__", Type::Any, "Uploaded files; `()` if there are none."),
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
        "In a tool: a copy of the conversation up to the model's call; empty if no model called it.",
    ),
    key(
        "__tools__",
        Type::Map,
        "In a pipe with `requirements: tools`: the tools of the turn by name: `__tools__.weather.spec`, \
         `__tools__.weather.callable.call(#{ city: \"Rome\" })`.",
    ),
    key(
        "__action_id__",
        Type::Text,
        "In an action: the id of the button that was pressed, the file's name if it has only one. There, `__id__` has the same value.",
    ),
];

/// Returns the keys of the opening comment; other keys are only for readers.
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
        "The capabilities it uses, separated by commas: `http kv llm tools files shell env vectors memories chats`.",
    ),
    key("required_host_version", Type::Text, "The minimum version of the host, such as 1.2.0."),
    key(
        "priority",
        Type::Number,
        "The place in the chain, lower first, for a script without a valve `priority`.",
    ),
    switch("global", TRUTH, "`false`: runs only for models that list it."),
    switch(
        "on_error",
        &["abort", "continue"],
        "The effect of an error in it: `abort` fails the request, `continue` skips the filter.",
    ),
    switch(
        "mode",
        &["enforce", "audit"],
        "`audit`: a filter runs on copies; its verdicts and changes are counted and traced, and nothing of them reaches the client.",
    ),
    switch("security", TRUTH, "`true`: a guard. If it cannot run, requests are rejected."),
    switch("hold", TRUTH, "`true`: streamed answers are sent only when complete."),
    key(
        "match",
        Type::Text,
        "Texts separated by commas; `stream` is only called for events whose text contains one of them.",
    ),
    key(
        "needs",
        Type::Text,
        "Valves separated by commas; the filter is in no chain until one of them has a value that is not empty, 0 or `false`. A guard with other valves set, but none of these, rejects requests.",
    ),
    key(
        "allow_hosts",
        Type::Text,
        "Hosts that `http::` can access, separated by commas: `api.example.com`, `*.example.com`, `valve:NAME` for the host in a valve.",
    ),
    key("tag", Type::Text, "The tags of a tool, separated by commas."),
    key("timeout", Type::Integer, "The time limit of a tool, a pipe or an action, in milliseconds."),
    key("retry", Type::Text, "The retries of a tool and the milliseconds between them, `3, 1000`."),
    switch("idempotent", TRUTH, "`true`: running the tool twice has the same effect as running it once."),
];

/// The constants that declare properties of a plugin. They are literal, and read without running it.
pub const CONSTANTS: &[KeyDoc] = &[
    key(
        "Valves",
        Type::Map,
        "Settings that operators can change: a default, or a map with `value` and the keys of a valve.",
    ),
    key(
        "UserValves",
        Type::Map,
        "Settings that each user can change, in the same form. Their values are in `__user__.valves`.",
    ),
    key(
        "file_handler",
        Type::Boolean,
        "`true`: the script handles uploaded files; the host removes them from the request.",
    ),
    key(
        "endpoints",
        Type::Array,
        "The endpoints at which it runs: `\"chat\"` (all chat protocols; the default), `\"embeddings\"`, `\"images\"`, `\"completions\"`. Except for chats, only `inlet` runs: each input text is a message of `body.messages`, `body.endpoint` names the endpoint, and edited contents are written back.",
    ),
    key("toggle", Type::Boolean, "`true`: it runs only for requests that select it."),
    key("icon", Type::Text, "A picture for people: a URL, `data:` included."),
    key("on_tool_error", Type::Boolean, "`true`: `post_invocation` sees failed tool calls too."),
    key("callbacks", Type::Boolean, "`true`: its functions `on_…` receive the events of agents."),
    key(
        "tool",
        Type::Map,
        "Of a tool: a replacement for the opening comment, `#{ description, tag, timeout, retry }`.",
    ),
    key(
        "parameters",
        Type::Map,
        "Of a tool: its arguments by name, `#{ type, description, required, \"default\", \"enum\" … }` each.",
    ),
    key(
        "actions",
        Type::Array,
        "Of an action: its buttons, if it has several, `#{ id, name, icon_url }` each.",
    ),
    key(
        "ttl",
        Type::Text,
        "The interval at which `pipes()` or `tools()` are called in the background, where they can wait, from `\"1s\"` to `\"30d\"`, such as `\"1h30m\"`. The last valid list stays in use.",
    ),
    key(
        "every",
        Type::Text,
        "The time between two calls of `tick()`, from `\"1s\"` to `\"30d\"`. Up to a tenth of it, at most a minute, is added so that scripts do not all run at once.",
    ),
];

/// The keys of a valve.
pub const VALVE_KEYS: &[KeyDoc] = &[
    key("value", Type::Any, "The default; `()` with a `type` makes it optional."),
    switch("type", ValveSchema::TYPES, "The type, if it is not that of the default."),
    key("title", Type::Text, "The display name."),
    key("description", Type::Text, "The description of the setting."),
    key("minimum", Type::Number, "The minimum value."),
    key("maximum", Type::Number, "The maximum value."),
    key("enum", Type::Array, "The allowed values."),
    key("pattern", Type::Text, "A pattern that a text must match."),
    key(
        "items",
        Type::Any,
        "The type of the elements of an array, or a map of `type minimum maximum enum pattern`.",
    ),
    key("secret", Type::Boolean, "`true`: the value is never shown in an answer, a log or on the page."),
    key("multiline", Type::Boolean, "`true`: a text of several lines."),
];

/// The keys of a tool's argument.
pub const PARAMETER_KEYS: &[KeyDoc] = &[
    switch("type", &ValueKind::NAMES, "Its type."),
    key("description", Type::Text, "The description for the model."),
    key("required", Type::Boolean, "`true`: a call without it is rejected."),
    key("default", Type::Any, "The value if the model sends none."),
    key("enum", Type::Array, "The only values it may have."),
    key("items", Type::Map, "The type of an array's elements."),
    key("properties", Type::Map, "The fields of an object."),
    key("minimum", Type::Number, "The minimum value."),
    key("maximum", Type::Number, "The maximum value."),
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

/// The capabilities that scripts may declare in `requirements`.
pub const CAPABILITIES: &[KeyDoc] = &[
    key("http", Type::Nothing, "Other hosts: `http::…`. They are declared in `allow_hosts` or granted."),
    key("files", Type::Nothing, "Files in granted folders: `files::…`."),
    key("shell", Type::Nothing, "Granted programs: `shell::run`."),
    key("env", Type::Nothing, "Granted environment variables: `env::get`."),
    key("kv", Type::Nothing, "A permanent key-value store: `kv::…`. The declaration grants it."),
    key("llm", Type::Nothing, "Models of this host: `llm::chat`. The declaration grants it."),
    key(
        "tools",
        Type::Nothing,
        "Tools of this host: `tools::call`. The declaration grants the tools of the turn; others need a grant.",
    ),
    key("vectors", Type::Nothing, "Stored vectors of its own: `vectors::…`. The declaration grants it."),
    key("memories", Type::Nothing, "The memories of the user: `memories::…`. They need a grant."),
    key("chats", Type::Nothing, "The stored conversations of the user: `chats::…`. They need a grant."),
];
