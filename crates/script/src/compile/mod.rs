//! From a file's text to a script that can be called.

mod compiler;
mod folded;
mod parsed;
mod valves;

pub(super) use parsed::Parsed;
pub use parsed::declared_valves;
