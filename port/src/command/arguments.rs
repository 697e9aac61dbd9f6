//! The arguments of the command line.

use clap::{ArgAction, Parser, ValueEnum};
use std::path::PathBuf;

/// Draft a script and its test from a Python filter, pipe, tool or action of Open WebUI.
#[derive(Debug, Parser)]
#[command(
    name = "valvehouse-port",
    bin_name = "valvehouse port",
    version,
    after_help = "Examples:
  valvehouse port turn_limit.py               filters/turn_limit.rhai and its test
  valvehouse port weather.py --id weather     tools/weather.rhai
  valvehouse port turn_limit.py --stdout      print the script, write nothing
  valvehouse port --measure ~/functions       how much of a folder can be ported

Reads a filter, pipe, tool or pipeline of Open WebUI; nothing is executed. Lines without a
translation stay as `// TODO` comments, and the summary names the page with their counterparts.
A filter with such lines has `global: false`: it runs only for models that list it.

`valvehouse port` runs the program `valvehouse-port`, which asks `valvehouse` for the folders of the
project and checks its drafts with it.

Exit codes: 0 success, 1 the draft has errors, 2 usage, 65 bad file, 78 bad settings."
)]
pub(super) struct Arguments {
    /// Port this Python file
    #[arg(value_name = "FILE", required_unless_present = "measure")]
    pub(super) file: Option<PathBuf>,
    /// Set the id of the plugin [default: the name of the file; of a single tool the name of its function]
    #[arg(long, value_name = "ID")]
    pub(super) id: Option<String>,
    /// Print the script instead of writing files
    #[arg(long, conflicts_with = "force")]
    pub(super) stdout: bool,
    /// Print the summary without writing files
    #[arg(long, conflicts_with_all = ["force", "stdout"])]
    pub(super) dry_run: bool,
    /// Replace existing files
    #[arg(long)]
    pub(super) force: bool,
    /// Port all plugins below this folder without writing files, and count what `check` accepts
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "id", "stdout", "dry_run", "force"])]
    pub(super) measure: Option<PathBuf>,
    #[command(flatten)]
    pub(super) global: Global,
}

/// The options of every command of `valvehouse`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct Global {
    /// Set the project folder, which contains valvehouse.toml and filters/
    #[arg(long, value_name = "DIR", default_value = ".", overrides_with = "project")]
    pub(super) project: PathBuf,
    /// Override a setting of valvehouse.toml, such as folders.filters=policies
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Set the output format
    #[arg(long, value_name = "FORMAT", default_value = "human", overrides_with = "format")]
    pub(super) format: Format,
    /// Print results and errors only
    #[arg(long, short, overrides_with = "quiet", conflicts_with = "verbose")]
    pub(super) quiet: bool,
    /// Has no effect; `valvehouse -v port` passes it on
    #[arg(long, short, action = ArgAction::Count, hide = true)]
    pub(super) verbose: u8,
}

/// The form of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For reading.
    Human,
    /// For programs: one JSON value per line.
    Json,
}
