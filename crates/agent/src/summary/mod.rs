//! Summarization of long conversations for the model.
//!
//! The model receives the system messages, one summary of old messages, and the newest messages in order. Only
//! the input of the current model call changes; the stored conversation is never shortened.

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
