//! `valvehouse dev`: serves as `serve` does and shows whoever writes scripts what comes of each save and of
//! each request.

mod options;
mod command;
mod keys;
mod reloads;
mod replay;
mod requests;
mod session;
mod test_runs;
mod view;

pub use command::run;
pub use options::{DevOptions, StepDetail};
pub use valvehouse_host::ReplayModels;
