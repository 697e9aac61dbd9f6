//! Programs in a test environment: they return the output that the test defines, and nothing is started.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use valvehouse_json::Json;
use valvehouse_os::{Command, Failure, Options, Output};

/// Programs that answer by their command line.
#[derive(Clone, Default)]
pub(super) struct CannedShell(Arc<Mutex<Runs>>);

#[derive(Default)]
struct Runs {
    programs: Vec<CannedProgram>,
    calls: Vec<Json>,
}

/// The outputs of one program.
struct CannedProgram {
    command: String,
    outputs: VecDeque<Json>,
}

impl CannedProgram {
    /// Returns `true` if `command` is the name of the program, its whole command line, or a prefix of it before
    /// `*`.
    fn is_meant(&self, line: &str) -> bool {
        match self.command.strip_suffix('*') {
            Some(beginning) => line.starts_with(beginning),
            None => line == self.command || line.split(' ').next() == Some(&self.command),
        }
    }
}

impl CannedShell {
    /// Adds an output of a program.
    pub(super) fn answers(&self, command: &str, output: Json) {
        let mut runs = self.0.lock();
        match runs.programs.iter_mut().find(|program| program.command == command) {
            Some(program) => program.outputs.push_back(output),
            None => runs
                .programs
                .push(CannedProgram { command: command.to_owned(), outputs: VecDeque::from([output]) }),
        }
    }

    /// Returns the calls so far.
    pub(super) fn calls(&self) -> Vec<Json> {
        self.0.lock().calls.iter().map(Json::deep_clone).collect()
    }

    /// Returns the output of one call. The last output of a program is repeated.
    pub(super) fn run(&self, command: &Command, options: &Options) -> Result<Output, Failure> {
        let (argv, line) = match command {
            Command::Argv(argv) => {
                (argv.iter().map(|part| part.as_str().into()).collect::<Vec<Json>>().into(), argv.join(" "))
            }
            Command::Shell(text) => (text.as_str().into(), text.clone()),
        };
        let mut runs = self.0.lock();
        let text = |text: &Option<String>| text.as_deref().map(Json::from).into();
        runs.calls.push(Json::from([
            ("argv", argv),
            ("stdin", text(&options.stdin)),
            ("folder", text(&options.folder)),
        ]));
        // The longest matching command takes precedence.
        let fitting = runs.programs.iter_mut().filter(|program| program.is_meant(&line));
        let Some(program) = fitting.max_by_key(|program| program.command.len()) else {
            let name = line.split(' ').next().unwrap_or_default();
            return Err(failure(format!(
                "missing canned output of `{line}`; add it to the test: canned::shell(\"{name}\", \"…\")"
            )));
        };
        let output = match program.outputs.len() {
            0 | 1 => program.outputs.front().cloned(),
            _ => program.outputs.pop_front(),
        };
        read(&output.into())
    }
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
