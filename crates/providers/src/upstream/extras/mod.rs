//! The memory of what services send with their answers and expect back, but clients do not return: signatures of
//! calls, thinking and encrypted reasoning.
//!
//! An entry belongs to a client, a provider and a model. It is found by a call (its id, its name and arguments, and
//! the user's message before it) or, for an answer without calls, by its text. It holds what the service sent before
//! the filters ran, and goes back to this service only; what the client sees is not affected.

mod extra;
mod kept;
mod memory;
mod recorder;
#[cfg(test)]
mod tests;

pub use memory::Extras;
pub(super) use recorder::Recorder;
