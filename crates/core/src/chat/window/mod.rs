//! A sliding window over the texts of a streamed answer: the end of each text is withheld until a possible
//! match is complete, regardless of chunk boundaries.
//!
//! Each text of a choice is a separate lane: its content, its thinking and the arguments of each call. A lane
//! ends when the next part of the choice begins, when a call's arguments are complete, when its block is signed
//! or closed, and when the choice ends; its withheld text is sent then. Between events, withheld text is stored
//! as plain JSON in a map of the caller.

mod below;
mod calls;
mod buffer;
mod lane;
mod lanes;
mod visitor;
mod pass;
mod speech;
#[cfg(test)]
mod tests;

pub use pass::{end, ends_lanes, held, is_hollow, pass, set_held, waiting};
pub use visitor::{WindowVisitor, last_words};
