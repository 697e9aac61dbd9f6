//! An agent of the library: it holds one conversation.

mod agent;
mod builder;
mod checkpoints;
mod running;
#[cfg(feature = "typed")]
mod typed;

pub use agent::{Agent, AgentResponse};
pub use builder::AgentBuilder;
