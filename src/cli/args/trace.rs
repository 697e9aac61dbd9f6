//! The arguments of `valvehouse trace`.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use std::path::PathBuf;

/// `valvehouse trace`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse trace                            running and recent requests
  valvehouse trace --failed --plugin redact
  valvehouse trace --user ann --from 7d       those of a week, with [trace] store
  valvehouse trace 3f2ab19c-17                its steps, with cost and changes
  valvehouse trace --follow                   live requests
  valvehouse trace 3f2ab19c-17 --replay redact    run redact again on its recorded input
  valvehouse trace 3f2ab19c-17 --replay redact filters/redact.rhai
  valvehouse trace --at http://10.0.0.5:9099

Connects to the host that runs on this project, with the [admin] key. Changes are recorded for plugins
in [trace] contents and for requests with the header x-valvehouse-trace: content. Exit code 1: the
outcome of a replay differs.")]
pub(in crate::cli) struct Trace {
    /// Show this request [default: list running and recent requests]
    #[arg(conflicts_with = "follow")]
    pub(in crate::cli) id: Option<String>,
    /// Replay with this file instead of the running script
    #[arg(value_name = "FILE", requires = "replay")]
    pub(in crate::cli) file: Option<PathBuf>,
    /// Show requests as they start and end
    #[arg(long)]
    pub(in crate::cli) follow: bool,
    /// Run this plugin again on its recorded input
    #[arg(long, value_name = "PLUGIN", requires = "id")]
    pub(in crate::cli) replay: Option<String>,
    /// Show only failed requests
    #[arg(long)]
    pub(in crate::cli) failed: bool,
    /// Show only requests in which this plugin ran
    #[arg(long, value_name = "PLUGIN")]
    pub(in crate::cli) plugin: Option<String>,
    /// Show only requests for this model
    #[arg(long, short, value_name = "MODEL", value_parser = NonEmptyStringValueParser::new())]
    pub(in crate::cli) model: Option<String>,
    /// Show only requests of this user
    #[arg(long, short, value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    pub(in crate::cli) user: Option<String>,
    /// Show only requests of the key with this name
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(in crate::cli) key: Option<String>,
    /// Show only requests with this outcome: succeeded, refused, failed, breaker_open or disconnected
    #[arg(long, value_name = "OUTCOME")]
    pub(in crate::cli) outcome: Option<String>,
    /// Show only requests with this HTTP status
    #[arg(long, value_name = "STATUS")]
    pub(in crate::cli) status: Option<String>,
    /// Show only requests that took at least this number of milliseconds
    #[arg(long, value_name = "MS")]
    pub(in crate::cli) min_ms: Option<String>,
    /// Show only requests since this time: a moment in RFC 3339, a day, or a length such as 7d
    #[arg(long, value_name = "TIME")]
    pub(in crate::cli) from: Option<String>,
    /// Show only requests before this time
    #[arg(long, value_name = "TIME")]
    pub(in crate::cli) to: Option<String>,
    /// Continue a list with the requests that follow
    #[arg(long, value_name = "CURSOR")]
    pub(in crate::cli) cursor: Option<String>,
    /// Show at most this number of requests
    #[arg(long, value_name = "COUNT", default_value_t = 30)]
    pub(in crate::cli) limit: u64,
    /// Connect to the host at this address [default: the host that runs on this project]
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) at: Option<String>,
}
