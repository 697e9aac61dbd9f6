//! The arguments about requests.

use clap::Args;
use std::path::PathBuf;

/// `valvehouse trace`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse trace                            requests that run, and the last ones that ended
  valvehouse trace --failed --plugin redact
  valvehouse trace 3f2a-17                    its steps, what each cost and changed
  valvehouse trace --follow                   as they come
  valvehouse trace 3f2a-17 --replay redact    what redact saw, once more
  valvehouse trace 3f2a-17 --replay redact filters/redact.rhai
  valvehouse trace --at http://10.0.0.5:9099

Asks the host that runs on this project, with the key of [admin]. What changed is known where contents
were kept: of plugins named in [trace] contents, and of requests with the header
x-valvehouse-trace: content. Exit code 1: a replay went another way than the request.")]
pub(in crate::cli) struct Trace {
    /// The request; those that run and the last ones where none is named
    #[arg(conflicts_with = "follow")]
    pub(in crate::cli) id: Option<String>,
    /// The file to replay with, in place of the script as it runs
    #[arg(value_name = "FILE", requires = "replay")]
    pub(in crate::cli) file: Option<PathBuf>,
    /// Show requests as they begin and end
    #[arg(long)]
    pub(in crate::cli) follow: bool,
    /// Let this plugin see once more what it saw
    #[arg(long, value_name = "PLUGIN", requires = "id")]
    pub(in crate::cli) replay: Option<String>,
    /// Only those that failed
    #[arg(long)]
    pub(in crate::cli) failed: bool,
    /// Only those in which this plugin had a part
    #[arg(long, value_name = "PLUGIN")]
    pub(in crate::cli) plugin: Option<String>,
    /// Only those for this model
    #[arg(long, short, value_name = "MODEL")]
    pub(in crate::cli) model: Option<String>,
    /// Only those of this user
    #[arg(long, short, value_name = "USER")]
    pub(in crate::cli) user: Option<String>,
    /// No more than so many
    #[arg(long, value_name = "COUNT", default_value_t = 30)]
    pub(in crate::cli) limit: u64,
    /// The address of the host, in place of the one that runs on this project
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) at: Option<String>,
}
