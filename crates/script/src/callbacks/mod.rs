//! Scripts that listen to an agent: `const callbacks = true`, and a function for each moment.
//!
//! What such a function answers is nobody's business, and one that breaks changes nothing but what it
//! wanted to keep.

mod function;
mod listener;
#[cfg(test)]
mod tests;

pub(super) use function::{CallbackFunction, read};
pub use listener::ScriptCallbacks;
