//! The tools of a script: a file with one tool (`fn handler`), or a module that lists several (`fn tools`).

mod declaration;
mod function;
mod handler;
mod run_script;
mod prompt_function;

pub(super) use declaration::{check_list, misplaced_hooks, module_description, read};
pub use function::Role;
pub(super) use function::{ServedFunction, ToolFunction};
pub use handler::{ScriptedTool, ServedTool};
pub(super) use prompt_function::read as read_served;
pub use run_script::run_script;
