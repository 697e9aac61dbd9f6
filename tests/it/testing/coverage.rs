//! The coverage of scripts by tests.

use super::{of_limit, text};
use crate::cli::Project;
use valvehouse::json::Json;

fn coverage_report(project: &Project) -> Json {
    project.run("test --coverage --format json").ends(0).json().at_path("files.0.coverage")
}

fn list(json: &Json, key: &str) -> Vec<String> {
    let texts = json.get(key).unwrap().items();
    texts.iter().map(|text| text.as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn untested_hooks_and_lines_are_reported() {
    let project = of_limit("fn test_few() { inlet(\"hi\"); }");
    let covered = coverage_report(&project);
    assert_eq!(
        (list(&covered, "called"), list(&covered, "not_called")),
        (vec!["inlet".into()], vec!["outlet".into()])
    );
    assert_eq!(list(&covered, "lines_not_run"), ["9", "14"]);
    assert_eq!(covered.get("lines").and_then(|count| count.as_i64()), Some(6));
    let table = project.run("test --coverage").ends(0);
    table.prints("filters/limit.rhai  1/2 50 %  4/6 66 %  outlet, 9, 14");
}

#[test]
fn all_tests_of_a_file_share_one_coverage_report() {
    let tests = "fn test_few() { inlet(\"hi\"); }\nfn test_many() { valves(#{ max: 1 }); throws(|| inlet([1, 2])); }\nfn test_out() { outlet(\"yes\"); }";
    let project = of_limit(tests);
    assert_eq!(list(&coverage_report(&project), "lines_not_run"), Vec::<String>::new());
    project.run("test --coverage").ends(0).prints("2/2 100 %  6/6 100 %");
    let few = project.run("test --coverage --filter few --format json").ends(0).json();
    assert_eq!(text(&few, "files.0.coverage.lines_not_run.0"), "9");
}

#[test]
fn coverage_counts_tools_pipes_and_callbacks_by_name() {
    let tools = "fn tools() {\n    [\n        #{ name: \"one\", description: \"One.\", parameters: #{}, handler: |args| {\n            1\n        } },\n        #{ name: \"two\", description: \"Two.\", parameters: #{}, handler: |args| {\n            2\n        } },\n    ]\n}";
    let project = Project::new()
        .with("tools/some.rhai", tools)
        .with("tools/some.test.rhai", "fn test_one() { invoke(\"one\", #{}); }");
    let covered = coverage_report(&project);
    assert_eq!(
        (list(&covered, "called"), list(&covered, "not_called")),
        (vec!["one".into()], vec!["two".into()])
    );
    assert_eq!(list(&covered, "lines_not_run"), ["7"]);
    let project = Project::new()
        .filter("p", "fn pipe(body) {\n    \"hi\"\n}")
        .with("filters/p.test.rhai", "fn test_it() { assert_eq(chat(\"x\").text, \"hi\"); }");
    assert_eq!(list(&coverage_report(&project), "called"), ["pipe"]);
    let project = Project::new()
        .filter("c", "const callbacks = true;\nfn on_llm_start(event) {\n    print(\"x\");\n}\nfn on_llm_end(event) {\n    print(\"y\");\n}")
        .with("filters/c.test.rhai", "fn test_it() { run_function(\"on_llm_start\", [#{}]); }");
    let covered = coverage_report(&project);
    assert_eq!(
        (list(&covered, "called"), list(&covered, "not_called")),
        (vec!["on_llm_start".into()], vec!["on_llm_end".into()])
    );
}
