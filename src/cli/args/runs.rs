//! The arguments of `valvehouse runs` and `valvehouse resume`.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `valvehouse runs`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  valvehouse runs                             all runs, those that wait for a person first
  valvehouse runs --status paused
  valvehouse runs show RUN                    its messages and pending question
  valvehouse runs checkpoints CHAT            the steps of a conversation
  valvehouse runs fork CHECKPOINT NEW         start a new conversation from a step
  valvehouse runs export CHAT > chat.json
  valvehouse runs import chat.json --chat NEW
  valvehouse runs prune --keep 3
  valvehouse runs forget CHAT

A run is one turn of a model with `memory = true`. A paused run waits for a person; continue it with
valvehouse resume RUN."
)]
pub(in crate::cli) struct Runs {
    #[command(subcommand)]
    pub(in crate::cli) what: Option<RunsDo>,
    /// Show only runs of this conversation
    #[arg(long, value_name = "CHAT", value_parser = NonEmptyStringValueParser::new())]
    pub(in crate::cli) chat: Option<String>,
    /// Show only runs with this status: paused, interrupted, failed, running, done, cancelled
    #[arg(long, value_name = "STATUS")]
    pub(in crate::cli) status: Option<String>,
    /// Show at most this number of runs
    #[arg(long, value_name = "COUNT", default_value_t = 30)]
    pub(in crate::cli) limit: u64,
}

/// `valvehouse runs …`
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum RunsDo {
    /// Show a run: its status, messages and pending question
    Show {
        /// The id of the run
        run: String,
    },
    /// List the stored steps of a conversation, newest first
    Checkpoints {
        /// The conversation
        chat: String,
    },
    /// Start a new conversation from a checkpoint
    Fork {
        /// The checkpoint
        checkpoint: String,
        /// The id of the new conversation
        new: String,
    },
    /// Print a conversation with all of its data as JSON
    Export {
        /// The conversation
        chat: String,
    },
    /// Import an exported conversation
    Import {
        /// Read this file; - reads stdin
        file: PathBuf,
        /// Import it under this id
        #[arg(long, value_name = "CHAT", value_parser = NonEmptyStringValueParser::new())]
        chat: Option<String>,
    },
    /// Delete old checkpoints; messages stay
    Prune {
        /// Delete only checkpoints of this conversation
        #[arg(long, value_name = "CHAT", value_parser = NonEmptyStringValueParser::new())]
        chat: Option<String>,
        /// Keep all steps of this number of newest runs in each conversation, and the last step of older ones
        #[arg(long, value_name = "RUNS")]
        keep: Option<u64>,
    },
    /// Delete a conversation and all of its data
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
  valvehouse resume RUN                       continue; answer its question at the terminal
  valvehouse resume RUN --approve
  valvehouse resume RUN --approve --arguments '{\"amount\": 3}'
  valvehouse resume RUN --reject \"too expensive\"
  valvehouse resume RUN --answer Oslo
  valvehouse resume RUN --retry               repeat the step, even if its tool may have run already

No host needs to be running. If the run waits again, its question and the command to continue are
printed; this is not an error."
)]
pub(in crate::cli) struct Resume {
    /// Resume this run; `valvehouse runs` lists them
    pub(in crate::cli) run: String,
    /// Approve the pending action
    #[arg(long)]
    pub(in crate::cli) approve: bool,
    /// Replace the model's arguments with this JSON object
    #[arg(long, value_name = "JSON", requires = "approve")]
    pub(in crate::cli) arguments: Option<String>,
    /// Reject the pending action; the reason is sent to the model
    #[arg(long, value_name = "REASON", num_args = 0..=1, default_missing_value = "")]
    pub(in crate::cli) reject: Option<String>,
    /// Answer the pending question
    #[arg(long, value_name = "TEXT")]
    pub(in crate::cli) answer: Option<String>,
    /// Repeat the step
    #[arg(long)]
    pub(in crate::cli) retry: bool,
    /// Print the answer when it is complete
    #[arg(long)]
    pub(in crate::cli) no_stream: bool,
}
