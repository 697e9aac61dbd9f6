//! The arguments of `valvehouse port`.

use clap::Args;
use std::path::PathBuf;

/// `valvehouse port`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  valvehouse port turn_limit.py               filters/turn_limit.rhai and its test
  valvehouse port weather.py --id weather     tools/weather.rhai
  valvehouse port turn_limit.py --stdout      print the script, write nothing
  valvehouse port --measure ~/functions       how much of a folder can be ported

Reads a filter, pipe, tool or pipeline of Open WebUI; nothing is executed. Lines without a
translation stay as `// TODO` comments, and the summary names the page with their counterparts.
A filter with such lines has `global: false`: it runs only for models that list it.")]
pub(in crate::cli) struct Port {
    /// Port this Python file
    #[arg(value_name = "FILE", required_unless_present = "measure")]
    pub(in crate::cli) file: Option<PathBuf>,
    /// Set the id of the plugin [default: the name of the file; of a single tool the name of its function]
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) id: Option<String>,
    /// Print the script instead of writing files
    #[arg(long, conflicts_with = "force")]
    pub(in crate::cli) stdout: bool,
    /// Print the summary without writing files
    #[arg(long, conflicts_with_all = ["force", "stdout"])]
    pub(in crate::cli) dry_run: bool,
    /// Replace existing files
    #[arg(long)]
    pub(in crate::cli) force: bool,
    /// Port all plugins below this folder without writing files, and count what `check` accepts
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "id", "stdout", "dry_run", "force"])]
    pub(in crate::cli) measure: Option<PathBuf>,
}
