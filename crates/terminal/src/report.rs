//! Problems of scripts as people and programs read them.

use crate::output::{Paint, clean};
use std::path::{Path, PathBuf};
use valvehouse_json::Json;
use valvehouse_script::{Problem, Severity};

/// Longer lines are shown in part, which only the plain form does.
const LONG: usize = 160;

/// Place, message, the line with a caret, the help: drawn at terminals, plain ASCII elsewhere.
pub fn shown(problem: &Problem, paint: Paint) -> String {
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
pub fn as_json(problem: &Problem) -> Json {
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
pub fn all_as_json<'a>(problems: impl IntoIterator<Item = &'a Problem>) -> Json {
    problems.into_iter().map(as_json).collect::<Vec<_>>().into()
}

/// The path as somebody in this folder would type it.
pub fn near(path: &Path) -> PathBuf {
    let here = std::env::current_dir().ok();
    let inside = here.and_then(|here| path.strip_prefix(&here).ok().map(Path::to_owned));
    // A path with `./` in it means the same without.
    inside.unwrap_or_else(|| path.to_owned()).components().collect()
}

/// The place at which a script broke, as a cause names it: `filters/x.rhai:3:5: why`.
pub struct Broke<'a> {
    /// The file.
    pub path: &'a Path,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted in letters from 1.
    pub column: usize,
    /// The reason.
    pub why: &'a str,
}

impl<'a> Broke<'a> {
    /// None where the cause names no place.
    pub fn of(cause: &'a str) -> Option<Self> {
        let (place, why) = cause.split_once(": ")?;
        let mut parts = place.rsplitn(3, ':');
        let (column, line) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Self { path: Path::new(parts.next()?), line, column, why })
    }

    /// The line of a text.
    pub fn excerpt(&self, text: &'a str) -> Option<&'a str> {
        text.trim_start_matches('\u{feff}').lines().nth(self.line.checked_sub(1)?)
    }
}

fn presentable(problem: &Problem) -> Problem {
    Problem {
        path: near(&problem.path),
        excerpt: clean(&problem.excerpt).replace('\t', " "),
        message: clean(&problem.message),
        help: problem.help.as_deref().map(clean),
        ..problem.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use valvehouse_script::Code;

    fn problem() -> Problem {
        let mut problem = Problem::new(Code::Syntax, "x", Path::new("filters/x.rhai"), "unknown word")
            .help("write another");
        (problem.line, problem.column) = (Some(3), Some(9));
        problem.excerpt = "  let ä\t= wrong;\u{1b}".into();
        problem
    }

    #[test]
    fn without_colours_it_is_plain_text() {
        let text = shown(&problem(), Paint { colours: false });
        assert_eq!(
            text,
            "filters/x.rhai:3:9: error[V101]: unknown word\n   |\n 3 |   let ä = wrong;\u{fffd}\n   |         ^\n   = help: write another"
        );
    }

    #[cfg(feature = "drawn")]
    #[test]
    fn at_a_terminal_it_is_drawn_with_the_line_and_its_number() {
        let text = shown(&problem(), Paint { colours: true });
        assert!(text.contains("unknown word") && text.contains("filters/x.rhai:3:9"), "{text}");
        assert!(text.contains("let ä = wrong;") && text.contains("write another"), "{text}");
        let far = Problem { column: Some(900), ..problem() };
        assert!(shown(&far, Paint { colours: true }).contains("unknown word"));
        let whole = Problem::new(Code::Syntax, "x", Path::new("filters/x.rhai"), "the file is empty");
        assert!(shown(&whole, Paint { colours: true }).contains("filters/x.rhai: the file is empty"));
    }

    #[test]
    fn programs_get_every_part() {
        let json = as_json(&problem());
        assert_eq!(json.at_path("column").as_i64(), Some(9));
        assert_eq!(json.text("severity").as_deref(), Some("error"));
        assert_eq!(json.text("code").as_deref(), Some("V101"));
    }
}
