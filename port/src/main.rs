//! The `valvehouse-port` binary, which `valvehouse port` runs.

mod command;

use std::process::ExitCode;

fn main() -> ExitCode {
    command::run(std::env::args_os())
}
