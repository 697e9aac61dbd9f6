//! The keys of JSON that scripts meet, with what they mean. Further keys of a request reach the script too.
//!
//! Kinds of values as the engine and the tables of handles know them.

use crate::value::{Shape, Type};

/// A value and its keys.
pub(super) struct Keys {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The shape in which the host holds it, where it computes properties.
    pub(super) shape: Option<Shape>,
    pub(super) is_open: bool,
    pub(super) is_list: bool,
    pub(super) element: Type,
    pub(super) words: &'static [Key],
}

/// One of its keys.
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Type,
    /// `true` if writing it does something.
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
        about: "What a turn is about. In `inlet` the request as the client sent it, in `outlet` the conversation \
                with the answer last. What is changed in it is what the model and the client get.",
        shape: Some(Shape::Body),
        words: &[
            writable(
                "model",
                Type::Text,
                "The model that is asked. Writing another one in `inlet` sends the turn there.",
            ),
            writable("messages", MESSAGES, "The conversation."),
            writable("stream", Type::Boolean, "Whether the client wants the answer piece by piece."),
            writable(
                "temperature",
                Type::Number,
                "How freely the model chooses its words; `()` leaves it to the model.",
            ),
            writable(
                "top_p",
                Type::Number,
                "From which share of the likely words the model chooses; `()` leaves it to the model.",
            ),
            writable(
                "max_tokens",
                Type::Integer,
                "The longest answer, in tokens; `()` for the model's own limit.",
            ),
            writable("stop", Type::Any, "A text or a list of texts before which the answer ends."),
            writable("tools", Type::Array, "The tools that the client itself offers the model."),
            writable("tool_choice", Type::Any, "Whether and which tool the model has to call."),
            writable(
                "response_format",
                Type::Map,
                "The form that the answer has to have, a JSON schema for example.",
            ),
            writable(
                "metadata",
                Type::Map,
                "What the client says of the request. With `store: true` its texts reach the service, but for those of the host: `chat_id message_id session_id variables features files tool_ids filter_ids user_id`.",
            ),
            writable("files", Type::Array, "Uploaded files. They do not reach the model."),
            writable(
                "features",
                Type::Map,
                "What the client switched on, web search for example. It does not reach the model.",
            ),
            writable("chat_id", Type::Text, "The conversation's id; `()` where the client gives none."),
            writable("session_id", Type::Text, "The client's session; `()` where it gives none."),
            writable(
                "id",
                Type::Text,
                "The id of the message that is being answered; `()` where there is none.",
            ),
            writable(
                "user",
                Type::Any,
                "Who asks, as the client says it; `__user__` is who it is to the host.",
            ),
            writable("filter_ids", Type::Array, "The toggle filters that the request asks for."),
            writable("tool_ids", Type::Array, "The tools that the request narrows its model's to."),
        ],
        ..MAP
    },
    Keys {
        name: "messages",
        about: "A conversation, the oldest message first. It is a list as others are, with some words of its own.",
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
                "Who says it: `\"system\"`, `\"user\"`, `\"assistant\"` or `\"tool\"`.",
            ),
            writable(
                "content",
                Type::Any,
                "What is said: a text, a list of parts, or `()` beside tool calls. `text` reads and writes it in one form.",
            ),
            writable(
                "tool_calls",
                Type::Array,
                "The tools that an answer calls: a list of `#{ id, type, function: #{ name, arguments } }`, the arguments as JSON text; `()` where there are none.",
            ),
            writable(
                "tool_call_id",
                Type::Text,
                "In a message of the role `tool`: the call that it answers.",
            ),
            writable("name", Type::Text, "The name of who speaks, or of the tool; `()` where there is none."),
            writable("reasoning_content", Type::Text, "What the model thought, where the service tells it."),
            writable("refusal", Type::Text, "Why the model refused to answer; `()` where it did not."),
            readable(
                "usage",
                Type::Handle("usage"),
                "In `outlet`, of the answer: the tokens it took; `()` where the service does not count.",
            ),
            readable("finish_reason", Type::Text, "In `outlet`, of the answer: why it ended."),
        ],
        ..MAP
    },
    Keys {
        name: "text_place",
        about: "A place in which text travels, one of `texts`. Reading and writing go to the event or message itself.",
        is_open: false,
        ..MAP
    },
    Keys {
        name: "event",
        about: "One event of an answer that is streamed, as the service sends it. An answer that is not streamed \
                comes as one event.",
        shape: Some(Shape::Event),
        words: &[
            readable("id", Type::Text, "The answer's id, the same in all of its events."),
            readable("object", Type::Text, "`\"chat.completion.chunk\"`"),
            readable("created", Type::Integer, "When the answer began, in Unix seconds."),
            readable("model", Type::Text, "The model that answers."),
            writable("choices", Type::Array, "The pieces, each `#{ index, delta, finish_reason }`."),
            readable(
                "usage",
                Type::Handle("usage"),
                "The tokens of the answer, in its last event; `()` before.",
            ),
        ],
        ..MAP
    },
    Keys {
        name: "ctx",
        about: "What a call of a model or of a tool is about: `messages` and `result` of a model's, `tool`, `args` \
                and `result` of a tool's.",
        shape: Some(Shape::Ctx),
        is_open: false,
        words: &[
            writable(
                "messages",
                MESSAGES,
                "In `pre_chat` what the model will be asked, in `post_chat` what it was asked.",
            ),
            writable(
                "result",
                Type::Handle("result"),
                "In `post_chat` the answer, in `post_invocation` what the tool gave.",
            ),
            readable("model", Type::Text, "In `pre_chat` the model that is asked."),
            readable(
                "tool",
                Type::Handle("tool"),
                "In `pre_invocation` and `post_invocation` the tool that is called.",
            ),
            writable(
                "args",
                Type::Map,
                "The tool's arguments; written in `pre_invocation` they are what it gets.",
            ),
            readable(
                "caller",
                Type::Text,
                "In `pre_invocation` and `post_invocation` the script that calls the tool by `tools::call`; `()` where a model does.",
            ),
            readable(
                "error",
                Type::Text,
                "In `post_invocation` with `const on_tool_error = true`: why the tool failed; `()` where it did not.",
            ),
            readable(
                "context",
                Type::Handle("context"),
                "The variables that tools and filters of the turn share.",
            ),
            writable("metadata", Type::Map, "The turn's own map, the same as `__metadata__`."),
        ],
        ..MAP
    },
    Keys {
        name: "result",
        about: "What a model answered, in one piece.",
        shape: Some(Shape::Message),
        words: &[
            writable("content", Type::Any, "What is said; `()` beside tool calls."),
            writable("tool_calls", Type::Array, "The tools it calls; `()` where there are none."),
            readable(
                "finish_reason",
                Type::Text,
                "Why the answer ended: `\"stop\"`, `\"length\"`, `\"tool_calls\"` …",
            ),
            readable(
                "usage",
                Type::Handle("usage"),
                "The tokens it took; `()` where the service does not count.",
            ),
            readable("model", Type::Text, "The model that answered."),
            readable("id", Type::Text, "The answer's id."),
        ],
        ..MAP
    },
    Keys {
        name: "tool",
        about: "What is known of a tool that is called.",
        is_open: false,
        words: &[
            readable("name", Type::Text, "What models call it."),
            readable("description", Type::Text, "What models read of it."),
            readable("parameters", Type::Map, "Its arguments, as a JSON schema."),
            readable("tags", Type::Array, "What it is found by."),
            readable("metadata", Type::Map, "Whatever else it says of itself."),
        ],
        ..MAP
    },
    Keys {
        name: "usage",
        about: "The tokens that an answer took.",
        words: &[
            readable("prompt_tokens", Type::Integer, "Tokens of the question, with all that was before it."),
            readable("completion_tokens", Type::Integer, "Tokens of the answer."),
            readable("total_tokens", Type::Integer, "Both."),
        ],
        ..MAP
    },
    Keys {
        name: "context",
        about: "The variables that tools and filters of a turn share; the `ctx` of a tool is one.",
        shape: Some(Shape::Context),
        is_open: false,
        words: &[
            writable("variables", Type::Map, "The variables themselves, which `get` and `set` mean."),
            readable("history", Type::Array, "The messages of the turn so far."),
            readable(
                "trace",
                Type::Any,
                "The tool calls of the turn: `{type: \"tool_call\", name, args, ok}` with `result` or `error`, and `skipped` where a filter answered in the place of the tool.",
            ),
            writable("metadata", Type::Map, "The turn's own map, the same as `__metadata__`."),
            readable("client", Type::Map, "The variables that the client sent: its word, and nobody else's."),
        ],
        ..MAP
    },
    Keys {
        name: "__user__",
        about: "Who asks, as far as the host knows it.",
        words: &[
            readable("id", Type::Text, "The user's id; `()` where nobody is known."),
            readable("name", Type::Text, "The user's name."),
            readable("email", Type::Text, "The user's address."),
            readable("role", Type::Text, "`\"admin\"` or `\"user\"`."),
            readable(
                "valves",
                Type::Map,
                "What this user set of this script's `UserValves`, with the defaults of the others.",
            ),
        ],
        ..MAP
    },
    Keys {
        name: "__model__",
        about: "The model of the turn, as the configuration describes it; `()` for one it does not know.",
        words: &[
            readable("id", Type::Text, "What clients call it."),
            readable("name", Type::Text, "What people read."),
            readable("provider", Type::Text, "The provider it is asked from."),
        ],
        ..MAP
    },
    Keys {
        name: "__request__",
        about: "The HTTP request that the turn came with, without credentials.",
        is_open: false,
        words: &[
            readable("method", Type::Text, "`\"POST\"`"),
            readable("path", Type::Text, "The path of its URL."),
            readable("headers", Type::Map, "Its headers, by names in lower case."),
            readable("client", Type::Text, "The address it came from; `()` where there is none."),
        ],
        ..MAP
    },
    Keys {
        name: "stream",
        about: "An answer that is read as it comes: a loop runs over its parts. Its connection is closed when the script lets \
                go of it.",
        is_open: false,
        element: Type::Any,
        ..MAP
    },
    Keys {
        name: "http_answer",
        about: "What a host answered, of whatever status.",
        is_open: false,
        words: &[
            readable("status", Type::Integer, "Its status, 200 for example."),
            readable(
                "headers",
                Type::Map,
                "Its headers, by names in lower case; repeated ones joined by `, `.",
            ),
            readable(
                "text",
                Type::Text,
                "Its body as text. Reading it fails where the body is not UTF-8: an image, for example.",
            ),
            readable("bytes", Type::Blob, "Its body as bytes."),
        ],
        ..MAP
    },
    Keys {
        name: "program_output",
        about: "What a program that `shell::run` ran left behind.",
        is_open: false,
        words: &[
            readable("exit_code", Type::Integer, "0 where it went well; `()` where a signal ended it."),
            readable("stdout", Type::Text, "What it wrote."),
            readable("stderr", Type::Text, "What it wrote beside that."),
            readable("signal", Type::Any, "The signal that ended it, where one did."),
            readable("timed_out", Type::Boolean, "True where it took too long."),
            readable("cut", Type::Boolean, "True where it wrote more than is kept."),
        ],
        ..MAP
    },
    Keys {
        name: "window",
        about: "How full a window of `kv::window` is.",
        is_open: false,
        words: &[
            readable("allowed", Type::Boolean, "Whether there was room; then this one counts."),
            readable("count", Type::Integer, "How many there are, this one included where it was allowed."),
            readable("retry_after", Type::Integer, "Seconds until there is room."),
        ],
        ..MAP
    },
    Keys {
        name: "error",
        about: "What `catch (e)` gets, whatever went wrong. Keys of a thrown map are its words too.",
        words: &[readable("retry_after", Type::Number, "Of a thrown map that has it: seconds to wait.")],
        ..MAP
    },
    Keys {
        name: "answer",
        about: "What `skip`, `error` and `ok` give. It is returned, and has no words.",
        is_open: false,
        ..MAP
    },
];

