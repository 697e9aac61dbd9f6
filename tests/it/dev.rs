//! `valvehouse dev` as script authors use it: they save files, send requests and read the output.

use crate::cli::{Project, Server};
use valvehouse::json::Json;

const POLITE: &str = r#"
const Valves = #{ signature: "-- yours" };
fn inlet(body) { print("looking"); body.messages.append_system("Be polite."); }
fn outlet(body, valves) { body.messages[-1].content += valves.signature; }
"#;

/// Returns the next JSON line with this event.
#[track_caller]
fn event(server: &Server, event: &str) -> Json {
    let line = server.wait_for_line(&format!(r#""event":"{event}""#));
    Json::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{error} in {line}"))
}

#[test]
fn dev_reports_each_save_and_broken_files_until_they_are_fixed() {
    let project = Project::new().filter("polite", POLITE);
    let server = project.dev("");
    server.wait_for_line("curl http://");
    project.write("filters/polite.rhai", &POLITE.replace("polite", "very polite"));
    server.wait_for_line("updated polite");
    project.write("filters/polite.rhai", "fn inlet(body) {\n    body.x = ;\n}\n");
    server.wait_for_line("stale polite: its last good version keeps running");
    server.wait_for_line("filters/polite.rhai:2:14: error");
    server.wait_for_line("    body.x = ;");
    server.wait_for_line("             ^");
    server.wait_for_line("= help: ");
    project.write("filters/polite.rhai", POLITE);
    server.wait_for_line("updated polite: the saved version is running");
    project.run("valves set polite signature=Bye").ends(0);
    server.wait_for_line(r#"valves polite: signature "-- yours" → "Bye""#);
    std::fs::rename(project.path("filters/polite.rhai"), project.path("filters/kind.rhai")).unwrap();
    server.wait_for_line("renamed kind: was polite");
    project.write("filters/new.rhai", "fn inlet(body) { body }");
    server.wait_for_line("loaded new");
    std::fs::remove_file(project.path("filters/new.rhai")).unwrap();
    server.wait_for_line("removed new");
}

#[test]
fn dev_prints_each_request_with_a_time_bar_and_filter_changes() {
    let project = Project::new().filter("polite", POLITE);
    let server = project.dev("");
    server.send("hi");
    let line = server.wait_for_line("#1  chat  demo  200  ");
    assert!(line.contains(" tokens  ~M~"), "{line}");
    server.wait_for_line(r#"polite inlet  /messages/0 + {"role":"system","content":"Be polite."}"#);
    assert!(server.wait_for_line("polite outlet  /messages/2/content").ends_with(r#"-- yours""#));
    server.wait_for_line("polite: looking");
    project.write("filters/polite.rhai", "fn inlet(body) { deny(\"closed\", 403) }");
    server.wait_for_line("updated polite");
    assert_eq!(server.send("hi").0, 403);
    assert!(server.wait_for_line("#2  chat  demo  403").ends_with("  !"));
    server.wait_for_line("polite inlet  refused  closed");
    // The output shows the line of an error.
    project.write("filters/polite.rhai", "fn inlet(body) {\n    let x = [1];\n    x[9]\n}");
    server.wait_for_line("updated polite");
    assert_eq!(server.send("hi").0, 500);
    let broke = server.wait_for_line("polite inlet  failed");
    assert!(broke.contains("filters/polite.rhai:3:7: array index 9 out of bounds"), "{broke}");
    server.wait_for_line("3 |     x[9]");
    server.wait_for_line("|       ^");
}

#[test]
fn the_detail_option_sets_how_far_requests_are_expanded() {
    let project = Project::new().filter("polite", POLITE);
    let server = project.dev("--open always");
    server.send("hi");
    server.wait_for_line("#1  chat");
    assert!(server.wait_for_line("inlet ").contains("operations"));
    server.wait_for_line("/messages/0");
    server.wait_for_line("model ");
    let server = project.dev("--open never");
    server.send("hi");
    server.send("ho");
    server.wait_for_line("#1  chat");
    // The two lines follow each other.
    assert!(server.wait_for_line("").contains("#2  chat"));
}

#[test]
fn a_save_replays_the_last_request_and_shows_the_new_result() {
    let project = Project::new().filter("polite", POLITE);
    let server = project.dev("--replay --format json");
    server.send("hi");
    let before = event(&server, "request");
    assert_eq!(before.text("bar").as_deref(), Some("~M~"));
    // The model would get a different question, so the recorded response is used.
    project.write(
        "filters/polite.rhai",
        &POLITE
            .replace(r#"body.messages.append"#, r#"body.messages[-1].content = "ho"; body.messages.append"#),
    );
    assert_eq!(event(&server, "reload").text("change").as_deref(), Some("updated"));
    let replay = event(&server, "replay");
    assert_eq!(replay.at_path("asked.0.after").to_string(), r#""ho""#, "{replay}");
    assert_eq!(replay.at_path("answer").items().len(), 0, "{replay}");
    // The request is compared with the previous one.
    project.write("filters/polite.rhai", &POLITE.replace("-- yours", "-- ours"));
    let replay = event(&server, "replay");
    assert_eq!(replay.at_path("asked.0.after").to_string(), r#""hi""#, "{replay}");
    let answer = replay.at_path("answer.0.after").to_string();
    assert!(answer.contains("You said: hi") && answer.contains("-- ours"), "{replay}");
    project.write("filters/polite.rhai", "fn inlet(body) { deny(`closed`, 403) }");
    let replay = event(&server, "replay");
    assert_eq!((replay.at_path("was").as_i64(), replay.at_path("status").as_i64()), (Some(200), Some(403)));
    assert_eq!(replay.at_path("hooks.0.is").to_string(), r#""refused""#);
    assert_eq!(replay.text("error").as_deref(), Some("closed"));
    project.write("filters/polite.rhai", "fn inlet(body) { deny(`closed`, 403); }");
    assert_eq!(event(&server, "replay").at_path("same").as_bool(), Some(true));
}

#[test]
fn a_live_replay_calls_the_model_again() {
    let project = Project::new().filter("polite", POLITE);
    let server = project.dev("--replay=live --format json");
    server.send("hi");
    event(&server, "request");
    project.write("filters/polite.rhai", "fn inlet(body) { body.messages[-1].content = \"ho\"; body }");
    let replay = event(&server, "replay");
    assert!(replay.at_path("answer.0.after").to_string().contains("You said: ho"), "{replay}");
}

#[test]
fn a_replay_stores_nothing_and_reads_the_recorded_stream() {
    const COUNTS: &str = r#"/*
requirements: kv
*/
fn inlet(body) { kv::incr("seen"); body }
fn stream(event) { event.text = event.text.to_upper(); }
fn outlet(body) { body.messages[-1].content += ` (${kv::get("seen")})`; }
"#;
    let project = Project::new().filter("counts", COUNTS);
    let server = project.dev("--replay --format json");
    server.send("hi");
    event(&server, "request");
    for (word, count) in [("lower", 2), ("upper", 2)] {
        project.write("filters/counts.rhai", &COUNTS.replace("to_upper", &format!("to_{word}")));
        let replay = event(&server, "replay");
        let answer = replay.at_path("answer.0.after").to_string();
        let expected = if word == "lower" { "you said: hi" } else { "YOU SAID: HI" };
        // Filters receive the model's original text, not the text that filters changed before.
        assert!(answer.contains(expected) && answer.contains(&format!("({count})")), "{replay}");
    }
    assert!(server.send("hi").1.contains("(2)"));
}

#[test]
fn a_save_runs_the_tests_of_the_script_and_shows_failures() {
    const TESTS: &str = r#"
fn test_the_model_is_asked_to_be_polite() {
    assert_eq(inlet("hi").messages[0].content, "Be polite.");
}
fn test_the_answer_is_signed() {
    assert_contains(outlet("fine").messages.last("assistant").content, "yours");
}
"#;
    let project = Project::new().filter("polite", POLITE).with("filters/polite.test.rhai", TESTS);
    let server = project.dev("");
    project.write("filters/polite.rhai", &POLITE.replace("Be polite", "Be rude"));
    server.wait_for_line("updated polite");
    server.wait_for_line("tests of polite: 1 of 2 failed");
    server.wait_for_line("failed test_the_model_is_asked_to_be_polite");
    server.wait_for_line("filters/polite.test.rhai:3:");
    server.wait_for_line(r#"- "Be polite.""#);
    server.wait_for_line(r#"+ "Be rude.""#);
    server.wait_for_line("looking");
    // The tests run when the test file is saved, too.
    project.write("filters/polite.test.rhai", &TESTS.replace("Be polite", "Be rude"));
    server.wait_for_line("tests of polite: 2 tests passed");
    project.write("filters/polite.test.rhai", "fn test_x() { let x = ; }");
    server.wait_for_line("tests of polite do not compile");
    server.wait_for_line("filters/polite.test.rhai:1:");
    // A module that a script imports counts as part of it.
    project.write("filters/_words.rhai", "fn word() { \"polite\" }");
    project.write(
        "filters/rude.rhai",
        "import \"_words\" as words;\nfn inlet(body) { body.word = words::word(); }",
    );
    project.write("filters/rude.test.rhai", "fn test_word() { assert_eq(inlet(\"hi\").word, \"polite\"); }");
    server.wait_for_line("tests of rude: 1 test passed");
    project.write("filters/_words.rhai", "fn word() { \"rude\" }");
    server.wait_for_line("tests of rude: 1 of 1 failed");
}

#[cfg(unix)]
#[test]
fn at_a_terminal_keys_open_and_replay_requests_and_quit() {
    let Some(python) = crate::python::python() else { return };
    let project = Project::new().filter("polite", POLITE);
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/dev_keys.py");
    let mut command = std::process::Command::new(python);
    command.arg(script).arg(env!("CARGO_BIN_EXE_valvehouse")).current_dir(project.path(""));
    let output = command.env("PYTHONDONTWRITEBYTECODE", "1").env("NO_COLOR", "1").output().unwrap();
    let screen = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{screen}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_replay_runs_only_tools_without_side_effects() {
    const SETTINGS: &str = "[[providers]]\nname = \"demo\"\nkind = \"demo\"\n[[models]]\nname = \"demo\"\n\
                            provider = \"demo\"\ntools = [\"*\"]\n[grants.note]\nfiles = [\"work\"]\n";
    const SHOUT: &str = "const tool = #{ description: \"Shouts\" };\nfn handler(args) { \"first\" }";
    const NOTE: &str = "/*\nrequirements: files\n*/\nconst tool = #{ description: \"Notes\" };\n\
                        fn handler(args) { files::write(\"notes\", \"x\", #{ append: true }); \"noted\" }";
    let project = Project::new().with("valvehouse.toml", SETTINGS).with("work/notes", "");
    let project = project.with("tools/shout.rhai", SHOUT).with("tools/note.rhai", NOTE);
    let server = project.dev("--replay --format json");
    let notes = || std::fs::read_to_string(project.path("work/notes")).unwrap();

    server.send("/shout");
    assert_eq!(event(&server, "request").text("bar").as_deref(), Some("MTM"));
    project.write("tools/shout.rhai", &SHOUT.replace("first", "second"));
    let replay = event(&server, "replay");
    assert!(replay.at_path("asked.0.after").to_string().contains("second"), "{replay}");

    server.send("/note");
    assert_eq!(event(&server, "request").text("bar").as_deref(), Some("MTM"));
    assert_eq!(notes(), "x");
    project.write("tools/note.rhai", &NOTE.replace("\"noted\"", "\"noted again\""));
    assert_eq!(event(&server, "replay").at_path("same").as_bool(), Some(true));
    assert_eq!(notes(), "x");
}
