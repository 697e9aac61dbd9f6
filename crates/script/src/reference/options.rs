//! The keys of the maps that functions take as options, for completion.

use super::script::{KeyDoc, key, switch};
use crate::value::Type;

/// Returns the keys of a map that is an argument of a function, such as `http::get`, or of `throw`; `None` if the
/// function takes no options.
pub fn options_of(function: &str) -> Option<&'static [KeyDoc]> {
    let (module, name) = function.rsplit_once("::").unwrap_or(("", function));
    Some(match (module, name) {
        ("http", "get" | "post" | "put" | "patch" | "delete" | "head" | "request" | "stream") => HTTP,
        ("http" | "llm" | "tools", "all") | ("", "parallel") => PARALLEL,
        ("llm", "chat" | "stream") => CHAT,
        ("llm", "embed") => EMBED,
        ("", "retry") => RETRY,
        ("", "poll") => POLL,
        ("", "throw" | "error" | "deny") => REJECTION,
        ("", "emit" | "ask" | "__event_emitter__" | "__event_call__") => EVENT,
        ("csv", "parse") => CSV_PARSE,
        ("csv", "write") => CSV_WRITE,
        ("xlsx", "write") => XLSX,
        _ => return None,
    })
}

const HTTP: &[KeyDoc] = &[
    key("headers", Type::Map, "The headers, by name."),
    key("query", Type::Map, "The parameters of the URL."),
    key("json", Type::Any, "The body, sent as JSON."),
    key("form", Type::Map, "The body, sent as a form."),
    key("multipart", Type::Any, "The parts of a form with files."),
    key("body", Type::Any, "The body, a text or bytes."),
    key("timeout", Type::Integer, "The time limit in milliseconds."),
    key("max_bytes", Type::Integer, "The maximum size of the answer, in bytes."),
];

const PARALLEL: &[KeyDoc] = &[
    key("limit", Type::Integer, "The maximum number of calls at a time."),
    key("settle", Type::Boolean, "`true`: returns `#{ value }` or `#{ error }` of each call."),
];

const CHAT: &[KeyDoc] = &[
    key("model", Type::Text, "The model; by default that of the turn."),
    key("messages", Type::Array, "The messages."),
    key("filters", Type::Boolean, "As the second argument, `false`: no filters run but guards."),
];

const EMBED: &[KeyDoc] = &[key("model", Type::Text, "The model that computes the vectors.")];

const RETRY: &[KeyDoc] = &[
    key("times", Type::Integer, "The maximum number of calls."),
    key("delay", Type::Integer, "The first pause in milliseconds."),
    key("max_delay", Type::Integer, "The longest pause in milliseconds."),
];

const POLL: &[KeyDoc] = &[
    key("every", Type::Integer, "The pause between two calls in milliseconds."),
    key("timeout", Type::Integer, "The time limit in milliseconds."),
];

const REJECTION: &[KeyDoc] = &[
    key("status", Type::Integer, "The HTTP status, 400 to 599."),
    key("message", Type::Text, "The text for the client."),
    key("retry_after", Type::Number, "The number of seconds after which a retry makes sense."),
];

const EVENT: &[KeyDoc] = &[
    switch(
        "type",
        &[
            "status",
            "message",
            "replace",
            "source",
            "citation",
            "notification",
            "files",
            "embeds",
            "confirmation",
            "input",
            "chat:title",
            "chat:tags",
        ],
        "The kind of event.",
    ),
    key("data", Type::Map, "The content of the event."),
];

const CSV_PARSE: &[KeyDoc] = &[
    key("header", Type::Boolean, "`false`: rows are arrays."),
    key("delimiter", Type::Text, "The separator of values."),
];

const CSV_WRITE: &[KeyDoc] = &[
    key("columns", Type::Array, "The keys of the rows, in order."),
    key("delimiter", Type::Text, "The separator of values."),
];

const XLSX: &[KeyDoc] = &[
    key("columns", Type::Array, "The keys of the rows, in order."),
    key("sheet", Type::Text, "The name of the sheet."),
];
