use crate::cli::Project;

const SHOUTS: &str = r#"fn inlet(body) { body.messages[-1].content += "!"; body }"#;

/// Asks the host that serves the project.
fn ask(project: &Project, address: &str, words: &[&str]) -> crate::cli::CommandOutput {
    let at = format!("http://{address}");
    project.run_with(&[&["trace", "--at", at.as_str()], words].concat(), "")
}

#[test]
fn requests_of_a_running_host_are_listed_shown_and_replayed() {
    let project =
        Project::new().filter("shouts", SHOUTS).with("valvehouse.toml", "[trace]\ncontents = [\"shouts\"]\n");
    let server = project.serve("");
    let address = server.address();
    assert!(ask(&project, address, &[]).talk.contains("no recorded request matches"));
    assert_eq!(server.chat(1).0, 200);
    let listed = ask(&project, address, &[]);
    assert_eq!(listed.code, 0, "{}", listed.talk);
    let row = listed.out.lines().nth(1).unwrap();
    assert!(row.contains("chat") && row.contains("demo") && row.contains("200"), "{}", listed.out);
    let id = row.split_whitespace().nth(1).unwrap();
    let shown = ask(&project, address, &[id]);
    for part in ["inlet  shouts", "/messages/0/content", "- \"hello\"", "+ \"hello!\"", "model  demo/demo"] {
        assert!(shown.out.contains(part), "{part:?} is not in\n{}", shown.out);
    }
    let same = ask(&project, address, &[id, "--replay", "shouts"]);
    assert_eq!((same.code, same.out.trim()), (0, "inlet  same"), "{}", same.talk);
    project.write("other.rhai", &SHOUTS.replace('!', "?"));
    let file = project.path("other.rhai");
    let other = ask(&project, address, &[id, "--replay", "shouts", file.to_str().unwrap()]);
    assert_eq!(other.code, 1, "{}", other.talk);
    assert!(other.out.contains("differs") && other.out.contains("+ \"hello?\""), "{}", other.out);
    let json = ask(&project, address, &[id, "--format", "json"]);
    assert!(json.out.starts_with(&format!("{{\"id\":\"{id}\"")), "{}", json.out);
    assert_eq!(ask(&project, address, &["none"]).code, 2);
}

#[test]
fn without_a_running_host_the_command_says_how_to_start_one() {
    let project = Project::new();
    let ran = project.run("trace --set server.listen=127.0.0.1:1");
    assert_eq!(ran.code, 69, "{}", ran.talk);
    assert!(ran.talk.contains("http://127.0.0.1:1") && ran.talk.contains("valvehouse serve"), "{}", ran.talk);
    assert_eq!(project.run("trace --set server.listen=127.0.0.1:0").code, 2);
    assert_eq!(project.run("trace --at nowhere").code, 2);
}

#[test]
fn a_command_line_chat_shows_its_steps_on_request() {
    let project = Project::new().filter("shouts", SHOUTS);
    let ran = project.run("chat --trace hello");
    assert_eq!(ran.code, 0, "{}", ran.talk);
    assert!(ran.talk.contains("inlet  shouts") && ran.talk.contains("+ \"hello!\""), "{}", ran.talk);
    assert!(!ran.out.contains("inlet"), "{}", ran.out);
    assert!(!project.run("chat hello").talk.contains("inlet"));
}
