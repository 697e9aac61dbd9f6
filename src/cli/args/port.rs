//! The arguments of `valvehouse port`.

use clap::Args;
use std::ffi::OsString;

/// `valvehouse port`, whose arguments `valvehouse-port` reads, `--help` included.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    override_usage = "valvehouse port [OPTIONS] <FILE>",
    after_help = "Runs the program valvehouse-port: see valvehouse port --help"
)]
pub(in crate::cli) struct Port {
    /// The file and the options
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(in crate::cli) words: Vec<OsString>,
}
