//! `valvehouse fmt`: the layout of scripts.

use crate::cli::Project;

const DRAFT: &str = "fn inlet( body ){\nbody.x=1;\n\n\nbody\n}";
const FORMATTED: &str = "fn inlet(body) {\n    body.x = 1;\n\n    body\n}\n";

fn read(project: &Project, path: &str) -> String {
    std::fs::read_to_string(project.path(path)).unwrap()
}

#[test]
fn formatting_scripts_modules_and_tests_is_idempotent() {
    let project = Project::new()
        .with("filters/a.rhai", DRAFT)
        .with("filters/lib/b.rhai", "fn b(){1}\n")
        .with("filters/a.test.rhai", "fn test_a(){ }")
        .with("tools/c.rhai", FORMATTED)
        .with("filters/.hidden/d.rhai", DRAFT)
        .with("notes/e.rhai", DRAFT);
    project
        .run("fmt --check")
        .ends(1)
        .prints("filters/a.rhai:1: not formatted")
        .stderr_has("3 files of 4 not formatted");
    assert_eq!(read(&project, "filters/a.rhai"), DRAFT);
    project.run("fmt").ends(0).prints("filters/lib/b.rhai: formatted").stderr_has("3 files of 4 changed");
    assert_eq!(read(&project, "filters/a.rhai"), FORMATTED);
    assert_eq!(read(&project, "filters/.hidden/d.rhai"), DRAFT);
    project.run("fmt --check").ends(0).stderr_has("4 files formatted");
    let report = project.run("fmt notes --format json").ends(0).json();
    assert_eq!(report.get("changed").unwrap().to_string(), "[\"notes/e.rhai\"]");
    assert_eq!(read(&project, "notes/e.rhai"), FORMATTED);
}

#[test]
fn unformattable_files_are_reported_and_unchanged() {
    let open = "fn inlet(body) {\n    body.x = (1;\n}\n";
    let project = Project::new().with("filters/a.rhai", open).with("filters/b.rhai", DRAFT);
    project
        .run("fmt")
        .ends(65)
        .stderr_has("cannot format filters/a.rhai:2:14: unclosed `(`")
        .prints("filters/b.rhai: formatted");
    assert_eq!(read(&project, "filters/a.rhai"), open);
    project.run("fmt nowhere").ends(2).stderr_has("unknown file or folder `nowhere`");
    project.write("readme.md", "");
    project.run("fmt readme.md").ends(2).stderr_has("expected a name that ends in .rhai");
}

#[test]
fn stdin_is_formatted_to_stdout() {
    let project = Project::new();
    let formatted = project.run_with(&["fmt", "-"], DRAFT).ends(0);
    assert_eq!(formatted.out, FORMATTED);
    project.run_with(&["fmt", "-", "--check"], DRAFT).ends(1).prints("-:1: not formatted");
    project.run_with(&["fmt", "-"], "a(").ends(65).stderr_has("cannot format stdin:1:2");
}

#[cfg(unix)]
#[test]
fn fmt_does_not_write_through_links() {
    let elsewhere = Project::new().with("shared.rhai", DRAFT).with("scripts/b.rhai", DRAFT);
    let project = Project::new().with("filters/a.rhai", FORMATTED);
    let link = |from: &str, to: &str| {
        std::os::unix::fs::symlink(elsewhere.path(from), project.path(to)).unwrap();
    };
    link("shared.rhai", "filters/linked.rhai");
    link("scripts", "filters/folder");
    project.run("fmt").ends(0).stderr_has("0 files of 1 changed");
    project
        .run("fmt filters/linked.rhai")
        .ends(65)
        .stderr_has("cannot write filters/linked.rhai: it is a symbolic link");
    assert_eq!(read(&elsewhere, "shared.rhai"), DRAFT);
    assert_eq!(read(&elsewhere, "scripts/b.rhai"), DRAFT);
}

#[test]
fn shipped_scripts_and_their_tests_are_formatted() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["filters", "tools", "actions"].map(|name| root.join(name).display().to_string());
    let [filters, tools, actions] = folders.each_ref().map(String::as_str);
    Project::new().run_with(&["fmt", "--check", filters, tools, actions], "").ends(0).stderr_has("formatted");
}
