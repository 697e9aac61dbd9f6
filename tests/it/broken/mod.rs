//! Scripts with typical mistakes and the complete diagnostics for each: `NAME.rhai` and `NAME.expected`.
//! `UPDATE_EXPECTED=1` writes the current diagnostics; review them before you commit them.

use std::path::{Path, PathBuf};
use valvehouse::script::{Diagnostic, Kind, Script, Settings, read_file};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/broken")
}

fn scripts() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut scripts: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "rhai")).collect();
    scripts.sort();
    scripts
}

/// Returns all diagnostics of `valvehouse check` for a script.
fn problems(path: &Path) -> Vec<Diagnostic> {
    let kind = Kind::guess(&std::fs::read_to_string(path).unwrap());
    let kind =
        if path.file_stem().unwrap().to_string_lossy().starts_with("tool") { Kind::Tool } else { kind };
    let mut problems = match read_file(kind, &folder(), path) {
        Err(problem) => vec![problem],
        Ok(read) => match Script::compile(&read.file, &Settings::default()) {
            Ok(script) => [script.warnings.clone(), script.lints()].concat(),
            Err(problems) => problems,
        },
    };
    problems.sort_by_key(|problem| (problem.line, problem.column));
    problems
}

fn report(problems: &[Diagnostic]) -> String {
    let text: String = problems.iter().map(|problem| format!("{problem}\n")).collect();
    text.replace(&format!("{}/", folder().display()), "")
}

#[test]
fn each_broken_script_has_its_expected_report() {
    let update = std::env::var_os("UPDATE_EXPECTED").is_some();
    let mut wrong = String::new();
    for path in scripts() {
        let (now, beside) = (report(&problems(&path)), path.with_extension("expected"));
        if update {
            std::fs::write(&beside, &now).unwrap();
        }
        let expected = std::fs::read_to_string(&beside).unwrap_or_default();
        if now != expected {
            wrong.push_str(&format!("{}\n-- expected\n{expected}-- actual\n{now}\n", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn each_report_has_position_cause_and_help() {
    let scripts = scripts();
    assert!(scripts.len() >= 40, "{} broken scripts", scripts.len());
    for path in scripts {
        let problems = problems(&path);
        assert!(!problems.is_empty(), "{} is all right", path.display());
        for problem in problems {
            let has_place = problem.line.is_some() && problem.column.is_some() && !problem.excerpt.is_empty();
            assert!(has_place && !problem.message.is_empty() && problem.help.is_some(), "{problem}");
        }
    }
}
