//! The JSON keys that scripts use, with their meaning. Other keys of a request are passed to scripts too.
//!
//! Also converts types of the engine into those of the reference.

use valvehouse_dialect::value::{Shape, Type};

/// The description of `ctx.kernel`.
const KERNEL: &str =
    "The kernel of the turn: `ctx.kernel.invoke(name, args)` calls a tool, as `tools::call` does.";

/// A value and its keys.
pub(super) struct Keys {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The shape in which the host holds it, if the host computes properties.
    pub(super) shape: Option<Shape>,
    pub(super) is_open: bool,
    pub(super) is_list: bool,
    pub(super) element: Type,
    pub(super) words: &'static [Key],
}

/// A key of a value.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Type,
    /// `true` if an assignment has an effect.
    pub(super) is_writable: bool,
    pub(super) doc: &'static str,
}

const fn readable(name: &'static str, kind: Type, doc: &'static str) -> Key {
    Key { name, kind, is_writable: false, doc }
}

const fn writable(name: &'static str, kind: Type, doc: &'static str) -> Key {
    Key { name, kind, is_writable: true, doc }
}

const MAP: Keys =
    Keys { name: "", about: "", shape: None, is_open: true, is_list: false, element: Type::Text, words: &[] };

const MESSAGES: Type = Type::Handle("messages");

