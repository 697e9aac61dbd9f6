//! Drafts of scripts from Python: reads an Open WebUI function, tool or pipe and writes the filter or tool that does the
//! same, as far as it can tell. Nothing is executed.
//!
//! [`port`] returns the text of the script and of a test, and what was left to the author. The package knows the script
//! language as text only; the host checks what comes out.

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
