//! What can be asked for of codes of problems.

use clap::Args;

/// `valvehouse explain-code`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse explain-code                     all codes
  valvehouse explain-code V502                what it means, how it is wrong and how it is right
  valvehouse explain-code V502 --format json | jq -r .page

The codes stand in brackets in what valvehouse check tells. Needs no project.")]
pub(in crate::cli) struct ExplainCode {
    /// The code; all of them are listed where none is named
    pub(in crate::cli) code: Option<String>,
}
