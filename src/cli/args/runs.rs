//! The arguments about runs.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `valvehouse runs`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  valvehouse runs                             all of them, first those that wait for somebody
  valvehouse runs --status paused
  valvehouse runs show RUN                    what it said, what it waits for
  valvehouse runs checkpoints CHAT            the steps that can be branched off at
  valvehouse runs fork CHECKPOINT NEW         another conversation from there
  valvehouse runs export CHAT > chat.json
  valvehouse runs import chat.json --chat NEW
  valvehouse runs prune --keep 3
  valvehouse runs forget CHAT

A run is one turn of a model with `memory = true`. Those that are paused wait for a person: valvehouse
resume RUN."
)]
pub(in crate::cli) struct Runs {
    #[command(subcommand)]
    pub(in crate::cli) what: Option<RunsDo>,
    /// Only those of this conversation
    #[arg(long, value_name = "CHAT")]
    pub(in crate::cli) chat: Option<String>,
    /// Only those that stand so: paused, interrupted, failed, running, done, cancelled
    #[arg(long, value_name = "STATUS")]
    pub(in crate::cli) status: Option<String>,
    /// No more than so many
    #[arg(long, value_name = "COUNT", default_value_t = 30)]
    pub(in crate::cli) limit: u64,
}

/// `valvehouse runs …`
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum RunsDo {
    /// Show a run: how it stands, what was said, what it waits for
    Show {
        /// The run
        run: String,
    },
    /// Show the steps of a conversation that are kept, the newest first
    Checkpoints {
        /// The conversation
        chat: String,
    },
    /// Begin another conversation from a checkpoint
    Fork {
        /// The checkpoint
        checkpoint: String,
        /// The id of the new conversation
        new: String,
    },
    /// Write a conversation, with everything of it, as JSON
    Export {
        /// The conversation
        chat: String,
    },
    /// Put an exported conversation in
    Import {
        /// The file; - reads it from stdin
        file: PathBuf,
        /// Another id for it
        #[arg(long, value_name = "CHAT")]
        chat: Option<String>,
    },
    /// Drop old checkpoints; what was said stays
    Prune {
        /// Only those of this conversation
        #[arg(long, value_name = "CHAT")]
        chat: Option<String>,
        /// Of each conversation, the newest runs whose every step stays; of older ones the last step does
        #[arg(long, value_name = "RUNS")]
        keep: Option<u64>,
    },
    /// Forget a conversation and everything of it
    Forget {
        /// The conversation
        chat: String,
    },
}

/// `valvehouse resume`
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("decision").args(["approve", "reject", "answer", "retry"]),
    after_help = "Examples:
  valvehouse resume RUN                       go on; at a terminal you are asked what it waits for
  valvehouse resume RUN --approve
  valvehouse resume RUN --approve --arguments '{\"amount\": 3}'
  valvehouse resume RUN --reject \"too dear\"
  valvehouse resume RUN --answer Oslo
  valvehouse resume RUN --retry               run the step again, also a tool that may have run

No host has to be running. A run that waits again is not an error: what it waits for is told, and how to
go on."
)]
pub(in crate::cli) struct Resume {
    /// The run: `valvehouse runs` lists them
    pub(in crate::cli) run: String,
    /// Let it do what it asks for
    #[arg(long)]
    pub(in crate::cli) approve: bool,
    /// With these arguments in the place of the model's, as a JSON object
    #[arg(long, value_name = "JSON", requires = "approve")]
    pub(in crate::cli) arguments: Option<String>,
    /// Do not let it; the model reads the reason
    #[arg(long, value_name = "REASON", num_args = 0..=1, default_missing_value = "")]
    pub(in crate::cli) reject: Option<String>,
    /// The answer to its question
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) answer: Option<String>,
    /// Run the step again
    #[arg(long)]
    pub(in crate::cli) retry: bool,
    /// Write the answer when it is whole
    #[arg(long)]
    pub(in crate::cli) no_stream: bool,
}
