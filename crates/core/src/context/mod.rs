//! The values that travel along a turn: variables, history, the turn's own facts, and the events of plugins.

mod durable;
mod event;
mod exchange;
mod host_calls;
mod load;
mod observer;
mod parted;
mod pause;
mod turn;
mod variables;

pub use durable::Durable;
pub use event::{Event, Events, NobodyAnswers, Questions};
pub use exchange::{Credential, Exchange, Header, HeaderNames};
pub use host_calls::{HostCall, HostResult};
pub use load::{Claim, Load, Refused, Share};
pub use observer::{Notice, Observer, ToolCalled};
pub use parted::{Part, Parted, PartedTurns};
pub use pause::{Pauses, Pending};
pub use turn::{EndOfTurn, States, Turn, TurnFacts, begun_again};
pub use variables::Context;
