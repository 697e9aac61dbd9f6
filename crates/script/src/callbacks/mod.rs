//! Scripts that listen to an agent: `const callbacks = true`, and one function per event.
//!
//! The return value of such a function is ignored. If the function fails, only its changes to `state` are lost.

mod function;
mod listener;
#[cfg(test)]
mod tests;

pub(super) use function::{CallbackFunction, read};
pub use listener::ScriptCallbacks;
