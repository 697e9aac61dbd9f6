//! The state of a turn: variables, history, facts about the request, and the events of plugins.

mod afterwards;
mod durable;
mod event;
mod exchange;
mod host_calls;
mod nested;
mod observer;
mod parted;
mod pause;
mod turn;
mod variables;

pub use afterwards::{Afterwards, FinishedChat, NotLeft};
pub use durable::Durable;
pub use event::{
    EmittedEvent, EmittedEvents, Events, HeldQuestion, NewQuestion, NobodyAnswers, QuestionChange, Questions,
};
pub use exchange::{Credential, Exchange, Header, HeaderNames};
pub use host_calls::{HostCall, HostResult};
pub use nested::{Claim, Load, LoadExceeded, NestedCall, Share, TooManyCalls};
pub use observer::{Notice, NoticeKind, NoticeKinds, Observer, ToolCalled};
pub use parted::{PartedTurns, SplitTurn, TurnPart};
pub use pause::{Pauses, PendingQuestion};
pub use turn::{Behind, EndOfTurn, States, Turn, TurnFacts, begun_again};
pub use variables::Context;
