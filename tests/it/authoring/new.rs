//! `valvehouse new`: creates scripts.

use crate::cli::Project;
use std::path::Path;
use valvehouse::json::Json;

#[test]
fn new_plugins_load_without_warnings() {
    let project = Project::new();
    for hook in ["inlet", "stream", "pre_chat", "pre_invocation"] {
        project
            .run(&format!("new filter my-{hook} --hook {hook}"))
            .ends(0)
            .prints(&format!("filters/my-{hook}.rhai"))
            .prints(&format!("filters/my-{hook}.test.rhai"))
            .stderr_has(&format!("valvehouse test my-{hook}"));
    }
    project
        .run("new tool temperature")
        .ends(0)
        .stderr_has("valvehouse invoke temperature degrees=1 unit=celsius");
    project
        .run("new pipe two-words-pipe")
        .ends(0)
        .prints("filters/two-words-pipe.test.rhai")
        .stderr_has("valvehouse run pipe two-words-pipe --text");
    project
        .run("run pipe two-words-pipe --text one --print text")
        .ends(0)
        .prints("Hello! You wrote 1 words.");
    project.run("test two-words-pipe").ends(0).prints("2 passed");
    project.run("new module two-words").ends(0).prints("filters/lib/two-words.rhai");
    project.run("new module words --in tools").ends(0).prints("tools/lib/words.test.rhai");
    project.run("check --strict").ends(0).prints("0 problems");
    project.run("invoke temperature degrees=25 unit=celsius").ends(0).prints("77.0");
    project.run("run inlet my-inlet --text hello").ends(0).prints("Answer in plain words.");
    project.run("run stream my-stream --text colour --print text").ends(0).prints("color");
}

#[test]
fn new_makes_a_working_project_in_an_empty_folder() {
    let project = Project::new();
    let made = project.run("new project gateway --format json").ends(0).json();
    assert_eq!(made.get("files").unwrap().items().len(), 7, "{made}");
    project.run("check --strict --project gateway").ends(0).prints("checked 4 files, 0 problems");
    project.run_with(&["chat", "--project", "gateway", "hello"], "").ends(0).prints("You said: hello");
    project.run("new project gateway").ends(0);
    project.write("gateway/valvehouse.toml", "[server]\n");
    project.run("new project gateway").ends(2).stderr_has("gateway/valvehouse.toml already exists");
    assert_eq!(std::fs::read_to_string(project.path("gateway/valvehouse.toml")).unwrap(), "[server]\n");
}

#[test]
fn a_host_in_an_empty_folder_loads_a_project_made_there() {
    let project = Project::new();
    let server = project.serve("");
    server.wait_for_line("empty project:  valvehouse new project");
    assert_eq!(server.chat(1).0, 200);
    project.run("new project").ends(0);
    server.wait_for_line("house_style loaded");
    assert_eq!(server.chat(1).0, 200);
    project.run("check --strict").ends(0);
    // The schema file with which editors check the configuration.
    let schema = project.run("config --schema").ends(0).json();
    assert_eq!(schema.text("title").as_deref(), Some("valvehouse.toml"));
    let settings = std::fs::read_to_string(project.path("valvehouse.toml")).unwrap();
    let named = settings.lines().next().unwrap().strip_prefix("#:schema ./").unwrap();
    let beside = Json::parse(&std::fs::read(project.path(named)).unwrap()).unwrap();
    assert_eq!(beside.to_string(), schema.to_string());
}

#[test]
fn existing_files_are_replaced_only_with_force() {
    let own = "fn inlet(body) { body }\n";
    let project = Project::new().filter("mine", own);
    project
        .run("new filter mine")
        .ends(2)
        .stderr_has("filters/mine.rhai already exists")
        .stderr_has("--force");
    assert_eq!(std::fs::read_to_string(project.path("filters/mine.rhai")).unwrap(), own);
    assert!(!project.path("filters/mine.test.rhai").exists());
    project.run("new filter mine --force").ends(0);
    assert_ne!(std::fs::read_to_string(project.path("filters/mine.rhai")).unwrap(), own);
    // A tool with this name would be a second plugin with the same id, so `--force` does not create it
    // either.
    project.run("new tool mine --force").ends(2).stderr_has("filters/mine.rhai already has that name");
    assert!(!project.path("tools/mine.rhai").exists());
}

