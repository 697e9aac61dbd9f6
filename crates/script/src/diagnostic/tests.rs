//! Tests that each code has a page, and that its examples cause the described problems.

use super::{Code, Severity};
use crate::{Diagnostic, Kind, Script, Settings, read_file};
use std::path::Path;

const DOCUMENT: &str = include_str!("../../problems.md");

/// Codes without an example, because they depend on more than the text of one script.
const WITHOUT_EXAMPLE: [Code; 30] = [
    Code::Unreadable,
    Code::TooLong,
    Code::NoText,
    Code::Empty,
    Code::BadId,
    Code::SameId,
    Code::GuardGone,
    Code::Quarantined,
    Code::SetAside,
    Code::GuardWeakened,
    Code::UnknownName,
    Code::SettingsRefused,
    Code::SettingsWaiting,
    Code::SecretUnread,
    Code::GenerationRefused,
    Code::StorePolled,
    Code::StoreAway,
    Code::McpAway,
    Code::McpQuarantined,
    Code::TooComplex,
    Code::NoHandler,
    Code::NoAction,
    Code::MissingTool,
    Code::ValveMisfit,
    Code::TooManyModules,
    Code::NoTest,
    Code::TestWithParameters,
    Code::TestFailed,
    Code::Broke,
    Code::ScheduledFailed,
];

/// Returns all problems of an example: a script, and modules after lines `// file: PATH`.
fn problems(example: &str) -> Vec<Diagnostic> {
    let folder = tempfile::tempdir().unwrap();
    let mut files = example.split("// file: ");
    let script = files.next().unwrap();
    for file in files {
        let (path, text) = file.split_once('\n').unwrap();
        write(&folder.path().join(path.trim()), text);
    }
    let path = folder.path().join("x.rhai");
    write(&path, script);
    // A file with a handler is a tool even if it has a hook, which is one of the mistakes.
    let is_tool = script.contains("fn handler(") || script.contains("fn tools(");
    let is_action = script.contains("fn action(");
    let kind = match is_tool {
        true => Kind::Tool,
        false if is_action => Kind::Action,
        false => Kind::Filter,
    };
    match read_file(kind, folder.path(), &path) {
        Err(problem) => vec![problem],
        Ok(read) => match Script::compile(&read.file, &Settings::default()) {
            Ok(script) => [script.warnings.clone(), script.lints()].concat(),
            Err(problems) => problems,
        },
    }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn example<'a>(page: &'a str, word: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(&format!("{word}:\n```rhai\n"))?;
    rest.split_once("\n```").map(|(example, _)| example)
}

fn report(problems: &[Diagnostic]) -> String {
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

#[test]
fn every_diagnostic_code_has_one_page_with_title_and_reason() {
    let headings: Vec<&str> = DOCUMENT.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let expected: Vec<String> =
        Code::ALL.iter().map(|code| format!("{} {}", code.id(), code.title())).collect();
    assert_eq!(headings, expected);
    for code in Code::ALL {
        assert!(code.summary().len() > 40, "{code}: {}", code.summary());
        assert_eq!(Code::from_name(&code.id().to_lowercase()), Some(*code));
    }
    assert_eq!(Code::from_name("V999"), None);
}

#[test]
fn wrong_examples_of_a_page_trigger_its_code_and_right_ones_do_not() {
    for code in Code::ALL {
        let (wrong, right) = (example(code.page(), "Wrong"), example(code.page(), "Right"));
        if WITHOUT_EXAMPLE.contains(code) {
            assert!(wrong.is_none(), "{code} has an example: take it out of the list");
        } else {
            let found = problems(wrong.unwrap_or_else(|| panic!("{code} has no example")));
            assert!(!found.is_empty(), "{code}: the wrong example is all right");
            assert!(found.iter().all(|problem| problem.code == *code), "{code}:\n{}", report(&found));
            assert!(found.iter().all(|problem| problem.help.is_some()), "{code}:\n{}", report(&found));
            assert!(right.is_some(), "{code} does not say how it is right");
        }
        let left = right.map(problems).unwrap_or_default();
        assert!(left.is_empty(), "{code}: the right example:\n{}", report(&left));
    }
}

#[test]
fn problems_that_prevent_loading_are_errors() {
    let found = problems("fn inlet(body) {\n    body.x = ;\n}");
    assert_eq!(found.iter().map(|problem| problem.severity).collect::<Vec<_>>(), [Severity::Error]);
}
