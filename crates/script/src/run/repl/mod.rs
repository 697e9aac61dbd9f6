//! An interactive session in the context of a script: lines may call everything the script may call, and their
//! declarations persist.

mod session;

pub use session::{LineResult, Repl};
