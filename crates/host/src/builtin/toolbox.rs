//! All native tools, and the capabilities that each needs.

use super::{file, human, shell, todo};
use std::sync::Arc;
use valvehouse_config::{Capability, Grants};
use valvehouse_core::tool::Tool;
use valvehouse_store::Kv;

/// The tools that access files and programs, each with the capabilities it can use. A tool is offered once
/// its first capability is granted to it by name.
pub const GUARDED: [(&str, &[Capability]); 7] = [
    ("file_read", &[Capability::Files]),
    ("file_write", &[Capability::Files]),
    ("file_list", &[Capability::Files]),
    ("file_glob", &[Capability::Files]),
    ("file_grep", &[Capability::Files]),
    ("file_mkdir", &[Capability::Files]),
    ("shell_exec", &[Capability::Shell, Capability::Files]),
];

/// Returns `true` for the name of a tool with grants of its own. No script may have this id, because it would use them.
pub fn is_guarded(id: &str) -> bool {
    GUARDED.iter().any(|(name, _)| *name == id)
}

/// Returns all built-in tools that are available with these grants. Tasks are stored in the maps.
pub fn tools(grants: &dyn Fn(&str) -> Grants, kv: &Arc<Kv>) -> Vec<Tool> {
    let own = [todo::tools(kv.clone()), human::tools(), file::tools(grants), shell::tools(grants)];
    own.concat()
}
