//! The tools that are built into the host.

mod file;
mod human;
mod shell;
mod todo;
mod toolbox;

pub use toolbox::{GUARDED, is_guarded, tools};

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