impl Type {
    /// From what the engine calls it; None for numbers of sizes that scripts never have.
    pub(super) fn of_engine(name: &str) -> Option<Self> {
        let name = name.trim();
        let name =
            name.strip_prefix("RhaiResultOf<").map_or(name, |inner| inner.trim_end_matches('>').trim());
        let name = name.strip_prefix("&mut").unwrap_or(name).trim();
        Some(match name {
            "" | "?" | "any" | "TextOrBytes" | "Dynamic" | "RhaiResult" => Self::Any,
            "()" | "nothing" => Self::Nothing,
            "text" | "&str" | "String" | "ImmutableString" | "char" => Self::Text,
            "number" | "AnyNumber" | "f64" | "FLOAT" => Self::Number,
            "integer" | "i64" | "INT" => Self::Integer,
            "boolean" | "bool" => Self::Boolean,
            "array" | "Array" | "AnyArray" => Self::Array,
            "map" | "Map" | "AnyMap" => Self::Map,
            "closure" | "FnPtr" => Self::Closure,
            "Blob" | "blob" | "Bytes" => Self::Blob,
            "Reading" => Self::Handle("stream"),
            "Instant" => Self::Instant,
            "CharsStream" => Self::Range,
            range if range.contains("Range") => {
                let of_other = ["i8", "i16", "i32", "u8", "u16", "u32", "u64", "i128", "u128", "f32"];
                let of_other = of_other.iter().any(|other| range.contains(&format!("<{other}")));
                return (!of_other).then_some(Self::Range);
            }
            handle => Self::Handle(named(handle)?.name),
        })
    }

    /// Returns the type of an element, in a loop over it or at a place in it.
    pub fn element(self) -> Self {
        match self {
            Self::ListOf(name) => Self::Handle(name),
            Self::Handle(name) => named(name).map_or(Self::Any, |handle| handle.element),
            Self::Map => Self::Text,
            Self::Range => Self::Integer,
            _ => Self::Any,
        }
    }

    /// Returns `true` if it behaves as a list.
    pub fn is_list(self) -> bool {
        match self {
            Self::Array | Self::ListOf(_) => true,
            Self::Handle(name) => named(name).is_some_and(|handle| handle.is_list),
            _ => false,
        }
    }

    /// Returns `true` if it behaves as a map.
    pub fn is_map(self) -> bool {
        matches!(self, Self::Map) || matches!(self, Self::Handle(_)) && !self.is_list()
    }
}

/// The one of that name. Only the names are looked at, so that kinds can be told before all is read.
fn named(name: &str) -> Option<&'static Keys> {
    HANDLES.iter().find(|handle| handle.name == name)
}
