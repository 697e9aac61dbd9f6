//! The vocabulary of scripts: functions, values and their words, hooks, parameters, what the opening comment
//! and the constants say. The only table of it: completion, hover, `definitions`, `docs/reference.md` and the
//! lints of `check` read it here.
//!
//! What is registered with the engine is read from the engine, with its doc comments. Keys of JSON, which
//! nothing registers, are written down in [`handles`].

mod definition;
mod document;
mod function;
mod handle;
mod keys;
mod script;
mod theme;

#[cfg(test)]
mod tests;

pub use definition::definitions;
pub use document::document;
pub use function::{Function, FunctionOrigin, Param, Registration, functions, registrations, test_functions};
pub use handle::{Form, Handle, Word, handle, handles, members, property_names};
pub use script::{
    CAPABILITIES, CONSTANTS, EntryPoint, KeyDoc, PARAMETER_KEYS, PARAMETERS, ScriptRole, TOOL_KEYS,
    VALVE_KEYS, entries, entry, frontmatter,
};
pub use theme::about_module;

pub use crate::value::Type;
