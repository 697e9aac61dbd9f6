//! The shipped scripts pass `valvehouse check` and `valvehouse test`.

use std::process::Command;
use valvehouse::json::Json;

fn valvehouse(words: &[&str]) -> Json {
    let mut command = Command::new(env!("CARGO_BIN_EXE_valvehouse"));
    let ran = command.current_dir(env!("CARGO_MANIFEST_DIR")).args(words).args(["--format", "json"]).output();
    let ran = ran.unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    Json::parse(stdout.trim().as_bytes()).unwrap_or_else(|error| panic!("{error}\n{stdout}\n{stderr}"))
}

#[test]
fn check_finds_no_problem_in_the_collection() {
    let checked = valvehouse(&["check", "--strict"]);
    assert!(checked.at_path("checked").as_i64().unwrap() > 90, "{checked}");
    assert!(checked.at_path("problems").is_empty(), "{checked}");
}

#[test]
fn all_tests_pass_and_reach_every_hook_and_tool() {
    let ran = valvehouse(&["test", "--coverage"]);
    let failed = |file: &Json| {
        let tests = file.at_path("tests").items().into_iter();
        tests
            .filter(|test| test.at_path("passed") != true.into())
            .map(|test| test.to_string())
            .collect::<Vec<_>>()
    };
    let files = ran.at_path("files").items();
    let failed: Vec<String> = files.iter().flat_map(failed).collect();
    assert!(
        failed.is_empty() && ran.at_path("problems").is_empty(),
        "{}\n{}",
        failed.join("\n"),
        ran.at_path("problems")
    );
    assert!(ran.at_path("untested").is_empty(), "{}", ran.at_path("untested"));
    for file in &files {
        let not_called = file.at_path("coverage.not_called");
        assert!(not_called.is_empty(), "{} never calls {not_called}", file.at_path("file"));
    }
    let kinds = |folder: &str| {
        let scripts = files.iter().filter(|file| file.text("script").unwrap_or_default().starts_with(folder));
        scripts.filter(|file| !file.text("script").unwrap_or_default().contains("/lib/")).count()
    };
    assert!(
        kinds("filters/") >= 25 && kinds("tools/") >= 12,
        "{} and {}",
        kinds("filters/"),
        kinds("tools/")
    );
}
