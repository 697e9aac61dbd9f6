//! What can be asked for of a session line by line.

use clap::Args;

/// `valvehouse repl`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  valvehouse repl                             try functions of the host
  valvehouse repl --plugin redact             with the functions, valves and state of a script
  valvehouse repl --live --plugin weather     hosts and models are really asked, kv is really written
  echo 'text::words(\"a b c\").len()' | valvehouse repl

Each line is run as a script would be, and what it declares stays. `body` is a small conversation. What is
open at the end of a line goes on in the next. Files are read again when they change. Lines that begin
with a colon are commands:
  :help                    these
  :load FILE|ID            the functions, valves and state of a script
  :body FILE|JSON|TEXT     another body; without one it is shown
  :hook inlet              a hook of the script on `body`, and what that changes
  :valves                  the script's valves, and where they come from
  :variables               what there is
  :plugins                 the plugins of the project
  :functions TEXT          the functions with this text in their names
  :doc regex::find         what a function does
  :quit                    the end; so is Ctrl-D, while Ctrl-C clears the line or ends what runs

As long as --live is not given, no other host, file or program is reached, no model is asked, and what is
put into kv is forgotten. Exit code 1: lines came from elsewhere than a terminal, and one failed.")]
pub(in crate::cli) struct Repl {
    /// The script to begin with: the id of a plugin, or a file
    #[arg(long, value_name = "ID")]
    pub(in crate::cli) plugin: Option<String>,
    /// The id of the user who asks
    #[arg(long, short, value_name = "USER")]
    pub(in crate::cli) user: Option<String>,
    /// Let lines reach what the script may reach, and keep what it keeps
    #[arg(long)]
    pub(in crate::cli) live: bool,
}
