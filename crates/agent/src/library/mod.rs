//! The agent type of the library, its builder, runs and checkpoints.

mod agent;
mod builder;
mod checkpoints;
mod running;
mod stream;
#[cfg(feature = "typed")]
mod typed_answer;

pub use agent::{Agent, AgentResponse};
pub use builder::AgentBuilder;
pub use stream::AgentStream;
