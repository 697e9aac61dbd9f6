//! What can be asked for by an editor.

use clap::Args;

/// `valvehouse lsp`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse lsp                              an editor starts it, and speaks to it over stdin and stdout

Problems as valvehouse check tells them, completion, hover, definitions, outlines. Set up as
docs/editors.md says. No script is run but what lists a file's tools.")]
pub(in crate::cli) struct Lsp {
    /// Taken and ignored: editors pass it
    #[arg(long, hide = true)]
    pub(in crate::cli) stdio: bool,
}
