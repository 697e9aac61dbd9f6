//! Programs in a test environment: they return the output that the test defines, and nothing is started.

use super::places::{Place, Places};
use valvehouse_json::Json;
use valvehouse_os::{Command, Failure, Options, Output};

/// Returns the output of one call. The longest matching command takes precedence.
pub(super) fn run(programs: &Places, command: &Command, options: &Options) -> Result<Output, Failure> {
    let (argv, line) = match command {
        Command::Argv(argv) => {
            (argv.iter().map(|part| part.as_str().into()).collect::<Vec<Json>>().into(), argv.join(" "))
        }
        Command::Shell(text) => (text.as_str().into(), text.clone()),
    };
    let text = |text: &Option<String>| text.as_deref().map(Json::from).into();
    let call =
        Json::from([("argv", argv), ("stdin", text(&options.stdin)), ("folder", text(&options.folder))]);
    let rank = |_: usize, program: &Place| program.is_meant(&line, ' ').then_some(program.name.len());
    let output = programs.next(call, rank).ok_or_else(|| {
        let name = line.split(' ').next().unwrap_or_default();
        failure(format!(
            "missing canned output of `{line}`; add it to the test: canned::shell(\"{name}\", \"…\")"
        ))
    })?;
    read(&output)
}

fn failure(message: impl Into<String>) -> Failure {
    Failure { message: message.into(), grant: None }
}

/// Reads a text, `#{ stdout, stderr, exit_code, timed_out }`, or `#{ error }`.
fn read(output: &Json) -> Result<Output, Failure> {
    if let Some(error) = output.text("error") {
        return Err(failure(error));
    }
    let text = |name: &str| match output {
        Json::Text(text) if name == "stdout" => text.to_string(),
        other => other.text_or_empty(name).to_string(),
    };
    let code = output.get("exit_code").and_then(|code| code.as_i64()).unwrap_or(0);
    let timed_out = output.get("timed_out").is_some_and(|is| is == Json::from(true));
    Ok(Output {
        code: i32::try_from(code).ok().filter(|_| !timed_out),
        signal: None,
        stdout: text("stdout"),
        stderr: text("stderr"),
        cut: false,
        timed_out,
    })
}
