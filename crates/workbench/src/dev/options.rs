//! The options of a session.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use valvehouse_script::Sandbox;

/// The options of `valvehouse dev`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  valvehouse dev                              serve, and show the steps of every request
  valvehouse dev --replay                     on save, run the last request through the chain again
  valvehouse dev --replay=live                the same, with new model calls
  valvehouse dev --open always --port 0
  valvehouse dev --format json                one JSON value per line, for editors

Each request is a line with a symbol per step: . no change, ~ change, > skip, ! rejection or error,
M model call, T tool call. Keys at a terminal: Enter opens the last request, a number that request,
r replays the last request, t runs the tests, c clears, ? shows help, q quits.

On save, the tests of a script run. A replay uses the recorded answers of models and of tools that
access other hosts; --replay=live calls them again. A replay stores nothing and sends nothing to clients.

All messages are held in memory and shown: use it for development only.")]
pub struct DevOptions {
    /// Listen on this address instead of server.listen
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Listen on this port; 0 selects a free one
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Use this model in the example command that is printed [default: the first one]
    #[arg(long, short, value_name = "MODEL", value_parser = NonEmptyStringValueParser::new())]
    pub model: Option<String>,
    /// Show these steps of each request
    #[arg(long, value_name = "WHICH", default_value = "changed")]
    pub open: StepDetail,
    /// On save, run the last request again and show the differences
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "recorded")]
    pub replay: Option<ReplayModels>,
    /// Do not run tests on save
    #[arg(long)]
    pub no_tests: bool,
}

/// The detail of the steps of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StepDetail {
    /// Every step, with its cost and changes.
    Always,
    /// A line for each step with a change or an error.
    Changed,
    /// No steps.
    Never,
}

/// The models that answer when a request is run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReplayModels {
    /// The recorded answers.
    Recorded,
    /// New calls.
    Live,
}

impl ReplayModels {
    pub(super) fn sandbox(self) -> Sandbox {
        match self {
            Self::Recorded => Sandbox::closed(),
            Self::Live => Sandbox::connected(),
        }
    }
}