pub(super) const HANDLES: &[Keys] = &[
    Keys {
        name: "body",
        about: "The request or conversation of a turn: in `inlet` the request of the client, in `outlet` \
                the conversation with the answer last. The model and the client receive the changed body.",
        shape: Some(Shape::Body),
        words: &[
            writable(
                "model",
                Type::Text,
                "The model of the request. Assigning another one in `inlet` sends the turn to that model.",
            ),
            writable("messages", MESSAGES, "The conversation."),
            writable("stream", Type::Boolean, "True if the client requests a streamed answer."),
            writable("temperature", Type::Number, "The sampling temperature; `()` for the model's default."),
            writable(
                "top_p",
                Type::Number,
                "The nucleus sampling probability; `()` for the model's default.",
            ),
            writable(
                "max_tokens",
                Type::Integer,
                "The maximum length of the answer in tokens; `()` for the model's limit.",
            ),
            writable("stop", Type::Any, "A stop sequence or a list of them."),
            writable("tools", Type::Array, "The client's own tools."),
            writable(
                "tool_choice",
                Type::Any,
                "The tool that the model must call, or a mode such as `\"auto\"`.",
            ),
            writable(
                "response_format",
                Type::Map,
                "The required format of the answer, for example a JSON schema.",
            ),
            writable(
                "metadata",
                Type::Map,
                "Metadata of the client. With `store: true` its texts are sent to the service, except those of the host: `chat_id message_id session_id variables features files tool_ids filter_ids user_id`.",
            ),
            writable("files", Type::Array, "Uploaded files. They are not sent to the model."),
            writable(
                "features",
                Type::Map,
                "The features that the client enabled, for example web search. They are not sent to the \
                 model.",
            ),
            writable("chat_id", Type::Text, "The conversation's id; `()` if the client sends none."),
            writable("session_id", Type::Text, "The client's session; `()` if it sends none."),
            writable(
                "id",
                Type::Text,
                "The id of the message that is being answered; `()` if there is none.",
            ),
            writable(
                "user",
                Type::Any,
                "The user id that the client sent; `__user__` is the user as known to the host.",
            ),
            writable("filter_ids", Type::Array, "The toggle filters that the request selects."),
            writable("tool_ids", Type::Array, "The tools of the model that the request selects."),
        ],
        ..MAP
    },
    Keys {
        name: "messages",
        about: "A conversation, the oldest message first. It is a list with further keys and methods.",
        is_list: true,
        is_open: false,
        element: Type::Handle("message"),
        ..MAP
    },
    Keys {
        name: "message",
        about: "One message of a conversation.",
        shape: Some(Shape::Message),
        words: &[
            writable(
                "role",
                Type::Text,
                "The role of the author: `\"system\"`, `\"user\"`, `\"assistant\"` or `\"tool\"`.",
            ),
            writable(
                "content",
                Type::Any,
                "The content: a text, a list of parts, or `()` with tool calls. `text` reads and writes any \
                 form as text.",
            ),
            writable(
                "tool_calls",
                Type::Array,
                "The tools that an answer calls: a list of `#{ id, type, function: #{ name, arguments } }`, the arguments as JSON text; `()` if there are none.",
            ),
            writable(
                "tool_call_id",
                Type::Text,
                "In a message of the role `tool`: the call that it answers.",
            ),
            writable("name", Type::Text, "The name of the author or of the tool; `()` if there is none."),
            writable(
                "reasoning_content",
                Type::Text,
                "The reasoning of the model, if the service reports it.",
            ),
            writable(
                "refusal",
                Type::Text,
                "The reason why the model refused to answer; `()` if it did not.",
            ),
            readable(
                "usage",
                Type::Handle("usage"),
                "The tokens of the answer, in `outlet`; `()` if the service does not report them.",
            ),
            readable("finish_reason", Type::Text, "The reason why the answer ended, in `outlet`."),
        ],
        ..MAP
    },
    Keys {
        name: "text_place",
        about: "A text of an event or message, an element of `texts`. Reading and writing it applies to the event or message.",
        is_open: false,
        ..MAP
    },
    Keys {
        name: "event",
        about: "One event of a streamed answer, as the service sends it. An unstreamed answer is one event.",
        shape: Some(Shape::Event),
        words: &[
            readable("id", Type::Text, "The answer's id, the same in all of its events."),
            readable("object", Type::Text, "`\"chat.completion.chunk\"`"),
            readable("created", Type::Integer, "The start of the answer in Unix seconds."),
            readable("model", Type::Text, "The model that answers."),
            writable("choices", Type::Array, "The choices, each `#{ index, delta, finish_reason }`."),
            readable("usage", Type::Handle("usage"), "The token counts, in the last event; `()` before."),
        ],
        ..MAP
    },
    Keys {
        name: "ctx",
        about: "The call of a model or of a tool: `messages` and `result` of a model's, `tool`, `args` \
                and `result` of a tool's.",
        shape: Some(Shape::Ctx),
        is_open: false,
        words: &[
            writable("messages", MESSAGES, "The messages to the model, in `pre_chat` and `post_chat`."),
            writable(
                "result",
                Type::Handle("result"),
                "The answer in `post_chat`, the tool's result in `post_invocation`.",
            ),
            readable("model", Type::Text, "The called model, in `pre_chat`."),
            readable(
                "tool",
                Type::Handle("tool"),
                "In `pre_invocation` and `post_invocation`, the called tool.",
            ),
            writable(
                "args",
                Type::Map,
                "The tool's arguments; the tool receives those assigned in `pre_invocation`.",
            ),
            readable(
                "caller",
                Type::Text,
                "In `pre_invocation` and `post_invocation`, the script that calls the tool with `tools::call`; `()` if a model calls it.",
            ),
            readable(
                "error",
                Type::Text,
                "In `post_invocation` with `const on_tool_error = true`: the error of the tool, or `()`.",
            ),
            readable(
                "context",
                Type::Handle("context"),
                "The variables shared by tools and filters of the turn.",
            ),
            writable("metadata", Type::Map, "The turn's map, the same as `__metadata__`."),
            readable("kernel", Type::Any, KERNEL),
        ],
        ..MAP
    },
    Keys {
        name: "result",
        about: "The complete answer of a model.",
        shape: Some(Shape::Message),
        words: &[
            writable("content", Type::Any, "The content; `()` with tool calls."),
            writable("tool_calls", Type::Array, "The tool calls; `()` if there are none."),
            readable(
                "finish_reason",
                Type::Text,
                "The reason why the answer ended: `\"stop\"`, `\"length\"`, `\"tool_calls\"` …",
            ),
            readable(
                "usage",
                Type::Handle("usage"),
                "The tokens of the answer; `()` if the service does not report them.",
            ),
            readable("model", Type::Text, "The model that answered."),
            readable("id", Type::Text, "The answer's id."),
        ],
        ..MAP
    },
    Keys {
        name: "tool",
        about: "The definition of the called tool.",
        is_open: false,
        words: &[
            readable("name", Type::Text, "The name for models."),
            readable("description", Type::Text, "The description for models."),
            readable("parameters", Type::Map, "Its arguments, as a JSON schema."),
            readable("tags", Type::Array, "The tags for searching tools."),
            readable("tag", Type::Array, "The same as `tags`."),
            readable("timeout", Type::Integer, "The time limit of one attempt, in milliseconds."),
            readable(
                "retry",
                Type::Map,
                "The repeated attempts after a failure: `#{max, delay}`, in milliseconds.",
            ),
            readable("filters", Type::Array, "The names of the tool's own filters."),
            readable(
                "metadata",
                Type::Map,
                "Further properties of the tool. Its handler is not a value of scripts: `ctx.kernel.invoke(name, args)` calls the tool.",
            ),
        ],
        ..MAP
    },
    Keys {
        name: "usage",
        about: "The token counts of an answer.",
        words: &[
            readable("prompt_tokens", Type::Integer, "Tokens of the request, the conversation included."),
            readable("completion_tokens", Type::Integer, "Tokens of the answer."),
            readable("total_tokens", Type::Integer, "The sum of both."),
        ],
        ..MAP
    },
    Keys {
        name: "context",
        about: "The variables shared by tools and filters of a turn; also the `ctx` of a tool.",
        shape: Some(Shape::Context),
        is_open: false,
        words: &[
            writable("variables", Type::Map, "The variables that `get` and `set` access."),
            readable("history", Type::Array, "The messages of the turn so far."),
            readable(
                "trace",
                Type::Any,
                "The tool calls of the turn: `{type: \"tool_call\", name, args, ok}` with `result` or `error`, and `skipped` if a filter answered instead of the tool.",
            ),
            writable("metadata", Type::Map, "The turn's own map, the same as `__metadata__`."),
            readable("client", Type::Map, "The variables that the client sent, unverified."),
            readable("run_id", Type::Text, "The id of the agent's run; `()` outside of a run."),
            readable("agent_id", Type::Text, "The id of the agent; `()` outside of a run."),
            readable("kernel", Type::Any, KERNEL),
        ],
        ..MAP
    },
    Keys {
        name: "__user__",
        about: "The user of the request, as known to the host.",
        words: &[
            readable("id", Type::Text, "The user's id; `()` if unknown."),
            readable("name", Type::Text, "The user's name."),
            readable("email", Type::Text, "The user's email address."),
            readable(
                "role",
                Type::Text,
                "`\"admin\"` or `\"user\"`; `()` if only the body of a client's request names it.",
            ),
            readable(
                "locale",
                Type::Text,
                "The user's language, such as `\"de-AT\"`; `()` if the client does not send it.",
            ),
            readable(
                "timezone",
                Type::Text,
                "The user's time zone, such as `\"Europe/Vienna\"`; `()` if the client does not send it.",
            ),
            readable(
                "valves",
                Type::Map,
                "The user's values of this script's `UserValves`, with the defaults of the others.",
            ),
        ],
        ..MAP
    },
    Keys {
        name: "__model__",
        about: "The model of the turn, as configured; `()` if it is not configured.",
        words: &[
            readable("id", Type::Text, "The id for clients."),
            readable("name", Type::Text, "The display name."),
            readable("provider", Type::Text, "The provider of the model."),
            readable("model", Type::Text, "The provider's name for it."),
            readable("description", Type::Text, "The description; only if configured."),
            readable("abilities", Type::Array, "The abilities, such as `\"vision\"`; only if configured."),
            readable(
                "context_length",
                Type::Integer,
                "The most tokens of a request and its answer; only if configured.",
            ),
            readable("price", Type::Map, "The price of a million tokens by their kind; only if configured."),
            readable("fallbacks", Type::Array, "The models that answer where it cannot."),
            readable("system_prompt", Type::Text, "Its system prompt, `()` if it has none."),
            readable("filters", Type::Array, "The filters that it lists."),
            readable("tools", Type::Array, "The tools that it is offered."),
            readable("actions", Type::Array, "The actions that it lists."),
            readable("tool_search", Type::Boolean, "`true` if it searches for tools."),
            readable("max_tool_iterations", Type::Integer, "The most model calls of one turn."),
            readable("memory", Type::Boolean, "`true` if its conversations are stored."),
            readable("variables", Type::Map, "The variables of its turns; only if configured."),
        ],
        ..MAP
    },
    Keys {
        name: "__request__",
        about: "The HTTP request of the turn, without credentials.",
        is_open: false,
        words: &[
            readable("method", Type::Text, "`\"POST\"`"),
            readable("path", Type::Text, "The path of its URL."),
            readable("headers", Type::Map, "Its headers, by names in lower case."),
            readable("client", Type::Text, "The address of the client; `()` if there is none."),
        ],
        ..MAP
    },
    Keys {
        name: "stream",
        about: "A streamed answer: a loop runs over its parts. Its connection is closed when the script no \
                longer holds the value.",
        is_open: false,
        element: Type::Any,
        ..MAP
    },
    Keys {
        name: "http_answer",
        about: "The answer of a host, of any status.",
        is_open: false,
        words: &[
            readable("status", Type::Integer, "The HTTP status, for example 200."),
            readable(
                "headers",
                Type::Map,
                "Its headers, with lowercase names; repeated ones joined by `, `.",
            ),
            readable(
                "text",
                Type::Text,
                "Its body as text. Reading it fails if the body is not UTF-8, for example an image.",
            ),
            readable("bytes", Type::Blob, "Its body as bytes."),
        ],
        ..MAP
    },
    Keys {
        name: "program_output",
        about: "The result of a program that `shell::run` ran.",
        is_open: false,
        words: &[
            readable(
                "exit_code",
                Type::Integer,
                "The exit code, 0 for success; `()` if a signal ended the program.",
            ),
            readable("stdout", Type::Text, "The text on its standard output."),
            readable("stderr", Type::Text, "The text on its standard error output."),
            readable("signal", Type::Any, "The signal that ended the program, if any."),
            readable("timed_out", Type::Boolean, "True if the program exceeded its timeout."),
            readable("cut", Type::Boolean, "True if the output exceeded its limit and was cut."),
        ],
        ..MAP
    },
    Keys {
        name: "window",
        about: "The state of a window of `kv::window`.",
        is_open: false,
        words: &[
            readable("allowed", Type::Boolean, "True if the event is allowed and counted."),
            readable(
                "count",
                Type::Integer,
                "The number of events in the window, this one included if it is allowed.",
            ),
            readable("retry_after", Type::Integer, "Seconds until the next event is allowed."),
        ],
        ..MAP
    },
    Keys {
        name: "error",
        about: "The error that `catch (e)` receives. The keys of a thrown map are its keys as well.",
        words: &[readable("retry_after", Type::Number, "Seconds to wait, if the thrown map has this key.")],
        ..MAP
    },
    Keys {
        name: "answer",
        about: "The result of `skip`, `error` and `ok`. A script only returns it; it has no keys.",
        is_open: false,
        ..MAP
    },
];

