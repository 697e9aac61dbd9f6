//! Summarization: what a model sees of a conversation that has grown long.
//!
//! System messages first, then one summary of what is old, then the newest messages in their order. Only
//! the messages of this one model call change; what was said is kept elsewhere and never shortened.

mod filter;
mod fit;
mod plan;
mod settings;
mod units;
mod write;

pub use filter::PRIORITY;
pub(crate) use fit::seen;
pub use settings::{NAME, Summarization};

#[cfg(test)]
mod tests;
