//! Problems of scripts as people and programs read them.
//!
//! Files named on the command line: the folder of plugins that a script belongs to, and the tests beside it.

use crate::output::{Paint, clean};
use std::path::{Path, PathBuf};
use valvehouse_config::Config;
use valvehouse_host::app;
use valvehouse_json::Json;
use valvehouse_script::{
    Code, Diagnostic, Kind, Severity, SourceFile, is_module, read_file, read_tests, script_of_tests,
};

/// Longer lines are shown in part, which only the plain form does.
const LONG: usize = 160;

/// Place, message, the line with a caret, the help: drawn at terminals, plain ASCII elsewhere.
pub fn shown(problem: &Diagnostic, paint: Paint) -> String {
    let problem = presentable(problem);
    if !paint.colours || problem.excerpt.chars().count() > LONG {
        return problem.to_string();
    }
    #[cfg(feature = "drawn")]
    return crate::graphical_report::drawn(&problem);
    #[cfg(not(feature = "drawn"))]
    problem.to_string()
}

/// A problem as a JSON object.
pub fn as_json(problem: &Diagnostic) -> Json {
    let severity = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    Json::from([
        ("id", problem.id.as_str().into()),
        ("code", problem.code.id().into()),
        ("file", near(&problem.path).display().to_string().into()),
        ("line", problem.line.into()),
        ("column", problem.column.into()),
        ("severity", severity.into()),
        ("message", problem.message.as_str().into()),
        ("help", problem.help.clone().into()),
        ("excerpt", problem.excerpt.as_str().into()),
    ])
}

/// Problems as a JSON array.
pub fn all_as_json<'a>(problems: impl IntoIterator<Item = &'a Diagnostic>) -> Json {
    problems.into_iter().map(as_json).collect::<Vec<_>>().into()
}

/// The path relative to the current folder.
pub fn near(path: &Path) -> PathBuf {
    let here = std::env::current_dir().ok();
    let inside = here.and_then(|here| path.strip_prefix(&here).ok().map(Path::to_owned));
    // A path with `./` in it means the same without.
    inside.unwrap_or_else(|| path.to_owned()).components().collect()
}

fn presentable(problem: &Diagnostic) -> Diagnostic {
    Diagnostic {
        path: near(&problem.path),
        excerpt: clean(&problem.excerpt).replace('\t', " "),
        message: clean(&problem.message),
        help: problem.help.as_deref().map(clean),
        ..problem.clone()
    }
}

/// A file or folder among plugins.
pub struct ScriptPlace {
    /// The kind of plugins in the folder.
    pub kind: Kind,
    /// The folder that imports are looked for in.
    pub root: PathBuf,
    /// As the folder names it, however it was named here.
    pub path: PathBuf,
}

impl ScriptPlace {
    /// Returns the folder of plugins that a path belongs to.
    pub fn of(config: &Config, path: &Path) -> Self {
        Self::in_folder_of(app::kind_of(config, path), config, path)
    }

    /// The same of a file that may not be saved yet, and will have this text.
    pub fn of_text(config: &Config, path: &Path, text: &str) -> Self {
        let kind = match path {
            path if path.is_file() => app::kind_of(config, path),
            path => {
                let kinds = [Kind::Tool, Kind::Action, Kind::Filter].into_iter();
                let mut around = kinds.filter(|kind| path.starts_with(app::folder_of(config, *kind)));
                around.next().unwrap_or_else(|| Kind::guess(text))
            }
        };
        Self::in_folder_of(kind, config, path)
    }

    fn in_folder_of(kind: Kind, config: &Config, path: &Path) -> Self {
        let root = app::folder_of(config, kind);
        let within = path.canonicalize().ok().zip(root.canonicalize().ok());
        let within = within.and_then(|(path, root)| Some(path.strip_prefix(root).ok()?.to_owned()));
        let (root, path) = match within {
            Some(within) => (root.to_owned(), root.join(within)),
            None if path.is_dir() => (path.to_owned(), path.to_owned()),
            None if path.starts_with(root) => (root.to_owned(), path.to_owned()),
            None => (path.parent().unwrap_or(Path::new("")).to_owned(), path.to_owned()),
        };
        Self { kind, root, path }
    }
}

/// A file of tests and the script it is about.
#[derive(Debug)]
pub struct Case {
    /// The script.
    pub script: SourceFile,
    /// Its tests.
    pub tests: SourceFile,
}

/// A file of tests with its script.
///
/// # Errors
///
/// Returns the problem of a file that cannot be read, or that has no script beside it.
pub fn case(kind: Kind, root: &Path, path: &Path) -> Result<Case, Diagnostic> {
    let tests = read_tests(kind, root, path)?;
    let script = script_of_tests(path).unwrap_or_default();
    if !script.is_file() {
        let problem =
            Diagnostic::new(Code::NoTest, &tests.id, path, "these tests have no script in the same folder");
        let help =
            format!("they belong to {}: rename one of the two, or delete the tests", near(&script).display());
        return Err(problem.help(help));
    }
    let read = read_file(kind, root, &script)?.file;
    // A module is tested function by function, in whichever folder it lies.
    let kind = if is_module(root, &script) { Kind::Filter } else { kind };
    Ok(Case { script: SourceFile { kind, ..read }, tests })
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_script::Code;

    fn problem() -> Diagnostic {
        let mut problem = Diagnostic::new(Code::Syntax, "x", Path::new("filters/x.rhai"), "unknown word")
            .help("write another");
        (problem.line, problem.column) = (Some(3), Some(9));
        problem.excerpt = "  let ä\t= wrong;\u{1b}".into();
        problem
    }

    #[test]
    fn a_report_without_colors_is_plain_text() {
        let text = shown(&problem(), Paint { colours: false });
        assert_eq!(
            text,
            "filters/x.rhai:3:9: error[V101]: unknown word\n   |\n 3 |   let ä = wrong;\u{fffd}\n   |         ^\n   = help: write another"
        );
    }

    #[cfg(feature = "drawn")]
    #[test]
    fn a_terminal_report_shows_the_source_line_with_its_number() {
        let text = shown(&problem(), Paint { colours: true });
        assert!(text.contains("unknown word") && text.contains("filters/x.rhai:3:9"), "{text}");
        assert!(text.contains("let ä = wrong;") && text.contains("write another"), "{text}");
        let far = Diagnostic { column: Some(900), ..problem() };
        assert!(shown(&far, Paint { colours: true }).contains("unknown word"));
        let whole = Diagnostic::new(Code::Syntax, "x", Path::new("filters/x.rhai"), "the file is empty");
        assert!(shown(&whole, Paint { colours: true }).contains("filters/x.rhai: the file is empty"));
    }

    #[test]
    fn a_json_report_has_every_field() {
        let json = as_json(&problem());
        assert_eq!(json.at_path("column").as_i64(), Some(9));
        assert_eq!(json.text("severity").as_deref(), Some("error"));
        assert_eq!(json.text("code").as_deref(), Some("V101"));
    }
}
