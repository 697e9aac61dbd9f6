//! The memory of what services send with their answers and expect back, but clients do not return: signatures of
//! calls, thinking and encrypted reasoning.
//!
//! An entry belongs to a client, a provider and a model. It is found by a call (its id, its name and arguments, and
//! the user's message before it) or, for an answer without calls, by its text. It holds what the service sent before
//! the filters ran, and goes back to this service only; what the client sees is not affected. Signed and encrypted thoughts
//! that a client returns go to their maker only, as far as it is known.

mod extra;
mod kept;
mod makers;
mod memory;
mod recorder;
#[cfg(test)]
mod tests;

pub use memory::Extras;
pub(super) use recorder::Recorder;
