//! The `valvehouse` binary: it knows the folders of a project and checks scripts.

use super::arguments::Global;
use super::output::{Exit, Failure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use valvehouse_port::{Draft, PluginKind};

/// Names the binary; `valvehouse port` sets it.
const VARIABLE: &str = "VALVEHOUSE";

/// The binary and the options of the command line for it.
pub(super) struct Host<'a> {
    program: PathBuf,
    global: &'a Global,
}

/// A problem as `valvehouse check` reports it.
pub(super) struct Problem(pub(super) Value);

impl Problem {
    pub(super) fn is_error(&self) -> bool {
        self.0["severity"] == "error"
    }

    /// Returns a text such as the code or the message.
    pub(super) fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_default()
    }
}

impl<'a> Host<'a> {
    /// Returns the binary that ran this program, the one beside it, or that of the path.
    pub(super) fn of(global: &'a Global) -> Self {
        let name = format!("valvehouse{}", std::env::consts::EXE_SUFFIX);
        let beside = std::env::current_exe().ok().map(|own| own.with_file_name(&name));
        let named = std::env::var_os(VARIABLE).map(PathBuf::from);
        let program = named.or(beside.filter(|path| path.is_file())).unwrap_or_else(|| name.into());
        Self { program, global }
    }

    /// Returns `None` if the binary is missing.
    fn output(&self, command: &mut Command) -> Result<Option<Output>, Failure> {
        match command.output() {
            Ok(output) => Ok(Some(output)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure {
                exit: Exit::Internal,
                message: format!("cannot run {}: {error}", self.program.display()),
            }),
        }
    }

    /// Returns the folder of the project for scripts of a kind. Without a binary, the usual name.
    pub(super) fn folder_of(&self, kind: PluginKind) -> Result<PathBuf, Failure> {
        let name = folder_name(kind);
        let key = format!("folders.{name}");
        let mut command = Command::new(&self.program);
        command.args(["config", &key, "--format", "json", "--project"]).arg(&self.global.project);
        for pair in &self.global.set {
            command.args(["--set", pair]);
        }
        let Some(output) = self.output(&mut command)? else { return Ok(self.global.project.join(name)) };
        if !output.status.success() {
            let code = output.status.code().and_then(|code| u8::try_from(code).ok());
            let message = reason(&String::from_utf8_lossy(&output.stderr));
            return Err(Failure { exit: code.map_or(Exit::Internal, Exit::Of), message });
        }
        let shown = serde_json::from_slice::<Value>(&output.stdout).ok();
        // A setting is shown as it is written in the file: a text in quotes.
        let value = shown.as_ref().and_then(|shown| shown[0]["value"].as_str());
        let folder: Option<String> = value.and_then(|value| serde_json::from_str(value).ok());
        Ok(self.global.project.join(folder.as_deref().unwrap_or(name)))
    }

    /// Returns the problems that `valvehouse check` reports for a draft that will be saved at `path`, or `None` if the
    /// binary is missing.
    pub(super) fn check(&self, draft: &Draft, path: &Path) -> Result<Option<Vec<Problem>>, Failure> {
        let Some(checked) = self.on_script(draft, &draft.script, "", "check")? else { return Ok(None) };
        let problems = checked["problems"].as_array().cloned().unwrap_or_default();
        Ok(Some(problems.into_iter().map(|problem| placed(problem, path)).collect()))
    }

    /// Returns the test of a draft: the first of each of its trials that the draft passes and a script that does nothing
    /// fails.
    pub(super) fn test_of(&self, draft: &Draft) -> Result<String, Failure> {
        let (mut done, mut idle) = (BTreeSet::new(), BTreeSet::new());
        for tests in draft.tried() {
            for (script, passed) in [(&draft.script, &mut done), (&draft.idle, &mut idle)] {
                let Some(results) = self.on_script(draft, script, &tests, "test")? else {
                    return Ok(draft.test.clone());
                };
                // A script that does not load passes and fails nothing.
                let Some(of_file) = results["files"][0]["tests"].as_array().filter(|all| !all.is_empty())
                else {
                    return Ok(draft.test.clone());
                };
                let of_file = of_file.iter();
                let passed_now = of_file.filter(|test| test["passed"] == true);
                passed.extend(passed_now.filter_map(|test| test["name"].as_str().map(str::to_owned)));
            }
        }
        let chosen: Vec<Option<usize>> = (0..draft.trials.len())
            .map(|at| {
                let bodies = draft.trials.get(at).map_or(0, |trial| trial.bodies.len());
                (0..bodies).find(|place| {
                    let name = format!("test_{at}_{place}");
                    done.contains(&name) && !idle.contains(&name)
                })
            })
            .collect();
        Ok(draft.test_of(&chosen))
    }

    /// Returns what a command says, as JSON, of a project with one script and its tests; `None` if the binary
    /// is missing.
    fn on_script(
        &self,
        draft: &Draft,
        script: &str,
        tests: &str,
        command: &str,
    ) -> Result<Option<Value>, Failure> {
        let internal = |error: String| Failure {
            exit: Exit::Internal,
            message: format!("cannot {command} the draft: {error}"),
        };
        let project = tempfile::tempdir().map_err(|error| internal(error.to_string()))?;
        let folder = project.path().join(folder_name(draft.kind));
        let file = folder.join(format!("{}.rhai", draft.id));
        let saved =
            std::fs::create_dir(&folder).and_then(|()| std::fs::write(&file, script)).and_then(|()| {
                if tests.is_empty() {
                    Ok(())
                } else {
                    std::fs::write(file.with_extension("test.rhai"), tests)
                }
            });
        saved.map_err(|error| internal(error.to_string()))?;
        let mut program = Command::new(&self.program);
        program.args([command, "--format", "json", "--project"]).arg(project.path());
        let Some(output) = self.output(&mut program)? else { return Ok(None) };
        let said = serde_json::from_slice(&output.stdout);
        said.map(Some).map_err(|_| internal(reason(&String::from_utf8_lossy(&output.stderr))))
    }
}

/// The problem, with the path where the draft is saved.
fn placed(mut problem: Value, path: &Path) -> Problem {
    problem["file"] = path.display().to_string().into();
    Problem(problem)
}

/// The message of an error, as JSON or as text.
fn reason(stderr: &str) -> String {
    let parsed = serde_json::from_str::<Value>(stderr.trim()).ok();
    let message = parsed.as_ref().and_then(|parsed| parsed["error"]["message"].as_str());
    message.unwrap_or(stderr.trim()).to_owned()
}

fn folder_name(kind: PluginKind) -> &'static str {
    match kind {
        PluginKind::Tool => "tools",
        PluginKind::Action => "actions",
        PluginKind::Filter | PluginKind::Pipe => "filters",
    }
}
