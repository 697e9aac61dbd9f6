//! MCP servers that run as programs. A program gets only granted environment variables, and ends together
//! with all processes that it started.

use parking_lot::Mutex;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use valvehouse_config::SecretSource;

/// The time after which a program that got the signal to end is killed.
const GRACE: Duration = Duration::from_secs(2);
/// The maximum length of a line of error output, in characters.
const MAX_LINE: usize = 500;

/// A shell script that waits for the end of its input, which the system closes when this process ends, and
/// then kills a process group.
#[cfg(unix)]
const WATCH: &str = r#"read -r _; kill -s KILL -- "-$0""#;

/// A running program.
pub(super) struct Program {
    child: Child,
    /// The id of its process group.
    group: Option<u32>,
    /// The shell that kills the group if this process is killed.
    _watchdog: Option<Child>,
    /// The last line of its error output.
    last_words: Arc<Mutex<String>>,
}

impl Program {
    /// Starts a program; returns it with its standard input and output.
    ///
    /// # Errors
    /// Returns an error with the reason if it cannot be started.
    pub(super) fn start(
        server: &str,
        command: &[String],
        env: &[(String, SecretSource)],
        folder: &Path,
    ) -> Result<(Self, ChildStdout, ChildStdin), String> {
        let (program, args) = command.split_first().ok_or("its command is empty")?;
        let mut starting = Command::new(program);
        starting.args(args).env_clear().current_dir(folder).kill_on_drop(true);
        starting.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(path) = std::env::var_os("PATH") {
            starting.env("PATH", path);
        }
        for (name, source) in env {
            let value = source.read().map_err(|error| format!("cannot set its variable {name}: {error}"))?;
            starting.env(name, value.expose());
        }
        #[cfg(unix)]
        starting.process_group(0);
        let mut child = starting.spawn().map_err(|error| format!("cannot start `{program}`: {error}"))?;
        let last_words = Arc::new(Mutex::new(String::new()));
        if let Some(errors) = child.stderr.take() {
            tokio::spawn(listen(server.to_owned(), errors, last_words.clone()));
        }
        let (output, input) = (child.stdout.take(), child.stdin.take());
        let group = child.id();
        let program = Self { child, group, _watchdog: group.and_then(watchdog), last_words };
        match (output, input) {
            (Some(output), Some(input)) => Ok((program, output, input)),
            _ => Err("cannot open its standard input and output".into()),
        }
    }

    /// Returns the last line of its error output.
    pub(super) fn last_words(&self) -> String {
        self.last_words.lock().clone()
    }

    /// Gives the program, whose input is closed, time to end; then kills it with all processes that it
    /// started.
    pub(super) async fn end(mut self) {
        let _ = tokio::time::timeout(GRACE, self.child.wait()).await;
        // Processes that it started may still be running.
        self.signal();
        let _ = self.child.wait().await;
        self.group = None;
    }

    fn signal(&self) {
        #[cfg(unix)]
        if let Some(group) = self.group.and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())) {
            // An error means that no process is left.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.signal();
    }
}

/// Starts the watchdog of a process group. Without a shell, the program of a killed host ends only if it
/// reacts to the end of its input.
#[cfg(unix)]
fn watchdog(group: u32) -> Option<Child> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", WATCH, &group.to_string()]).env_clear().current_dir("/").kill_on_drop(true);
    // The watchdog has its own process group, so that Ctrl-C in a terminal does not reach it.
    shell.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    match shell.spawn() {
        Ok(shell) => Some(shell),
        Err(error) => {
            tracing::debug!("cannot start a watchdog for a program: {error}");
            None
        }
    }
}

#[cfg(not(unix))]
fn watchdog(_: u32) -> Option<Child> {
    None
}

/// Logs all lines, and stores the last one.
async fn listen(server: String, errors: impl AsyncRead + Unpin, last: Arc<Mutex<String>>) {
    let mut lines = BufReader::new(errors).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        let text: String = String::from_utf8_lossy(&line).trim().chars().take(MAX_LINE).collect();
        if !text.is_empty() {
            tracing::debug!(server, "{text}");
            *last.lock() = text;
        }
    }
}
