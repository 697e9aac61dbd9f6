//! The tool `shell_exec`, which runs granted programs.

use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;
use valvehouse_config::Grants;
use valvehouse_core::error::BoxError;
use valvehouse_core::tool::Tool;
use valvehouse_os::{Command, Options, Programs};

const NAME: &str = "shell_exec";
/// The default time limit of a program in milliseconds.
const TIMEOUT_MS: u64 = 30_000;
/// The maximum time limit that a model can set, in milliseconds.
const MAX_MS: u64 = 600_000;

/// Runs a program and returns its exit_code, stdout and stderr. An exit_code other than 0 is a result too; `timed_out` is true if it exceeded its time limit, `cut` if its output is not returned in full. Processes that it started end with it.
#[derive(Deserialize, JsonSchema)]
struct Run {
    /// The program and its arguments, without quoting, e.g. ["git", "log", "-3"]
    argv: Option<Vec<String>>,
    /// Instead of argv: a command line for the shell, if `sh` is granted
    command: Option<String>,
    /// The standard input of the program
    stdin: Option<String>,
    /// The working directory: a granted folder, or a folder in it
    folder: Option<String>,
    /// Time limit, in milliseconds
    #[serde(default = "timeout_ms")]
    #[schemars(range(min = 1, max = 600_000))]
    timeout_ms: u64,
}

fn timeout_ms() -> u64 {
    TIMEOUT_MS
}

impl Run {
    fn command(&mut self) -> Result<Command, BoxError> {
        let argv = self.argv.take().filter(|argv| !argv.is_empty());
        let command = self.command.take().filter(|command| !command.is_empty());
        match (argv, command) {
            (Some(argv), None) => Ok(Command::Argv(argv)),
            (None, Some(command)) => Ok(Command::Shell(command)),
            (None, None) => {
                Err("missing `argv`: pass the program and its arguments, or `command` for the shell".into())
            }
            (Some(_), Some(_)) => Err("cannot use `argv` and `command` together: pass one of them".into()),
        }
    }
}

/// Returns the tool if programs are granted to it.
pub(super) fn tools(grants: &dyn Fn(&str) -> Grants) -> Vec<Tool> {
    let grants = grants(NAME);
    if grants.shell.is_nothing() {
        return Vec::new();
    }
    let programs = Programs::new(&grants.shell, &grants.files);
    let names = programs.names();
    let run = move |mut args: Run| {
        let programs = programs.clone();
        async move {
            let command = args.command()?;
            let timeout = Duration::from_millis(args.timeout_ms);
            let options = Options { stdin: args.stdin, folder: args.folder, timeout: Some(timeout) };
            let output = programs.run(command, options).await.map_err(|failure| failure.message_for(NAME))?;
            Ok(output.into_json())
        }
    };
    let tool = Tool::from_fn(NAME, run).tag("shell");
    let description = format!("{} The programs are: {names}.", tool.spec.description);
    // The program has its own time limit, which preserves its output; the limit of the tool is a safeguard.
    let limit = Duration::from_millis(MAX_MS + 10_000);
    vec![tool.description(&description).with_spec(|spec| spec.timeout = limit)]
}
