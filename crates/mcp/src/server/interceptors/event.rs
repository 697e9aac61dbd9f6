//! The events that filters of this host act at, in the words of the draft.

use valvehouse_core::filter::Hook;

/// The name under which a server declares the extension.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/interceptors";

/// An event at which an interceptor is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InterceptionEvent {
    ToolCall,
    Prompt,
    Resource,
    Completion,
}

/// The side of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Request,
    Response,
}

impl InterceptionEvent {
    /// All of them, in the order of lists.
    pub(super) const ALL: [Self; 4] = [Self::ToolCall, Self::Prompt, Self::Resource, Self::Completion];

    /// The event of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == name)
    }

    /// Its name.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::ToolCall => "tools/call",
            Self::Prompt => "prompts/get",
            Self::Resource => "resources/read",
            Self::Completion => "llm/completion",
        }
    }

    /// The hooks that belong to it, in running order.
    pub(super) fn hooks(self, phase: Phase) -> &'static [Hook] {
        match (self, phase) {
            (Self::Completion, Phase::Request) => &[Hook::Inlet, Hook::PreChat],
            (Self::Completion, Phase::Response) => &[Hook::PostChat, Hook::Outlet],
            (_, Phase::Request) => &[Hook::PreInvocation],
            (_, Phase::Response) => &[Hook::PostInvocation],
        }
    }
}

impl Phase {
    /// Both of them.
    pub(super) const ALL: [Self; 2] = [Self::Request, Self::Response];

    /// The phase of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == name)
    }

    /// Its name.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
        }
    }
}
