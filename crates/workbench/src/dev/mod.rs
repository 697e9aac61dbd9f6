//! `valvehouse dev`: serves like `serve`, and shows script authors the results of each save and each request.

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
pub use options::DevOptions;
