//! A generation with something replaced, and recorded requests that run again in it.

mod replay_steps;
mod replay_turn;
mod snapshot;

pub use replay_steps::{StepReplay, replay_steps};
pub use replay_turn::{ReplayModels, replay_turn};
