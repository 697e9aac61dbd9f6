//! The functions for tests: those in `scripts/passing` pass, those in `scripts/failing` fail at the place and
//! with the message that they contain.

use super::text;
use crate::cli::Project;
use std::path::PathBuf;
use valvehouse::json::Json;

fn scripts(folder: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/testing/scripts").join(folder)
}

#[test]
fn every_test_function_works_as_documented() {
    let folder = scripts("passing").display().to_string();
    let ran = Project::new().run_with(&["test", "--project", &folder], "").ends(0);
    let ran = ran.prints("hooks_work_on_a_copy_and_share_their_turn").prints("models_may_call_them");
    assert!(!ran.out.contains("FAIL") && ran.talk.is_empty(), "{}\n{}", ran.out, ran.talk);
}

/// If a script reached the network, a file or a program, it would fail differently.
#[test]
fn a_failing_assertion_reports_its_position_and_message() {
    let source = std::fs::read_to_string(scripts("failing").join("filters/words.test.rhai")).unwrap();
    let lines: Vec<&str> = source.lines().collect();
    let folder = scripts("failing").display().to_string();
    let ran = Project::new().run_with(&["test", "--project", &folder, "--format", "json"], "").ends(1);
    let tests = ran.json().at_path("files.0.tests").items();
    assert_eq!(tests.len(), source.matches("fn test_").count());
    for test in &tests {
        assert_eq!(test.get("passed"), Some(false.into()), "{test}");
        let line = test.at_path("problem.line").as_i64().unwrap_or_default();
        let expected = lines[usize::try_from(line).unwrap().saturating_sub(1)].split("// FAILS: ").nth(1);
        let expected = expected.unwrap_or_else(|| panic!("line {line} says nothing: {test}"));
        assert!(text(test, "problem.message").contains(expected), "{expected}: {test}");
        assert!(test.at_path("problem.column").as_i64().is_some(), "{test}");
    }
    let compared = tests.iter().find(|test| text(test, "name") == "test_assert_eq").unwrap();
    let change = &compared.get("differences").unwrap().items()[0];
    assert_eq!((text(change, "path"), change.get("before")), ("/1".to_owned(), Some(Json::from(3_i64))));
}
