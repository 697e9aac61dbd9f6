//! The arguments of a host for those who write scripts.

use clap::{Args, ValueEnum};
use valvehouse_workbench::dev::{DevOptions, ReplayModels, StepDetail};

/// `valvehouse dev`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse dev                              serve, and show what scripts make of every request
  valvehouse dev --replay                     on save, run the last request again through the chain
  valvehouse dev --replay=live                the same, asking the model again
  valvehouse dev --open always --port 0
  valvehouse dev --format json                a JSON value a line, for editors

Each request is a line with a bar of its steps: . went on, ~ changed something, > skipped, ! refused or
broke, M a model, T a tool. At a terminal, Enter opens the last request, a number that one, r runs the
last request again, t runs the tests, c clears, ? helps, q quits.

On save, the tests beside a script run. A replay plays the recorded answers of models and of tools that
reach outside; with --replay=live it asks models and other hosts. It keeps nothing and tells no client.

Everything that is said is kept in memory and shown: this is for development.")]
pub(in crate::cli) struct Dev {
    /// Listen at this address in place of server.listen
    #[arg(long, value_name = "ADDRESS")]
    pub(in crate::cli) listen: Option<String>,
    /// The port to listen on; 0 for any free one
    #[arg(long, value_name = "PORT")]
    pub(in crate::cli) port: Option<u16>,
    /// The model that the command to try names; the first one where none is named
    #[arg(long, short, value_name = "MODEL")]
    pub(in crate::cli) model: Option<String>,
    /// Show these steps of each request
    #[arg(long, value_name = "WHICH", default_value = "changed")]
    pub(in crate::cli) open: Open,
    /// On save, run the last request again and show what is different
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "recorded")]
    pub(in crate::cli) replay: Option<Models>,
    /// Run no tests on save
    #[arg(long)]
    pub(in crate::cli) no_tests: bool,
}

/// The detail of the steps of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Open {
    /// Every step, with its cost and all that it changed.
    Always,
    /// A line for each step that changed something or went wrong.
    Changed,
    /// No steps.
    Never,
}

/// The models that answer when a request is run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Models {
    /// Their answers as they were.
    Recorded,
    /// They themselves.
    Live,
}

impl From<Dev> for DevOptions {
    fn from(dev: Dev) -> Self {
        let open = match dev.open {
            Open::Always => StepDetail::Always,
            Open::Changed => StepDetail::Changed,
            Open::Never => StepDetail::Never,
        };
        let replay = dev.replay.map(|models| match models {
            Models::Recorded => ReplayModels::Recorded,
            Models::Live => ReplayModels::Live,
        });
        Self { model: dev.model, open, replay, no_tests: dev.no_tests }
    }
}
