//! An agent of the library: it holds one conversation.

mod agent;
mod builder;
mod checkpoints;
mod running;

pub use agent::{Agent, Said};
pub use builder::Builder;
