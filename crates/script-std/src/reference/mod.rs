//! The vocabulary of scripts: functions, values with their properties, hooks, parameters, the opening comment and
//! the constants. Completion, hover, `definitions`, `docs/reference.md` and the lints of `check` all read this
//! table.
//!
//! Registered functions are read from the engine with their doc comments. JSON keys, which are not registered, are
//! listed in [`handles`].

mod function;
mod handle;
mod keys;
mod options;
mod script;

pub use function::{
    Function, FunctionOrigin, Param, Registration, WAITING, boolean_functions, functions, registered_with,
    registrations,
};
pub use handle::{Form, Handle, Word, handle, handles, members};
pub use keys::{element_of, is_list, is_map};
pub use options::{FunctionOptions, options_of};
pub use script::{
    CAPABILITIES, CONSTANTS, EntryPoint, KeyDoc, PARAMETER_KEYS, PARAMETERS, ScriptRole, TOOL_KEYS,
    VALVE_KEYS, entries, entry, frontmatter,
};
