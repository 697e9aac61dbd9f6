//! The agent type of the library, its builder, runs and checkpoints.

mod agent;
mod builder;
mod checkpoints;
mod running;
#[cfg(feature = "typed")]
mod typed;

pub use agent::{Agent, AgentResponse};
pub use builder::AgentBuilder;
