//! Loading of files in a separate process first. A file that ends that process is reported as a problem, and
//! the command continues.
//!
//! The process runs the same program with `check --load`: it reads one path per line, loads the file, and
//! answers with an empty line.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use valvehouse_config::{Config, Grants};
use valvehouse_dialect::crash::QuarantineEntry;
use valvehouse_host::app;
use valvehouse_script::{Code, Diagnostic, Script, SourceFile, read_file};
use valvehouse_terminal::{CommandError, Exit, ScriptPlace};

/// The separate process, started on demand.
#[derive(Default)]
pub(super) struct Loads {
    running: Option<Loader>,
    /// The versions that ended the process.
    pub(super) ended: Vec<QuarantineEntry>,
}

struct Loader {
    child: Child,
    paths: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Loads {
    /// Loads a file in the separate process. Returns a problem if the file ends the process.
    pub(super) fn problem_of(&mut self, file: &SourceFile) -> Option<Diagnostic> {
        let why = tokio::task::block_in_place(|| self.load(&file.path))?;
        let what = format!("cannot load this file: the process that loaded it {why}");
        self.ended.push(QuarantineEntry { id: file.id.to_string(), hash: file.hash(), why });
        let help = "check its constants and its functions `tools()` and `pipes()`, which run when the file is loaded";
        Some(Diagnostic::of(Code::Quarantined, file, what).help(help))
    }

    /// Returns the reason why the process ended, if it did. If no process can be started, the file is
    /// loaded in this process only.
    fn load(&mut self, path: &Path) -> Option<String> {
        // A path with a line break would be read as two paths.
        let path = path.to_str().filter(|path| !path.contains('\n'))?;
        if self.running.is_none() {
            let started = Loader::start();
            let started = started
                .inspect_err(|error| tracing::debug!("cannot load {path} in a separate process: {error}"));
            self.running = started.ok();
        }
        let loader = self.running.as_mut()?;
        let mut answer = String::new();
        let is_loaded = writeln!(loader.paths, "{path}").is_ok()
            && loader.answers.read_line(&mut answer).is_ok_and(|read| read > 0);
        if is_loaded {
            return None;
        }
        let mut loader = self.running.take()?;
        Some(match loader.child.wait() {
            Ok(status) => format!("ended with {status}"),
            Err(error) => format!("is lost: {error}"),
        })
    }
}

impl Drop for Loads {
    fn drop(&mut self) {
        if let Some(Loader { mut child, paths, .. }) = self.running.take() {
            // The process ends when its input is closed.
            drop(paths);
            if let Err(error) = child.wait() {
                tracing::debug!("cannot end a process: {error}");
            }
        }
    }
}

impl Loader {
    fn start() -> std::io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).arg("--load");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let (paths, answers) = child.stdin.take().zip(child.stdout.take()).ok_or_else(|| {
            std::io::Error::new(std::io::ErrorKind::BrokenPipe, "a process without input and output")
        })?;
        Ok(Self { child, paths, answers: BufReader::new(answers) })
    }
}

/// Runs `check --load`: loads the files whose paths it reads, and answers each with an empty line.
pub(super) fn run(config: &Config, granted: &HashMap<String, Grants>) -> Result<Exit, CommandError> {
    let (stdin, mut stdout) = (std::io::stdin().lock(), std::io::stdout().lock());
    for path in stdin.lines() {
        let Ok(path) = path else { break };
        let ScriptPlace { kind, root, path } = ScriptPlace::of(config, Path::new(&path));
        if let Ok(read) = read_file(kind, &root, &path) {
            let settings = app::settings_of(config, granted, kind, &read.file.id);
            drop(Script::compile(&read.file, &settings));
        }
        if writeln!(stdout).and_then(|()| stdout.flush()).is_err() {
            break;
        }
    }
    Ok(Exit::Done)
}
