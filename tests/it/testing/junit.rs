//! The JUnit report for CI systems.

use super::of_limit;
use quick_junit::{NonSuccessKind, Report, TestCaseStatus};

#[test]
fn test_results_are_written_as_junit_xml() {
    let tests = "fn test_good() { print(\"a <b> \\u001b[1m & c\"); }\nfn test_bad() {\n    fail(\"not <so> \\\"good\\\" & ]]>\");\n}";
    let project =
        of_limit(tests).filter("torn", "fn inlet(body) {").with("filters/torn.test.rhai", "fn test_a() { }");
    project.run("test --junit out/tests.xml").ends(65);
    let text = std::fs::read_to_string(project.path("out/tests.xml")).unwrap();
    let report = Report::deserialize_from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
    assert_eq!((report.tests, report.failures, report.errors), (3, 1, 1));
    let limit = &report.test_suites[0];
    assert_eq!(limit.name.as_str(), "filters/limit.test.rhai");
    let [good, bad] = &limit.test_cases[..] else { panic!("{text}") };
    assert_eq!(good.name.as_str(), "test_good");
    assert!(matches!(good.status, TestCaseStatus::Success { .. }));
    assert!(good.system_out.as_ref().unwrap().as_str().contains("a <b> "), "{text}");
    let TestCaseStatus::NonSuccess { kind, message, description, .. } = &bad.status else { panic!("{text}") };
    assert_eq!(*kind, NonSuccessKind::Failure);
    assert_eq!(message.as_ref().unwrap().as_str(), "not <so> \"good\" & ]]>");
    assert!(description.as_ref().unwrap().as_str().contains("filters/limit.test.rhai:3:5"), "{text}");
    let TestCaseStatus::NonSuccess { kind, .. } = &report.test_suites[1].test_cases[0].status else {
        panic!("{text}")
    };
    assert_eq!(*kind, NonSuccessKind::Error);
}

#[test]
fn an_unwritable_junit_file_is_an_error() {
    let project = of_limit("fn test_good() { }").with("out", "a file");
    project.run("test --junit out/tests.xml").ends(70).stderr_has("cannot write out/tests.xml");
}