/// Converts the engine's name of a type; `None` for number types that scripts never have.
pub(super) fn type_of_engine(name: &str) -> Option<Type> {
    let name = name.trim();
    let name = name.strip_prefix("RhaiResultOf<").map_or(name, |inner| inner.trim_end_matches('>').trim());
    let name = name.strip_prefix("&mut").unwrap_or(name).trim();
    Some(match name {
        "" | "?" | "any" | "TextOrBytes" | "Dynamic" | "RhaiResult" => Type::Any,
        "()" | "nothing" => Type::Nothing,
        "text" | "&str" | "String" | "ImmutableString" | "char" => Type::Text,
        "number" | "AnyNumber" | "f64" | "FLOAT" => Type::Number,
        "integer" | "i64" | "INT" => Type::Integer,
        "boolean" | "bool" => Type::Boolean,
        "array" | "Array" | "AnyArray" => Type::Array,
        "map" | "Map" | "AnyMap" => Type::Map,
        "closure" | "FnPtr" => Type::Closure,
        "Blob" | "blob" | "Bytes" => Type::Blob,
        "Reading" => Type::Handle("stream"),
        "Instant" => Type::Instant,
        "CharsStream" => Type::Range,
        range if range.contains("Range") => {
            let of_other = ["i8", "i16", "i32", "u8", "u16", "u32", "u64", "i128", "u128", "f32"];
            let of_other = of_other.iter().any(|other| range.contains(&format!("<{other}")));
            return (!of_other).then_some(Type::Range);
        }
        handle => Type::Handle(named(handle)?.name),
    })
}

/// Returns the type of the elements of a type, in a loop or at an index.
pub fn element_of(kind: Type) -> Type {
    match kind {
        Type::ListOf(name) => Type::Handle(name),
        Type::Handle(name) => named(name).map_or(Type::Any, |handle| handle.element),
        Type::Map => Type::Text,
        Type::Range => Type::Integer,
        _ => Type::Any,
    }
}

/// Returns `true` if a value of a type behaves like a list.
pub fn is_list(kind: Type) -> bool {
    match kind {
        Type::Array | Type::ListOf(_) => true,
        Type::Handle(name) => named(name).is_some_and(|handle| handle.is_list),
        _ => false,
    }
}

/// Returns `true` if a value of a type behaves like a map.
pub fn is_map(kind: Type) -> bool {
    matches!(kind, Type::Map) || matches!(kind, Type::Handle(_)) && !is_list(kind)
}

/// Returns the keys of this name. Only names are read, so that types can be converted before all tables are built.
fn named(name: &str) -> Option<&'static Keys> {
    HANDLES.iter().find(|handle| handle.name == name)
}
