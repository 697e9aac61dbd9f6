//! The calls of a script: within a budget, after an answer, on a timer, and in a dry run.

pub(crate) mod afterwards;
pub(crate) mod argument;
pub(crate) mod periodic;
pub(crate) mod repl;
pub(crate) mod sandbox;
pub(crate) mod script_call;
pub(crate) mod windows;