#[test]
fn an_invalid_name_is_answered_with_a_valid_suggestion() {
    let project = Project::new();
    project
        .run_with(&["new", "filter", "Turn Limit!"], "")
        .ends(2)
        .stderr_has("valvehouse new filter turn_limit");
    project.run("new tool filters/Mask.rhai").ends(2).stderr_has("valvehouse new tool mask");
    project.run("new filter").ends(2).stderr_has("missing name of the filter");
    project.run("new filter x --hook inlett").ends(2).stderr_has("inlet");
    project.run("new tool x --hook inlet").ends(2).stderr_has("has no hooks");
    project.run("new").ends(2);
    assert!(!project.path("filters").exists() && !project.path("tools").exists());
}

#[test]
fn a_shipped_script_is_copied_under_another_name() {
    let project = Project::new();
    project.run("new filter few_turns --from turn_limit").ends(0).prints("filters/few_turns.rhai");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("filters/turn_limit.rhai");
    let copied = std::fs::read_to_string(project.path("filters/few_turns.rhai")).unwrap();
    assert_eq!(copied, std::fs::read_to_string(shipped).unwrap());
    project.run("check few_turns --strict").ends(0);
    project.run("new tool clock --from").ends(0).prints("calculator");
    project.run("new tool --from clock").ends(0).prints("tools/clock.rhai");
    project.run("new filter x --from turn_limt").ends(2).stderr_has("did you mean `turn_limit`?");
    project.run("new filter x --from clock").ends(2).stderr_has("valvehouse new tool NAME --from clock");
}

#[test]
fn shipped_scripts_are_listed_with_descriptions() {
    // The command works without a valid project.
    let project = Project::new().with("valvehouse.toml", "[[[");
    project.run("new --list").ends(0).prints("filters\n").prints("tools\n").prints("  redact ");
    let listed = project.run("new --list --format json").ends(0).json();
    for script in listed.get("scripts").unwrap().items() {
        let has = |key: &str| script.text(key).is_some_and(|text| !text.is_empty());
        assert!(has("id") && has("kind") && has("title") && has("description"), "{script}");
    }
    let filters = project.run("new filter --list --format json").ends(0).json();
    let kinds: Vec<Json> =
        filters.get("scripts").unwrap().items().iter().filter_map(|script| script.get("kind")).collect();
    assert!(!kinds.is_empty() && kinds.iter().all(|kind| *kind == Json::from("filter")));
}

#[cfg(unix)]
#[test]
fn a_named_pipe_in_place_of_a_file_does_not_block_commands() {
    let project = Project::new().with("filters/x.rhai", "fn inlet(body) { body }");
    let pipe = |path: &str| {
        std::fs::create_dir_all(project.path(path).parent().unwrap()).unwrap();
        let made = std::process::Command::new("mkfifo").arg(project.path(path)).status().unwrap();
        assert!(made.success());
    };
    for path in ["filters/pipe.rhai", "filters/pipe.test.rhai", "body.json", "pipe.rhai"] {
        pipe(path);
    }
    project.run("new filter pipe").ends(2).stderr_has("already exists");
    project.run("new filter pipe --force").ends(65).stderr_has("it is a pipe, socket or device");
    project.run("run inlet x --body body.json").ends(65).stderr_has("it is a pipe, socket or device");
    project.run("runs import body.json").ends(65).stderr_has("it is a pipe, socket or device");
    project.run("check pipe.rhai").ends(1).prints("it is not a regular file");
    project.run("fmt --check pipe.rhai").ends(65);
    project.run("check").ends(1).prints("it is not a regular file");
}
