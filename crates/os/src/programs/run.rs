//! Runs of granted programs.

use super::capture::Capture;
use super::family::Workplace;
use super::family::{self, Family};
use super::program::{Command, PATH, Program};
use crate::failure::Failure;
use crate::folders::Folders;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use valvehouse_grants::Grant;
use valvehouse_json::Json;

/// The default time limit of a program.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The time limit for the end of an output after the program has ended.
const LAST_WORDS: Duration = Duration::from_millis(50);
/// The time limit for the end of a killed program.
const LAST_BREATH: Duration = Duration::from_secs(1);

/// The programs that a plugin may run.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    granted: Grant,
    /// The folders in which they may start.
    folders: Folders,
    canned: Option<CannedPrograms>,
}

/// A function that answers calls instead of running programs.
#[derive(Clone)]
struct CannedPrograms(Arc<CannedAnswer>);

type CannedAnswer = dyn Fn(&Command, &Options) -> Result<Output, Failure> + Send + Sync;

impl std::fmt::Debug for CannedPrograms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CannedPrograms")
    }
}

/// The options of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The standard input; `None` for an empty one.
    pub stdin: Option<String>,
    /// The folder in which the program starts, as a path in a granted folder. The default is the first
    /// granted folder or, without one, an empty folder that is removed afterwards.
    pub folder: Option<String>,
    /// The time limit; the default is 30 seconds.
    pub timeout: Option<Duration>,
}

/// The result of a program, and its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The exit code; `None` if a signal ended the program.
    pub code: Option<i32>,
    /// The signal that ended the program, if any.
    pub signal: Option<i32>,
    /// The standard output. Invalid UTF-8 is replaced, and a part beyond the limit is omitted with a note.
    pub stdout: String,
    /// The standard error, with the same treatment.
    pub stderr: String,
    /// `true` if output was omitted.
    pub cut: bool,
    /// `true` if the program was killed at its time limit.
    pub timed_out: bool,
}

impl Programs {
    /// Creates access to these programs, which start in these folders.
    pub fn new(granted: &Grant, folders: &[PathBuf]) -> Self {
        Self { granted: granted.clone(), folders: Folders::new(folders), canned: None }
    }

    /// Answers calls of programs with `canned`: no program is started, and no grant is needed.
    #[must_use]
    pub fn answered_by(
        canned: impl Fn(&Command, &Options) -> Result<Output, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self { canned: Some(CannedPrograms(Arc::new(canned))), ..Self::default() }
    }

    /// Runs a program until it ends or reaches its time limit. All processes that it started are killed at
    /// its end, also if the future is dropped.
    ///
    /// # Errors
    /// Returns an error if the program is not granted, cannot be started or exceeds a limit.
    pub async fn run(&self, what: Command, options: Options) -> Result<Output, Failure> {
        if let Some(canned) = &self.canned {
            return (canned.0)(&what, &options);
        }
        let program = Program::granted(&self.granted, what)?;
        let workplace = self.workplace(options.folder.as_deref())?;
        let (mut child, family) = start(&program, workplace, options.stdin.is_some())?;
        let (stdout, stderr) = (Capture::default(), Capture::default());
        let timeout = options.timeout.unwrap_or(TIMEOUT);
        let input = options.stdin.unwrap_or_default();
        let mut talk = pin!(Pipes::of(&mut child).talk(input, &stdout, &stderr));
        let mut has_ended = false;
        let ended = tokio::time::timeout(timeout, async {
            loop {
                tokio::select! {
                    status = child.wait() => break status,
                    () = &mut talk, if !has_ended => has_ended = true,
                }
            }
        })
        .await;
        family.end().await;
        if !has_ended {
            // The program has ended, but a process that could not be killed may still hold its output open.
            let _ = tokio::time::timeout(LAST_WORDS, &mut talk).await;
        }
        let timed_out = ended.is_err();
        let status = match ended {
            Ok(status) => status.map(Some),
            Err(_) => tokio::time::timeout(LAST_BREATH, child.wait()).await.ok().transpose(),
        };
        let status = status.map_err(|error| program.failed("wait for", &error))?;
        Ok(Output::of(status, &stdout, &stderr, timed_out))
    }

    /// Lists the granted programs, for a description.
    pub fn names(&self) -> String {
        match &self.granted {
            Grant::Nothing => "none".to_owned(),
            Grant::Only(names) => names.join(", "),
            Grant::Everything => "all programs".to_owned(),
        }
    }

    fn workplace(&self, folder: Option<&str>) -> Result<Workplace, Failure> {
        match (folder, self.folders.names().next()) {
            (Some(folder), _) => Ok(Workplace::granted(self.folders.folder(folder)?)),
            (None, Some(first)) => Ok(Workplace::granted(self.folders.folder(first)?)),
            (None, None) => Workplace::fresh(),
        }
    }
}

fn start(program: &Program, workplace: Workplace, reads: bool) -> Result<(Child, Family), Failure> {
    let mark = family::Mark::new();
    let mut command = mark.command(&program.path);
    command
        .args(&program.args)
        .current_dir(&workplace.path)
        .env("PATH", PATH)
        .env("HOME", &workplace.path)
        .env("LANG", "C.UTF-8")
        .env("TERM", "dumb")
        .stdin(if reads { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    let child = command.spawn().map_err(|error| program.failed("start", &error))?;
    let family = Family::of(&child, mark, workplace);
    Ok((child, family))
}

/// The host's ends of a program's standard streams.
struct Pipes {
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl Pipes {
    fn of(child: &mut Child) -> Self {
        Self { stdin: child.stdin.take(), stdout: child.stdout.take(), stderr: child.stderr.take() }
    }

    /// Writes the input and reads the outputs.
    async fn talk(self, input: String, stdout: &Capture, stderr: &Capture) {
        tokio::join!(write_input(self.stdin, input), stdout.read(self.stdout), stderr.read(self.stderr));
    }
}

/// Writes the input; the program may close it early.
async fn write_input(stdin: Option<ChildStdin>, text: String) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(text.as_bytes()).await;
    }
}

impl Output {
    fn of(status: Option<ExitStatus>, stdout: &Capture, stderr: &Capture, timed_out: bool) -> Self {
        let ((stdout, one), (stderr, other)) = (stdout.finish(), stderr.finish());
        let code = status.and_then(|status| status.code());
        Self { code, signal: status.and_then(signal), stdout, stderr, cut: one || other, timed_out }
    }

    /// Returns the result as JSON for a model or a script: `exit_code`, `stdout` and `stderr`, and the other
    /// fields if they are set.
    pub fn into_json(self) -> Json {
        let code = self.code.map(i64::from);
        let output = Json::from([
            ("exit_code", code.into()),
            ("stdout", self.stdout.into()),
            ("stderr", self.stderr.into()),
        ]);
        if let Some(signal) = self.signal {
            output.edit("signal", i64::from(signal));
        }
        for (key, holds) in [("timed_out", self.timed_out), ("cut", self.cut)] {
            if holds {
                output.edit(key, true);
            }
        }
        output
    }
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal(_: ExitStatus) -> Option<i32> {
    None
}
