//! All native tools, and the capabilities that each needs.

use super::{file, human, shell, todo};
use std::sync::Arc;
use valvehouse_config::{Capability, Grants};
use valvehouse_core::tool::Tool;
use valvehouse_store::Kv;

/// The tools that access the machine, each with the capabilities it can use: none is offered until the
/// first of them is granted, by the tool's own name.
pub const GUARDED: [(&str, &[Capability]); 7] = [
    ("file_read", &[Capability::Files]),
    ("file_write", &[Capability::Files]),
    ("file_list", &[Capability::Files]),
    ("file_glob", &[Capability::Files]),
    ("file_grep", &[Capability::Files]),
    ("file_mkdir", &[Capability::Files]),
    ("shell_exec", &[Capability::Shell, Capability::Files]),
];

/// All of them, as far as they are granted. Tasks are kept in the maps.
pub fn tools(grants: &dyn Fn(&str) -> Grants, kv: &Arc<Kv>) -> Vec<Tool> {
    let own = [todo::tools(kv.clone()), human::tools(), file::tools(grants), shell::tools(grants)];
    own.concat()
}
