//! `valvehouse fmt`: formats scripts.

mod command;

pub use command::{FmtOptions, run};
