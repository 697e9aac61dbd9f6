//! What can be asked for of the words that scripts may use.

use clap::Args;
use std::path::PathBuf;

/// `valvehouse definitions`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse definitions                      into .valvehouse/definitions of the project
  valvehouse definitions ~/rhai/definitions
  valvehouse definitions --reference          the page about all of them, as Markdown
  valvehouse definitions --format json | jq -r '.files[]'

The files are Rhai's definition files, for editors that read them; for others there is
valvehouse lsp. Existing files of the same names are written anew.")]
pub(in crate::cli) struct Definitions {
    /// The folder to write to
    #[arg(value_name = "DIR", conflicts_with = "reference")]
    pub(in crate::cli) folder: Option<PathBuf>,
    /// Print the page about everything that scripts may use
    #[arg(long)]
    pub(in crate::cli) reference: bool,
}
