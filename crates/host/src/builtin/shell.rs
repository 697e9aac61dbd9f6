//! The tool `shell_exec`, which runs granted programs.

use super::native::native;
use futures::future::BoxFuture;
use std::time::Duration;
use valvehouse_config::Grants;
use valvehouse_core::context::Turn;
use valvehouse_core::tool::{Handler, Tool, ToolError, ToolResult};
use valvehouse_json::Json;
use valvehouse_os::{Command, Options, Programs};

const NAME: &str = "shell_exec";
/// The default time limit of a program in milliseconds.
const TIMEOUT_MS: u64 = 30_000;
/// The maximum time limit that a model can set, in milliseconds.
const MAX_MS: u64 = 600_000;

const PARAMETERS: &str = r#"{
    "argv": {"type": "array", "items": {"type": "string"}, "description": "The program and its arguments, without quoting, e.g. [\"git\", \"log\", \"-3\"]"},
    "command": {"type": "string", "description": "Instead of argv: a command line for the shell, if `sh` is granted"},
    "stdin": {"type": "string", "description": "The standard input of the program"},
    "folder": {"type": "string", "description": "The working directory: a granted folder, or a folder in it"},
    "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 600000, "default": 30000, "description": "Time limit, in milliseconds"}
}"#;

/// Returns the tool if programs are granted to it.
pub(super) fn tools(grants: &dyn Fn(&str) -> Grants) -> Vec<Tool> {
    let grants = grants(NAME);
    if grants.shell.is_nothing() {
        return Vec::new();
    }
    let programs = Programs::new(&grants.shell, &grants.files);
    let description = format!(
        "Runs a program and returns its exit_code, stdout and stderr. An exit_code other than 0 is a result too; `timed_out` is true if it exceeded its time limit, `cut` if its output is not returned in full. Processes that it started end with it. The programs are: {}.",
        programs.names()
    );
    let tool = native(NAME, "shell", &description, PARAMETERS, ShellTool { programs });
    // The program has its own time limit, which preserves its output; the limit of the tool is a safeguard.
    vec![tool.with_spec(|spec| spec.timeout = Duration::from_millis(MAX_MS + 10_000))]
}

struct ShellTool {
    programs: Programs,
}

impl Handler for ShellTool {
    fn call(&self, args: Json, _: Turn) -> BoxFuture<'_, Result<ToolResult, ToolError>> {
        Box::pin(async move {
            let text = |name: &str| args.text(name).map(String::from);
            let options =
                Options { stdin: text("stdin"), folder: text("folder"), timeout: Some(timeout(&args)) };
            let output = self.programs.run(command(&args)?, options).await;
            output.map(|output| output.into_json().into()).map_err(|failure| failure.message_for(NAME).into())
        })
    }
}

fn command(args: &Json) -> Result<Command, ToolError> {
    let argv = args.get("argv").filter(|argv| !argv.is_empty()).map(|argv| argv.items());
    let command = args.text("command").filter(|command| !command.is_empty());
    match (argv, command) {
        (Some(argv), None) => {
            let texts: Option<Vec<String>> = argv.iter().map(|it| it.as_str().map(str::to_owned)).collect();
            texts.map(Command::Argv).ok_or_else(|| "invalid `argv`: expected a list of strings".into())
        }
        (None, Some(command)) => Ok(Command::Shell(command.into())),
        (None, None) => {
            Err("missing `argv`: pass the program and its arguments, or `command` for the shell".into())
        }
        (Some(_), Some(_)) => Err("cannot use `argv` and `command` together: pass one of them".into()),
    }
}

fn timeout(args: &Json) -> Duration {
    let requested_ms =
        args.get("timeout_ms").and_then(|ms| ms.as_i64()).and_then(|ms| u64::try_from(ms).ok());
    Duration::from_millis(requested_ms.unwrap_or(TIMEOUT_MS).clamp(1, MAX_MS))
}
