//! The moments of a turn at which a filter may act.
//!
//! The subject of a hook.

use crate::context::{Context, Turn};
use valvehouse_json::{Json, MisplacedValue};

/// The four filter types of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FilterType {
    /// Before a model is asked.
    PreChat,
    /// After, or while, a model answers.
    PostChat,
    /// Before a tool runs.
    PreInvocation,
    /// After a tool ran.
    PostInvocation,
}

/// A moment, in the order of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Hook {
    /// Once per turn, before its first model call; sees the request body.
    Inlet,
    /// Before every model call; sees `messages`.
    PreChat,
    /// Each event of a model's answer; an unstreamed answer is one event.
    Stream,
    /// Once when that stream ends; what it adds is sent before the end.
    StreamEnd,
    /// After every model call; sees `result` and the `messages` used.
    PostChat,
    /// Before every tool call; sees `tool` and `args`.
    PreInvocation,
    /// After every tool call; sees `tool`, `args` and `result`.
    PostInvocation,
    /// Once per turn, after its last model call; sees the conversation with the answer last.
    Outlet,
}

impl Hook {
    /// All moments, in the order of a turn.
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

    /// The name scripts, lists and logs use.
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

    /// The moment of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| hook.name() == name)
    }

    /// The kernel's type for this moment.
    pub const fn filter_type(self) -> FilterType {
        match self {
            Self::Inlet | Self::PreChat => FilterType::PreChat,
            Self::Stream | Self::StreamEnd | Self::PostChat | Self::Outlet => FilterType::PostChat,
            Self::PreInvocation => FilterType::PreInvocation,
            Self::PostInvocation => FilterType::PostInvocation,
        }
    }

    /// Returns `true` if it looks at named parts beside the turn's context and metadata; the others look at a body or
    /// an event.
    pub const fn has_ctx(self) -> bool {
        matches!(self, Self::PreChat | Self::PostChat | Self::PreInvocation | Self::PostInvocation)
    }

    /// Returns `true` if it comes before the thing it is about, so that a refusal there is a decision about the request
    /// and holds even where breakage is forgiven.
    pub const fn is_before(self) -> bool {
        matches!(self.filter_type(), FilterType::PreChat | FilterType::PreInvocation)
    }
}

impl std::fmt::Display for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hooks(u8);

impl Hooks {
    /// The set with one more moment.
    #[must_use]
    pub const fn with(self, hook: Hook) -> Self {
        Self(self.0 | 1 << hook as u8)
    }

    /// Returns `true` if a moment is in it.
    pub const fn contains(self, hook: Hook) -> bool {
        self.0 & 1 << hook as u8 != 0
    }

    /// The set without those of another.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// The moments in it, in the order of a turn.
    pub fn iter(self) -> impl Iterator<Item = Hook> {
        Hook::ALL.into_iter().filter(move |hook| self.contains(*hook))
    }
}

impl FromIterator<Hook> for Hooks {
    fn from_iter<I: IntoIterator<Item = Hook>>(hooks: I) -> Self {
        hooks.into_iter().fold(Self::default(), Self::with)
    }
}

/// The value a hook looks at, and the turn it belongs to.
///
/// The value is live: the request body for `inlet`, the conversation for `outlet`, one event for
/// `stream`; for the others an object with the fields that the methods here name.
#[derive(Clone, Debug)]
pub struct FilterContext {
    /// The value that is looked at.
    pub value: Json,
    /// The turn in which it happens.
    pub turn: Turn,
}

impl FilterContext {
    /// A value in its turn.
    pub fn new(value: Json, turn: &Turn) -> Self {
        Self { value, turn: turn.clone() }
    }

    /// The messages of this model call (`pre_chat`, `post_chat`), or of the body.
    pub fn messages(&self) -> Json {
        self.field("messages")
    }

    /// The same with other messages.
    pub fn with_messages(self, messages: impl Into<Json>) -> Self {
        self.with("messages", messages)
    }

    /// The tool that is called, as its spec.
    pub fn tool(&self) -> Json {
        self.field("tool")
    }

    /// The arguments it is called with.
    pub fn args(&self) -> Json {
        self.field("args")
    }

    /// The same with other arguments.
    pub fn with_args(self, args: impl Into<Json>) -> Self {
        self.with("args", args)
    }

    /// The answer of the tool or the model.
    pub fn result(&self) -> Json {
        self.field("result")
    }

    /// The same with another result.
    pub fn with_result(self, result: impl Into<Json>) -> Self {
        self.with("result", result)
    }

    /// The reason for which the tool failed, for those who asked to see failures.
    pub fn error(&self) -> Json {
        self.field("error")
    }

    /// The variables that travel along the turn.
    pub fn context(&self) -> &Context {
        self.turn.context()
    }

    /// The one live map of this turn, shared by all hooks.
    pub fn metadata(&self) -> &Json {
        self.turn.metadata()
    }

    fn field(&self, name: &str) -> Json {
        self.value.field(name)
    }

    fn with(self, name: &str, value: impl Into<Json>) -> Self {
        match self.value.set(name, value) {
            Ok(()) => {}
            // A hook gave back something that holds its own context: keep what there was.
            Err(MisplacedValue::Cycle | MisplacedValue::TooDeep) => {
                tracing::warn!(field = name, "ignored a value that cannot stand there");
            }
            Err(_) => {}
        }
        self
    }
}
