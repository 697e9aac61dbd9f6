//! Compiles a file's text into a script that can be called.

mod compiler;
mod further_errors;
mod model_script;
mod parsed;

pub(crate) use model_script::MAIN;
pub(crate) use parsed::ParsedFile;
pub use parsed::declared_valves;
