//! The hooks of a turn, and the values passed to them.

use crate::chat::message;
use crate::context::{Context, Turn};
use valvehouse_json::{Json, MisplacedValue};

/// The four filter types of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FilterType {
    /// A filter that runs before a model call.
    PreChat,
    /// A filter that runs during or after a model call.
    PostChat,
    /// A filter that runs before a tool call.
    PreInvocation,
    /// A filter that runs after a tool call.
    PostInvocation,
}

/// A hook point, in the order of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Hook {
    /// Runs once per turn, before the first model call, on the request body.
    Inlet,
    /// Runs before each model call, on `messages`.
    PreChat,
    /// Runs for each event of a model's answer; an answer that is not streamed is one event.
    Stream,
    /// Runs once at the end of that stream; returned events are sent before the end.
    StreamEnd,
    /// Runs after each model call, on `result` and the `messages` that were sent.
    PostChat,
    /// Runs before each tool call, on `tool` and `args`.
    PreInvocation,
    /// Runs after each tool call, on `tool`, `args` and `result`.
    PostInvocation,
    /// Runs once per turn, after the last model call, on the conversation with the answer last.
    Outlet,
}

impl Hook {
    /// All hooks, in the order of a turn.
    pub const ALL: [Self; 8] = [
        Self::Inlet,
        Self::PreChat,
        Self::Stream,
        Self::StreamEnd,
        Self::PostChat,
        Self::PreInvocation,
        Self::PostInvocation,
        Self::Outlet,
    ];

    /// Returns the name of the hook in scripts, lists and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inlet => "inlet",
            Self::PreChat => "pre_chat",
            Self::Stream => "stream",
            Self::StreamEnd => "stream_end",
            Self::PostChat => "post_chat",
            Self::PreInvocation => "pre_invocation",
            Self::PostInvocation => "post_invocation",
            Self::Outlet => "outlet",
        }
    }

    /// Returns the hook of a name, `None` for an unknown name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| hook.name() == name)
    }

    /// Returns the kernel's filter type of this hook.
    pub const fn filter_type(self) -> FilterType {
        match self {
            Self::Inlet | Self::PreChat => FilterType::PreChat,
            Self::Stream | Self::StreamEnd | Self::PostChat | Self::Outlet => FilterType::PostChat,
            Self::PreInvocation => FilterType::PreInvocation,
            Self::PostInvocation => FilterType::PostInvocation,
        }
    }

    /// Returns `true` if the hook receives an object of named parts with the turn's context and metadata. The
    /// other hooks receive a body or an event.
    pub const fn has_ctx(self) -> bool {
        matches!(self, Self::PreChat | Self::PostChat | Self::PreInvocation | Self::PostInvocation)
    }

    /// Returns `true` if the hook runs before the model or tool call it belongs to. A rejection there is a
    /// decision about the request and applies even if failures are ignored.
    pub const fn is_before(self) -> bool {
        matches!(self.filter_type(), FilterType::PreChat | FilterType::PreInvocation)
    }
}

impl std::fmt::Display for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hooks(u8);

impl Hooks {
    /// Adds a hook.
    #[must_use]
    pub const fn with(self, hook: Hook) -> Self {
        Self(self.0 | 1 << hook as u8)
    }

    /// Returns `true` if the set contains a hook.
    pub const fn contains(self, hook: Hook) -> bool {
        self.0 & 1 << hook as u8 != 0
    }

    /// Removes the hooks of another set.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Returns the hooks of the set, in the order of a turn.
    pub fn iter(self) -> impl Iterator<Item = Hook> {
        Hook::ALL.into_iter().filter(move |hook| self.contains(*hook))
    }
}

impl FromIterator<Hook> for Hooks {
    fn from_iter<I: IntoIterator<Item = Hook>>(hooks: I) -> Self {
        hooks.into_iter().fold(Self::default(), Self::with)
    }
}

/// The untyped value passed to a hook, and its turn. The subjects, such as [`PreChat`](super::PreChat), are its
/// typed form.
///
/// The value is live: the request body for `inlet`, the conversation for `outlet`, one event for `stream`; for
/// the other hooks an object with the fields that the methods of this type return.
#[derive(Clone, Debug)]
pub struct FilterContext {
    /// The value that the hook processes.
    pub value: Json,
    /// The turn in which the hook runs.
    pub turn: Turn,
}

impl FilterContext {
    /// Creates a context from a value and its turn.
    pub fn new(value: Json, turn: &Turn) -> Self {
        Self { value, turn: turn.clone() }
    }

    /// Returns the messages of the model call (`pre_chat`, `post_chat`) or of the body.
    pub fn messages(&self) -> Json {
        self.field("messages")
    }

    /// Adds a paragraph at the end of the system message, unless the messages are read-only.
    pub(super) fn append_system(&self, text: &str) {
        if let Json::Array(messages) = self.messages() {
            _ = message::append_system(&messages, text);
        }
    }

    /// Replaces the messages.
    pub fn set_messages(&mut self, messages: impl Into<Json>) {
        self.set("messages", messages.into());
    }

    /// Returns the description of the called tool.
    pub fn tool(&self) -> Json {
        self.field("tool")
    }

    /// Returns the arguments of the tool call.
    pub fn args(&self) -> Json {
        self.field("args")
    }

    /// Replaces the arguments.
    pub fn set_args(&mut self, args: impl Into<Json>) {
        self.set("args", args.into());
    }

    /// Returns the result of the tool or model call.
    pub fn result(&self) -> Json {
        self.field("result")
    }

    /// Replaces the result.
    pub fn set_result(&mut self, result: impl Into<Json>) {
        self.set("result", result.into());
    }

    /// Returns the error of a failed tool call, for filters that handle failures; otherwise null.
    pub fn error(&self) -> Json {
        self.field("error")
    }

    /// Returns the context of the turn: its variables, history and metadata.
    pub fn context(&self) -> &Context {
        self.turn.context()
    }

    /// Returns the live metadata map of the turn, shared by all hooks.
    pub fn metadata(&self) -> &Json {
        self.turn.metadata()
    }

    fn field(&self, name: &str) -> Json {
        self.value.field(name)
    }

    fn set(&self, name: &str, value: Json) {
        match self.value.set(name, value) {
            Ok(()) => {}
            // The value contains its own context, so the previous value is preserved.
            Err(MisplacedValue::Cycle | MisplacedValue::TooDeep) => {
                tracing::warn!(field = name, "ignored a value that contains itself or is nested too deep");
            }
            Err(_) => {}
        }
    }
}
