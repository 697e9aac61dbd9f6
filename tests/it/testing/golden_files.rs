//! Golden files, which contain an expected value.

use super::of_limit;

const TESTS: &str = "fn test_it() { assert_golden(outlet(\"yes\")); assert_golden([1], \"list\"); }";

#[test]
fn a_golden_file_is_written_compared_and_updated() {
    let project = of_limit(TESTS);
    project
        .run("test")
        .ends(1)
        .prints("limit.golden/test_it.json")
        .prints("write it with: valvehouse test --update");
    assert!(!project.path("filters/limit.golden").exists());

    let ran = project.run("test --update").ends(0);
    ran.prints("wrote filters/limit.golden/test_it.json, filters/limit.golden/list.json")
        .prints("2 golden files written");
    let written = std::fs::read_to_string(project.path("filters/limit.golden/test_it.json")).unwrap();
    assert!(written.ends_with("}\n") && written.contains("\"content\": \"yes!\""), "{written}");
    project.run("test").ends(0);

    project.write("filters/limit.golden/test_it.json", &written.replace("yes!", "yes?"));
    let ran = project.run("test").ends(1).prints("the value differs from filters/limit.golden/test_it.json");
    ran.prints("- \"yes?\"").prints("+ \"yes!\"");
    project.run("test --update").ends(0);
    assert_eq!(std::fs::read_to_string(project.path("filters/limit.golden/test_it.json")).unwrap(), written);

    project.write("filters/limit.golden/list.json", "[1");
    project.run("test").ends(1).prints("is not valid JSON");
}

#[test]
fn golden_files_cannot_leave_their_folder() {
    let project = of_limit("fn test_it() { assert_golden(1, \"../x\"); }");
    project.run("test --update").ends(1).prints("invalid file name `../x`");
    assert!(!project.path("filters/x.json").exists());
}
