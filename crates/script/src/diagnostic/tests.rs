//! Tests that each code has a page, and that its examples cause the described problems.

use super::{Code, Severity};
use crate::{Diagnostic, Kind, Script, Settings, read_file};
use std::path::Path;

/// The beginnings of codes, and the headings of their sections in `docs/problems.md`.
const SECTIONS: [(&str, &str); 9] = [
    ("V0", "The file"),
    ("V1", "Syntax"),
    ("V2", "Declarations and settings"),
    ("V3", "Grants"),
    ("V4", "Modules"),
    ("V5", "Calls"),
    ("V6", "Likely mistakes"),
    ("V7", "Tests"),
    ("V8", "At run time"),
];

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
fn every_diagnostic_code_has_a_title_and_a_reason() {
    let all = Code::all();
    for code in &all {
        assert!(code.id().len() == 4 && !code.title().is_empty(), "{code:?}: {code} {}", code.title());
        assert!(code.summary().len() > 40, "{code}: {}", code.summary());
        assert_eq!(Code::from_name(&code.id().to_lowercase()), Some(*code));
    }
    assert!(all.len() > 80 && all.is_sorted_by(|one, next| one.id() < next.id()), "{all:?}");
    assert_eq!(Code::from_name("V999"), None);
}

/// Its introduction is written there.
#[test]
fn the_document_of_problems_contains_each_page() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/problems.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let mut expected = document[..=document.find("\n## ").unwrap()].to_owned();
    for (beginning, heading) in SECTIONS {
        expected += &format!("## {heading}\n\n");
        for code in Code::all().into_iter().filter(|code| code.id().starts_with(beginning)) {
            expected += &format!("### {code} {}\n\n{}\n\n", code.title(), code.page());
        }
    }
    expected.pop();
    if std::env::var_os("VALVEHOUSE_UPDATE").is_some() {
        std::fs::write(&path, &expected).unwrap();
        return;
    }
    let fix = "VALVEHOUSE_UPDATE=1 cargo test -p valvehouse-script diagnostic:: writes docs/problems.md";
    for (line, expected) in document.lines().zip(expected.lines()) {
        assert_eq!(line, expected, "{fix}");
    }
    assert_eq!(document.len(), expected.len(), "{fix}");
}

#[test]
fn wrong_examples_of_a_page_trigger_its_code_and_right_ones_do_not() {
    for code in Code::all() {
        let page = code.page();
        let (wrong, right) = (example(&page, "Wrong"), example(&page, "Right"));
        if WITHOUT_EXAMPLE.contains(&code) {
            assert!(wrong.is_none(), "{code} has an example: take it out of the list");
        } else {
            let found = problems(wrong.unwrap_or_else(|| panic!("{code} has no example")));
            assert!(!found.is_empty(), "{code}: the wrong example is all right");
            assert!(found.iter().all(|problem| problem.code == code), "{code}:\n{}", report(&found));
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
