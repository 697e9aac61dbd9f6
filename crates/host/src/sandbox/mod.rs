//! Sandboxed generations, and recorded requests that are replayed in them.

mod replay_steps;
mod replay_turn;
mod snapshot;

pub use replay_steps::{StepReplay, replay_steps};
pub use replay_turn::replay_turn;
