//! `shell_exec`: granted programs for a model.

use super::native::native;
use futures::future::BoxFuture;
use std::time::Duration;
use valvehouse_config::Grants;
use valvehouse_core::context::Turn;
use valvehouse_core::tool::{Handler, Tool, ToolError, ToolResult};
use valvehouse_json::Json;
use valvehouse_os::{Command, Options, Programs};

const NAME: &str = "shell_exec";
/// The time that a program may run unless the model names another one.
const TIMEOUT_MS: u64 = 30_000;
/// The longest time that the model may name.
const LONGEST_MS: u64 = 600_000;

const PARAMETERS: &str = r#"{
    "argv": {"type": "array", "items": {"type": "string"}, "description": "The program and its arguments, each as it is, e.g. [\"git\", \"log\", \"-3\"]"},
    "command": {"type": "string", "description": "Instead of argv: a line for the shell, where `sh` is granted"},
    "stdin": {"type": "string", "description": "What the program reads"},
    "folder": {"type": "string", "description": "The granted folder, or a folder in it, to start in"},
    "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 600000, "default": 30000, "description": "How long it may run, in milliseconds"}
}"#;

/// The tool, where programs are granted to it.
pub(super) fn tools(grants: &dyn Fn(&str) -> Grants) -> Vec<Tool> {
    let grants = grants(NAME);
    if grants.shell.is_nothing() {
        return Vec::new();
    }
    let programs = Programs::new(&grants.shell, &grants.files);
    let description = format!(
        "Runs a program and returns its exit_code, stdout and stderr. An exit_code other than 0 is a result \
         too; `timed_out` is true when its time was over, `cut` when it wrote more than is returned. Nothing \
         it starts outlives it. The programs are: {}.",
        programs.names()
    );
    let tool = native(NAME, "shell", &description, PARAMETERS, ShellTool { programs });
    // The program has its own limit, which leaves what it wrote; this one is for the worst case.
    vec![tool.with_spec(|spec| spec.timeout = Duration::from_millis(LONGEST_MS + 10_000))]
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
            output.map(|output| output.into_json().into()).map_err(|failure| failure.told_to(NAME).into())
        })
    }
}

fn command(args: &Json) -> Result<Command, ToolError> {
    let argv = args.get("argv").filter(|argv| !argv.is_empty()).map(|argv| argv.items());
    let command = args.text("command").filter(|command| !command.is_empty());
    match (argv, command) {
        (Some(argv), None) => {
            let texts: Option<Vec<String>> = argv.iter().map(|it| it.as_str().map(str::to_owned)).collect();
            texts.map(Command::Argv).ok_or_else(|| "`argv` must hold texts only".into())
        }
        (None, Some(command)) => Ok(Command::Shell(command.into())),
        (None, None) => Err("say what to run: `argv`, or `command` for the shell".into()),
        (Some(_), Some(_)) => Err("say either `argv` or `command`, not both".into()),
    }
}

fn timeout(args: &Json) -> Duration {
    let asked = args.get("timeout_ms").and_then(|ms| ms.as_i64()).and_then(|ms| u64::try_from(ms).ok());
    Duration::from_millis(asked.unwrap_or(TIMEOUT_MS).clamp(1, LONGEST_MS))
}
