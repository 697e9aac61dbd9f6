//! The history at the command line.

use crate::cli::Project;

const ONE: &str = "/*\ntitle: One\n*/\nconst Valves = #{ times: 1, token: #{ value: \"\", secret: true } };\nfn inlet(body) { body }\n";

#[test]
fn commands_are_recorded_and_versions_are_listed_shown_and_restored() {
    let project = Project::new().filter("one", ONE);
    project.run("valves set one times=2 token=canary-9").ends(0);
    project.run("history one").ends(0).prints("file").prints("valves").prints("cli").prints("times, token");
    let two = ONE.replace("times: 1", "times: 5");
    project.write("filters/one.rhai", &two);
    let shown = project
        .run("history one 2")
        .ends(0)
        .prints("version 2: valves by cli")
        .prints("valve times: default -> 2");
    assert!(!shown.out.contains("canary"), "{}", shown.out);
    project
        .run("history one 1 --current")
        .ends(0)
        .prints("-const Valves = #{ times: 5")
        .prints("+const Valves = #{ times: 1");

    project.run("rollback one 1").ends(0).prints("one is restored to version 1").prints("no host is running");
    assert_eq!(std::fs::read_to_string(project.path("filters/one.rhai")).unwrap(), ONE);
    project.run("valves get one times").ends(0).prints("1");
    let all = project.run("history one --format json").ends(0).json();
    let actions: Vec<String> = all
        .at_path("history")
        .items()
        .iter()
        .map(|entry| entry.text("action").unwrap().to_string())
        .collect();
    assert_eq!(actions, ["rollback", "file", "valves", "file"]);
    let third = project.run("history one 3 --format json").ends(0).json();
    assert_eq!(third.text("content").as_deref(), Some(two.as_str()), "what was edited by hand is kept");
}

#[test]
fn a_running_host_applies_a_rollback() {
    let project = Project::new().filter("one", ONE);
    let _server = project.serve("");
    project.run("valves set one times=2").ends(0).prints("live on 1 host");
    project.run("rollback one 1").ends(0).prints("live on 1 host");
    project.run("valves get one times").ends(0).prints("1");
    project.run("grant one kv").ends(0);
    project.run("history one").ends(0).prints("grant").prints("rollback");
}

#[test]
fn a_missing_plugin_or_version_is_reported() {
    let project = Project::new().filter("one", ONE);
    project.run("history two").ends(2).stderr_has("no plugin of that id has ever loaded");
    project.run("history one").ends(0).stderr_has("no history yet");
    project.run("valves set one times=2").ends(0);
    project.run("history one 9").ends(2).stderr_has("stored versions: 1 to 2");
    project.run("rollback one 9").ends(2).stderr_has("stored versions: 1 to 2");
    project.run("history one --current").ends(2);
    project.run("history --help").ends(0).prints("Examples:");
    project.run("rollback --help").ends(0).prints("Examples:");
}
