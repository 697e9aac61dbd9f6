//! The state of a turn: variables, history, facts about the request, and the events of plugins.

mod afterwards;
mod audited;
mod durable;
mod event;
mod exchange;
mod held_memory;
mod host_calls;
mod nested_call;
mod observer;
mod pause;
mod turn;
mod variables;

pub use afterwards::{Afterwards, FinishedChat, NotLeft};
pub use durable::Durable;
pub use event::{
    EmittedEvent, EmittedEvents, Events, HeldQuestion, NewQuestion, NobodyAnswers, QuestionChange, Questions,
};
pub use exchange::{Credential, Exchange, FormatCheck, Header, HeaderNames, is_free_text};
pub use held_memory::{HeldMemory, MemoryLimit};
pub use host_calls::{HostCall, HostResult};
pub use nested_call::{Claim, Load, LoadExceeded, NestedCall, Share, TooManyCalls};
pub use observer::{Notice, NoticeKind, NoticeKinds, Observer, ToolCalled};
pub use pause::{Pauses, PendingQuestion};
pub use turn::{Behind, EndOfTurn, States, Turn, TurnFacts, begun_again, digest};
pub use variables::Context;
