//! A script's tools: a file that is one (`fn handler`), or a module that lists several (`fn tools`).

mod declaration;
mod function;
mod handler;
#[cfg(test)]
mod tests;

pub(super) use declaration::{misplaced_hooks, read};
pub(super) use function::ToolFunction;
pub use handler::ScriptedTool;
