//! A window over the texts of a streamed answer: the end of each text waits until what could match
//! in it has come whole, however the stream cuts it.
//!
//! Every text of a choice is a lane of its own: its content, its thinking, the arguments of each call. A lane
//! is over when what comes next in the choice begins, when a call's arguments are complete, when the block
//! it belongs to is signed or closed, and when the choice ends; what waits in it goes out then. What waits is
//! stored as plain JSON in a map of the caller's, from one event to the next.

mod calls;
mod held;
mod lane;
mod look;
mod pass;
mod speech;
#[cfg(test)]
mod tests;

pub use look::{WindowVisitor, last_words};
pub use pass::{end, ends_lanes, held, is_hollow, pass, set_held, waiting};
