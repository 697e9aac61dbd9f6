//! The problems of a text: those that `check` would report if it were saved.

use super::document::{CheckedDiagnostic, Document, range_of, range_of_problem};
use lsp_types::{DiagnosticSeverity, NumberOrString, Position, Range};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tokio::runtime::Handle;
use valvehouse_authoring::fix::fix;
use valvehouse_authoring::testing::Suite;
use valvehouse_config::{Config, Grants};
use valvehouse_host::app;
use valvehouse_json::Json;
use valvehouse_script::{
    Diagnostic, Kind, LoadedFile, Script, Severity, SourceFile, is_module, read_file, read_text,
    script_of_tests,
};
use valvehouse_terminal::{Case, ScriptPlace, case, files, report};

/// The parts of a project that its scripts depend on.
pub(super) struct Project {
    /// The settings, or their problem.
    config: Result<Config, String>,
    granted: HashMap<String, Grants>,
}

/// Returns the project folder of a file: the nearest parent with settings or plugins, else an open folder of
/// the editor.
pub(super) fn folder_of(path: &Path, open: &[PathBuf]) -> PathBuf {
    let is_project = |folder: &&Path| {
        folder.join("valvehouse.toml").is_file()
            || ["filters", "tools", "actions"].iter().any(|name| folder.join(name).is_dir())
    };
    let above = || path.ancestors().skip(1);
    let found = above().find(is_project).map(Path::to_owned);
    let found = found.or_else(|| open.iter().find(|folder| path.starts_with(folder)).cloned());
    found.unwrap_or_else(|| above().next().unwrap_or(Path::new("")).to_owned())
}

impl Project {
    pub(super) fn open(folder: &Path, overrides: &[(String, String)], runtime: &Handle) -> Self {
        let config = Config::load(folder, overrides).map_err(|error| {
            let problems: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
            problems.join("\n")
        });
        let granted = config.as_ref().map(|config| runtime.block_on(app::stored_grants(config)));
        Self { granted: granted.unwrap_or_default(), config }
    }

    /// Returns the problems of a text with their fixes, and its effective valves if it compiles.
    pub(super) fn diagnose(&self, document: &Document) -> (Vec<CheckedDiagnostic>, Option<Json>) {
        let config = match &self.config {
            Ok(config) => config,
            Err(why) => return (vec![CheckedDiagnostic { diagnostic: of_settings(why), fix: None }], None),
        };
        let (problems, valves) = self.problems(config, &document.path, &document.text);
        let found = problems.iter().map(|problem| {
            let fix = is_here(document, problem).then(|| fix(problem, &document.text)).flatten();
            CheckedDiagnostic { diagnostic: diagnostic(document, problem), fix }
        });
        (found.collect(), valves)
    }

    /// Returns the settings.
    pub(super) fn config(&self) -> Result<&Config, &str> {
        self.config.as_ref().map_err(String::as_str)
    }

    fn problems(&self, config: &Config, path: &Path, text: &str) -> (Vec<Diagnostic>, Option<Json>) {
        let ScriptPlace { kind, root, path } = ScriptPlace::of_text(config, path, text);
        if script_of_tests(&path).is_some() {
            return (self.of_tests(config, (kind, &root), &path, text), None);
        }
        let is_saved = files::read_text(&path, text.len()).is_ok_and(|saved| saved == text);
        let read = if is_saved { read_file(kind, &root, &path) } else { read_text(kind, &root, &path, text) };
        let LoadedFile { file, .. } = match read {
            Ok(read) => read,
            Err(problem) => return (vec![problem], None),
        };
        if is_module(&root, &path) {
            return (Script::check_module(&file, &root), None);
        }
        let settings = app::settings_of(config, &self.granted, kind, &file.id);
        match Script::compile(&file, &settings) {
            Ok(script) => (script.findings(), Some(script.manifest.valves.mask(&script.valves))),
            Err(problems) => (problems, None),
        }
    }

    /// Returns the problems of a test file. Its script is unknown until the file is saved.
    fn of_tests(&self, config: &Config, of: (Kind, &Path), path: &Path, text: &str) -> Vec<Diagnostic> {
        if !path.is_file() {
            return Vec::new();
        }
        match case(of.0, of.1, path) {
            Err(problem) => vec![problem],
            Ok(Case { script, tests }) => {
                let settings = app::settings_of(config, &self.granted, script.kind, &script.id);
                Suite::check(&script, &SourceFile { text: text.into(), ..tests }, &settings)
            }
        }
    }
}

fn of_settings(why: &str) -> lsp_types::Diagnostic {
    let message = format!("scripts cannot be checked before the project's settings are right:\n{why}");
    let at = Range::new(Position::new(0, 0), Position::new(0, 1));
    lsp_types::Diagnostic { source: source(), ..lsp_types::Diagnostic::new_simple(at, message) }
}

fn is_here(document: &Document, problem: &Diagnostic) -> bool {
    problem.path.file_name() == document.path.file_name()
}

pub(super) fn diagnostic(document: &Document, problem: &Diagnostic) -> lsp_types::Diagnostic {
    let (range, mut message) = if is_here(document, problem) {
        (range_of_problem(&document.text, problem), problem.message.clone())
    } else {
        (range_of_import(document, &problem.path), format!("{}: {}", problem.place(), problem.message))
    };
    if let Some(help) = &problem.help {
        message.push_str(&format!("\nhelp: {help}"));
    }
    // The code is that of the JSON output.
    let code = report::as_json(problem).text("code").map(|code| NumberOrString::String(code.to_string()));
    let severity = match problem.severity {
        Severity::Error => DiagnosticSeverity::ERROR,
        Severity::Warning => DiagnosticSeverity::WARNING,
    };
    lsp_types::Diagnostic {
        range,
        severity: Some(severity),
        code,
        source: source(),
        message,
        ..lsp_types::Diagnostic::default()
    }
}

fn source() -> Option<String> {
    Some("valvehouse".to_owned())
}

/// Returns the range of the import of a module with a problem; the top of the file if another module imports
/// it.
fn range_of_import(document: &Document, module: &Path) -> Range {
    let is_it = |path: &str| module.with_extension("").ends_with(path);
    let import = document.sketch.imports().iter().find(|import| is_it(&import.path));
    range_of(&document.text, import.map_or(&(0..1), |import| &import.path_at))
}

/// Returns the file that an import refers to: next to the importing file, or in its plugin folder.
pub(super) fn imported(path: &Path, import: &str) -> Option<PathBuf> {
    let is_plain =
        !import.is_empty() && import.split('/').all(|part| !part.is_empty() && !part.starts_with('.'));
    let folders = path.ancestors().skip(1).take_while(|folder| {
        folder.parent().is_some_and(|above| !above.join("valvehouse.toml").is_file() || *folder != above)
    });
    let tops = folders.take(4).map(|folder| folder.join(format!("{import}.rhai")));
    is_plain.then(|| tops.into_iter().find(|path| path.is_file())).flatten()
}
