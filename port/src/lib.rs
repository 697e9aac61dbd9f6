//! Drafts scripts from Python: reads an Open WebUI function, tool or pipe and writes an equivalent filter or
//! tool. It does not execute the Python code.
//!
//! [`port`] returns the script, a test and the lines that are left to the author. The crate treats the script
//! language as text; the host checks the result.

mod attributes;
mod code;
mod docs;
mod kinds;
mod names;
mod plugin;
mod python;
mod report;
mod schema;
mod scope;
mod script;
mod skeleton;
mod text;
mod translate;
mod value;
mod valves;

pub use plugin::PluginKind;
pub use python::SyntaxError;
pub use report::{LineCount, Note, NoteKind};
pub use script::{Draft, MAX_BYTES, PortError, port};
pub use skeleton::Trials;
