//! `valvehouse fmt`: brings scripts into the usual layout.

mod command;

pub use command::{FmtOptions, run};
