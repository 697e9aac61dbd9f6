//! Lines typed one after the other, in the place of a script: what it may call they may call, and what they
//! declare stays.

mod session;

pub use session::{LineResult, Repl};
