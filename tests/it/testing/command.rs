//! The selection of tests, the report, and the exit code of the command.

use super::{of_limit, outcomes, text};
use crate::cli::Project;

const TWO: &str = "fn test_few() { inlet(\"hi\"); }\nfn test_many() {\n    inlet([1, 2, 3]);\n}\n";

#[test]
fn a_failed_test_is_shown_with_position_difference_and_output() {
    let tests = "fn test_good() { inlet(\"hi\"); }\nfn test_bad() {\n    assert_eq(outlet(\"yes\").messages[-1].content, \"yes?\");\n}\nfn test_loud() {\n    inlet(\"hi\");\n    fail(\"loud\");\n}";
    let ran = of_limit(tests).run("test").ends(1);
    let ran = ran
        .prints("filters/limit.test.rhai:3:5: error[V703]: the actual value differs from the expected value");
    let ran = ran.prints(" 3 |     assert_eq(").prints("- \"yes?\"").prints("+ \"yes!\"");
    let ran = ran.prints("info seen 1").prints("3 tests in 1 file: 1 passed, 2 failed");
    assert_eq!(ran.out.matches("seen 1").count(), 1, "only what a failed test printed:\n{}", ran.out);
    let all = of_limit(tests).run("test --show-output").ends(1);
    assert_eq!(all.out.matches("seen 1").count(), 2, "{}", all.out);
}

#[test]
fn a_script_error_is_shown_at_its_position() {
    let project = Project::new().filter("bad", "fn inlet(body) {\n    body.x = [1][9];\n}");
    let project = project.with("filters/bad.test.rhai", "fn test_it() {\n    inlet(\"hi\");\n}");
    let ran =
        project.run("test").ends(1).prints("filters/bad.rhai:2:18: error[V703]: array index 9 out of bounds");
    ran.prints(" 2 |     body.x = [1][9];").prints("called at filters/bad.test.rhai:2:5: inlet(\"hi\");");
}

#[test]
fn tests_are_selected_by_file_script_folder_id_or_name_part() {
    let project = of_limit(TWO)
        .with("tools/twice.rhai", "const parameters = #{};\nfn handler(args) { 2 }")
        .with("tools/twice.test.rhai", "fn test_twice() { assert_eq(invoke(#{}), 2); }")
        .filter("lib/words", "fn shout(text) { text + \"!\" }")
        .with("filters/lib/words.test.rhai", "import \"lib/more\" as more;\nfn test_shout() { assert_eq(run_function(\"shout\", [more::word()]), \"a!\"); }")
        .filter("lib/more", "fn word() { \"a\" }")
        .filter("untested", "fn inlet(body) { body }");
    let names = |words: &str| {
        let ran = project.run(&format!("test --format json {words}"));
        let names: Vec<String> = outcomes(&ran).into_iter().map(|(name, _)| name).collect();
        names.join(" ").replace("test_", "")
    };
    assert_eq!(names(""), "shout few many twice");
    assert_eq!(names("filters"), "shout few many");
    assert_eq!(names("filters/lib"), "shout");
    assert_eq!(names("tools/twice.rhai filters/limit.test.rhai"), "few many twice");
    assert_eq!(names("limit filters/limit.rhai limit"), "few many");
    assert_eq!(names("--filter man"), "many");
    project.run("test").ends(1).stderr_has("1 script has no tests: filters/untested.rhai");
    let output = project.run("test --filter nope").ends(2);
    output.stderr_has("unknown test: no name contains `nope`; there are 4 tests:").stderr_has("test_few");
    project
        .run("test untested")
        .ends(2)
        .stderr_has("filters/untested.rhai has no tests: write them in filters/untested.test.rhai");
    project.run("test limt").ends(2).stderr_has("did you mean `limit`?");
    project.run("test valvehouse.nope").ends(2).stderr_has("unknown file, folder or plugin");
}

#[test]
fn unrunnable_test_files_are_problems_and_the_others_run() {
    let project = of_limit(TWO)
        .with("filters/gone.test.rhai", "fn test_a() { }")
        .filter("torn", "fn inlet(body) {")
        .with("filters/torn.test.rhai", "fn test_a() { }")
        .filter("odd", "fn inlet(body) { body }")
        .with("filters/odd.test.rhai", "fn test_a() {\n    let x = nope;\n}");
    let ran = project.run("test").ends(65);
    let ran = ran.prints("gone.test.rhai: error[V701]: these tests have no script in the same folder");
    let ran = ran.prints("filters/torn.rhai:1:").prints("filters/odd.test.rhai:2:13");
    ran.prints("2 tests in 3 files: 1 passed, 1 failed, 3 files that cannot be run");
    let json = project.run("test --format json").ends(65).json();
    assert_eq!(json.get("not_run").and_then(|count| count.as_i64()), Some(3));
    assert_eq!(text(&json, "problems.0.code"), "V701");
}

#[test]
fn tests_ignore_stored_valves_and_use_project_budgets() {
    let tests = "fn test_default() { assert_eq(throws(|| inlet([1, 2, 3])).message, \"more than 2\"); }";
    let configured = of_limit(tests).with("valvehouse.toml", "[filters.limit]\nvalves = { max = 9 }\n");
    configured.run("valves set limit max=8").ends(0);
    configured.run("test").ends(0);
    let script = "fn inlet(body) { for n in 0..10_000 { body.n = n; } }";
    let project =
        Project::new().filter("x", script).with("filters/x.test.rhai", "fn test_it() { inlet(\"hi\"); }");
    project.run("test").ends(0);
    project.write("valvehouse.toml", "[filters.x]\nbudget = { operations = 5000 }\n");
    project.run("test").ends(1).prints("exceeded its limit of 5000 operations");
}

#[test]
fn tests_are_isolated_with_any_number_of_workers() {
    let counting = "assert_eq(kv::get(\"turns\"), ()); inlet(\"hi\"); assert_eq(kv::get(\"turns\"), 1);";
    let tests: String = (0..12).map(|n| format!("fn test_{n:02}() {{ {counting} }}\n")).collect();
    let project = of_limit(&tests);
    for id in ["b", "a", "c"] {
        project.write(&format!("filters/{id}.rhai"), super::LIMIT);
        project.write(&format!("filters/{id}.test.rhai"), &tests);
    }
    let one = project.run("test --jobs 1 --format json").ends(0);
    let many = project.run("test --jobs 8 --format json").ends(0);
    assert_eq!(outcomes(&one).len(), 48);
    assert_eq!(outcomes(&one), outcomes(&many));
    let files = |json: &valvehouse::json::Json| -> Vec<String> {
        json.get("files").unwrap().items().iter().map(|file| text(file, "id")).collect()
    };
    assert_eq!(files(&many.json()), ["a", "b", "c", "limit"]);
}

#[test]
fn a_project_without_tests_succeeds() {
    Project::new().filter("x", "fn inlet(body) { body }").run("test").ends(0).stderr_has("no tests found");
}
