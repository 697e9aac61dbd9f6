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

#[test]
fn valves_and_grants_of_all_plugins_are_listed_without_an_id() {
    let one = "/*\nrequirements: http\n*/\nconst Valves = #{ times: 1, token: #{ value: \"\", secret: true } };\n\
        const UserValves = #{ loud: false };\nfn inlet(body) { body }";
    let project = Project::new()
        .filter("one", one)
        .filter("two", "const Valves = #{ word: \"hi\" };\nfn inlet(body) { body }")
        .filter("three", "fn inlet(body) { body }")
        .with("valvehouse.toml", "[grants.two]\nenv = [\"HOME\"]\n");
    project.run("grant one http=example.com").ends(0);
    project.run("valves set one times=7 token=s3cret-token").ends(0);
    project.run("valves set one loud=true --user ann").ends(0);
    let rows = |words: &str| {
        let listed = project.run(words).ends(0);
        let rows = listed.out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        rows.collect::<Vec<_>>()
    };
    let listed = rows("valves");
    assert!(listed.contains(&"one times 7 stored".to_owned()), "{listed:?}");
    assert!(listed.contains(&"two word \"hi\" default".to_owned()), "{listed:?}");
    assert!(!listed.iter().any(|row| row.contains("s3cret") || row.starts_with("three")), "{listed:?}");
    assert_eq!(rows("valves get"), listed);
    assert_eq!(rows("valves get --user ann"), ["one loud true stored"]);
    let all = project.run("--format json valves").ends(0).json();
    assert_eq!(all.at_path("one.valves.times.value").as_i64(), Some(7), "{all}");
    assert_eq!(rows("grant"), ["one http example.com stored", "two env HOME valvehouse.toml"]);
    let all = project.run("--format json grant").ends(0).json();
    assert_eq!(all.items().len(), 2, "{all}");
    project.run("grant --revoke").ends(2);
}
