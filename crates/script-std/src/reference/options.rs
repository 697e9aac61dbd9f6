//! The keys of the maps that functions take as options: what completion offers, lints require and calls accept.

use super::script::{KeyDoc, key, switch};
use valvehouse_dialect::value::Type;

/// The option map of a function.
#[derive(Clone, Copy)]
pub struct FunctionOptions {
    /// The index of the argument that is the map.
    pub at: usize,
    keys: &'static [&'static [KeyDoc]],
    /// `true` if a call with another key fails.
    pub is_closed: bool,
}

impl FunctionOptions {
    /// Returns the keys that the map may have.
    pub fn keys(self) -> Vec<&'static KeyDoc> {
        self.keys.iter().copied().flatten().collect()
    }

    const fn closed(at: usize, keys: &'static [&'static [KeyDoc]]) -> Self {
        Self { at, keys, is_closed: true }
    }

    const fn open(at: usize, keys: &'static [&'static [KeyDoc]]) -> Self {
        Self { at, keys, is_closed: false }
    }
}

/// Returns the options of a function, such as `http::get`, or of `throw`; `None` if the function takes none.
pub fn options_of(function: &str) -> Option<FunctionOptions> {
    let (module, name) = function.rsplit_once("::").unwrap_or(("", function));
    let module = module.split("::").next().unwrap_or(module);
    Some(match (module, name) {
        ("chats", "list") => FunctionOptions::closed(0, &[CHATS]),
        ("chats", "read") => FunctionOptions::closed(1, &[MESSAGES]),
        ("chats", "search") => FunctionOptions::closed(1, &[FOUND]),
        ("csv", "parse") => FunctionOptions::closed(1, &[CSV_PARSE]),
        ("csv", "write") => FunctionOptions::closed(1, &[CSV_WRITE]),
        ("files", "write") => FunctionOptions::closed(2, &[FILE_WRITE]),
        ("http", "get" | "post" | "put" | "patch" | "delete" | "head") => FunctionOptions::closed(1, &[HTTP]),
        ("http", "request") => FunctionOptions::closed(2, &[HTTP]),
        ("http", "stream") => FunctionOptions::closed(1, &[HTTP, HTTP_STREAM]),
        ("http" | "llm" | "tools", "all") | ("", "parallel") => FunctionOptions::closed(1, &[PARALLEL]),
        ("jwt", "sign") => FunctionOptions::closed(2, &[JWT_SIGN]),
        ("jwt", "verify") => FunctionOptions::closed(2, &[JWT_VERIFY]),
        ("llm", "chat" | "stream") => FunctionOptions::open(0, &[CHAT]),
        ("llm", "embed") => FunctionOptions::closed(1, &[EMBED]),
        ("memories", "search") | ("vectors", "nearest") => FunctionOptions::closed(2, &[SIMILAR]),
        ("shell", "run") => FunctionOptions::closed(1, &[SHELL]),
        ("xlsx", "write") => FunctionOptions::closed(1, &[XLSX]),
        ("", "retry") => FunctionOptions::closed(0, &[RETRY]),
        ("", "poll") => FunctionOptions::closed(0, &[POLL]),
        ("", "throw" | "error" | "deny") => FunctionOptions::open(0, &[REJECTION]),
        ("", "emit" | "ask" | "__event_emitter__" | "__event_call__") => FunctionOptions::open(0, &[EVENT]),
        _ => return None,
    })
}

const CHATS: &[KeyDoc] = &[
    key("limit", Type::Integer, "The maximum number of chats."),
    key("before", Type::Number, "Only chats that changed before this time, in Unix seconds."),
];

const MESSAGES: &[KeyDoc] = &[
    key("from", Type::Integer, "The index of the first message, from 0."),
    key("limit", Type::Integer, "The maximum number of messages."),
];

const FOUND: &[KeyDoc] = &[key("limit", Type::Integer, "The maximum number of chats.")];

const FILE_WRITE: &[KeyDoc] = &[
    key("append", Type::Boolean, "`true`: adds to the end of the file."),
    key("parents", Type::Boolean, "`true`: creates missing folders."),
];

const HTTP_STREAM: &[KeyDoc] = &[
    key("method", Type::Text, "The method, by default `\"GET\"`."),
    switch("read", &["lines", "sse", "chunks"], "The pieces in which the answer is read."),
];

const JWT_SIGN: &[KeyDoc] = &[
    switch("algorithm", &["HS256", "RS256", "ES256"], "The algorithm of the signature."),
    key("kid", Type::Text, "The name of the key, in the token."),
];

const JWT_VERIFY: &[KeyDoc] = &[
    switch("algorithm", &["HS256", "RS256", "ES256"], "The expected algorithm."),
    key("audience", Type::Text, "The audience that the token must have."),
    key("issuer", Type::Text, "The issuer that the token must have."),
    key("leeway", Type::Number, "The tolerance of `exp` and `nbf`, in seconds."),
];

const SIMILAR: &[KeyDoc] = &[key("min_score", Type::Number, "The least similarity, at most 1.")];

const SHELL: &[KeyDoc] = &[
    key("stdin", Type::Text, "The input of the program."),
    key("folder", Type::Text, "The folder in which the program runs."),
    key("timeout", Type::Integer, "The time limit in milliseconds."),
];

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
