//! The reloading of `valvehouse.toml` while a host runs. Valid changes are applied, others are reported, and
//! the current settings stay active after an error.

use std::path::{Path, PathBuf};
use std::time::Duration;
use valvehouse_config::{Config, ConfigError, ConfigProblem, FILE, MAX_SETTINGS, Origin, read_regular};
use valvehouse_host::app::App;
use valvehouse_script::{Code, Diagnostic, Watch};
use valvehouse_terminal::Console;

/// The time for which a save by renaming may leave a missing or truncated file.
const GAP: Duration = Duration::from_millis(150);

const IN_FORCE: &str = "the previous settings stay active";

/// The inputs of the settings, read at the start and again while the host runs.
pub(super) struct Reading {
    /// The project folder.
    pub(super) project: PathBuf,
    /// The overrides of the command line.
    pub(super) overrides: Vec<(String, String)>,
    /// The port to listen on instead of the configured one.
    pub(super) port: Option<u16>,
    /// The content of the settings file before the first load; `None` if it did not exist.
    pub(super) text: Option<Vec<u8>>,
}

impl Reading {
    pub(super) fn new(project: PathBuf, overrides: Vec<(String, String)>, port: Option<u16>) -> Self {
        let text = read(&project.join(FILE));
        Self { project, overrides, port, text }
    }

    pub(super) fn load(&self) -> Result<Config, ConfigError> {
        let mut config = Config::load(&self.project, &self.overrides)?;
        if let Some(port) = self.port {
            config.server.listen.port = port;
        }
        Ok(config)
    }
}

/// The settings file and its watcher.
pub(super) struct SettingsFile {
    path: PathBuf,
    /// The content that was read last; `None` if the file did not exist.
    seen: Option<Vec<u8>>,
    /// `true` if the current settings were loaded from a file with content.
    is_in_use: bool,
    watch: Watch,
}

/// The reason for reading the settings again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    /// A save of the file.
    Save,
    /// An operator's signal.
    Operator,
}

impl SettingsFile {
    /// Starts to follow the settings file of a project. `seen` is its last known content.
    pub(super) fn follow(project: &Path, seen: Option<Vec<u8>>) -> Self {
        let project = std::path::absolute(project).unwrap_or_else(|_| project.to_owned());
        let is_in_use = !is_blank(&seen);
        Self { path: project.join(FILE), seen, is_in_use, watch: Watch::files_of(project) }
    }

    /// Waits until the content of the file changes.
    pub(super) async fn changed(&mut self) {
        loop {
            self.watch.tick().await;
            if read(&self.path) != self.seen {
                return;
            }
        }
    }

    /// Applies the current file, or reports why the previous settings stay active.
    pub(super) async fn apply(&mut self, trigger: Trigger, app: &App, reading: &Reading, out: &Console) {
        let mut text = read(&self.path);
        if trigger == Trigger::Save {
            if is_blank(&text) {
                tokio::time::sleep(GAP).await;
                text = read(&self.path);
            }
            if text == self.seen {
                return;
            }
        }
        let (is_blank, is_gone) = (is_blank(&text), !self.path.exists());
        self.seen = text;
        let applied = match trigger {
            Trigger::Save if self.is_in_use && is_blank && (is_gone || self.seen.is_some()) => {
                Err(vec![self.without_content(is_gone)])
            }
            _ => self.take_up(app, reading).await,
        };
        match applied {
            Ok(waiting) => {
                self.is_in_use = !is_blank;
                let generation = app.host.snapshot().generation;
                out.note(&format!("the settings are reloaded (generation {generation})"));
                if !waiting.is_empty() {
                    out.note(&format!("restart to apply: {}", waiting.join(", ")));
                }
            }
            Err(problems) => {
                if trigger == Trigger::Operator {
                    let why: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
                    out.note(&format!("cannot apply the settings:\n{}", why.join("\n")));
                }
                app.refuse_settings(problems).await;
            }
        }
    }

    async fn take_up(&self, app: &App, reading: &Reading) -> Result<Vec<String>, Vec<Diagnostic>> {
        let config = reading.load().map_err(|error| self.problems(&error))?;
        app.reconfigure(config).await.map_err(|error| vec![self.problem(error.to_string())])
    }

    fn without_content(&self, is_gone: bool) -> Diagnostic {
        let what = if is_gone { "is missing" } else { "is empty" };
        let problem = self.problem(format!("{FILE} {what}"));
        problem.help(format!("{IN_FORCE}; to run without the file, restart the host or send it SIGHUP"))
    }

    fn problems(&self, error: &ConfigError) -> Vec<Diagnostic> {
        let problem = |problem: &ConfigProblem| match &problem.origin {
            Origin::File { line, column, .. } => Diagnostic {
                line: Some(*line),
                column: Some(*column),
                excerpt: self.line(*line),
                ..self.problem(problem.message.clone())
            },
            _ => self.problem(problem.to_string()),
        };
        error.problems.iter().map(problem).collect()
    }

    fn problem(&self, why: String) -> Diagnostic {
        Diagnostic::new(Code::SettingsRefused, "", &self.path, format!("cannot apply the settings: {why}"))
            .help(IN_FORCE)
    }

    fn line(&self, number: usize) -> String {
        let text = read(&self.path).unwrap_or_default();
        line(&String::from_utf8_lossy(&text), number)
    }
}

/// Returns a line of a text by its number from 1; empty if it does not exist.
pub(super) fn line(text: &str, number: usize) -> String {
    let line = text.trim_start_matches('\u{feff}').lines().nth(number.saturating_sub(1));
    line.unwrap_or_default().to_owned()
}

/// Returns the content of the settings file; `None` if it cannot be read.
pub(super) fn read(path: &Path) -> Option<Vec<u8>> {
    read_regular(path, MAX_SETTINGS).ok()
}

/// Returns `true` if a file is missing or blank.
fn is_blank(text: &Option<Vec<u8>>) -> bool {
    text.as_ref().is_none_or(|text| text.iter().all(u8::is_ascii_whitespace))
}
