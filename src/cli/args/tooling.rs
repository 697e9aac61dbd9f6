//! The commands for script authors and editors.

use clap::Args;
use std::path::PathBuf;

/// `valvehouse completions`
#[cfg(feature = "workbench")]
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse completions bash > ~/.local/share/bash-completion/completions/valvehouse
  valvehouse completions zsh > ~/.zfunc/_valvehouse
  valvehouse completions fish > ~/.config/fish/completions/valvehouse.fish")]
pub(in crate::cli) struct Completions {
    /// Print the script for this shell
    #[arg(value_name = "SHELL")]
    pub(in crate::cli) shell: clap_complete::Shell,
}

/// `valvehouse definitions`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse definitions                      write to .valvehouse/definitions of the project
  valvehouse definitions ~/rhai/definitions
  valvehouse definitions --reference          the reference of all functions, as Markdown
  valvehouse definitions --format json | jq -r '.files[]'

Writes Rhai definition files for editors that support them; other editors use valvehouse lsp.
Existing files of the same names are replaced.")]
pub(in crate::cli) struct Definitions {
    /// Write to this folder
    #[arg(value_name = "DIR", conflicts_with = "reference")]
    pub(in crate::cli) folder: Option<PathBuf>,
    /// Print the reference of all functions and fields of scripts
    #[arg(long)]
    pub(in crate::cli) reference: bool,
}

/// `valvehouse lsp`
#[cfg(feature = "workbench")]
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse lsp                              started by an editor; uses stdin and stdout

Provides the problems of valvehouse check, completion, hover, definitions and outlines. See
docs/editors.md for the setup. Scripts are not run, except functions that list a file's tools.")]
pub(in crate::cli) struct Lsp {
    /// Accept this flag of editors, which has no effect
    #[arg(long, hide = true)]
    pub(in crate::cli) stdio: bool,
}
