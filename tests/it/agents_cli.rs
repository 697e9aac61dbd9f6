//! Agents on the command line: runs that wait in one process and continue in another, and conversations that
//! are continued, branched, exported, imported and forgotten. Every command is a separate process.

use crate::agents_api::{APPROVAL, PAY};
use crate::cli::{CommandOutput, Project};
use std::process::Command;
use valvehouse::json::Json;

/// A model with a memory that needs no network and makes the calls that its user requests.
const CLERK: &str = "[[models]]\nname = \"clerk\"\nprovider = \"demo\"\nmodel = \"demo\"\nmemory = true\n\
     tools = [\"pay\", \"human_input\"]\n[[providers]]\nname = \"demo\"\nkind = \"demo\"\n\
     [[models]]\nname = \"plain\"\nprovider = \"demo\"\nmodel = \"demo\"\n";

fn clerk() -> Project {
    Project::new().with("valvehouse.toml", CLERK).with("tools/pay.rhai", PAY).filter("approval", APPROVAL)
}

/// Returns the only run, in the JSON format.
fn only_run(project: &Project) -> Json {
    let runs = project.run("--format json runs").ends(0).json().get("runs").unwrap().items();
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs[0].clone()
}

fn text(json: &Json, path: &str) -> String {
    json.at_path(path).as_str().unwrap_or_else(|| panic!("{path} is not text in {json}")).to_owned()
}

/// Starts a run that waits for approval in a new conversation.
fn paying(project: &Project) -> (String, String) {
    project
        .run_with(&["chat", r#"/pay {"amount":10}"#], "")
        .ends(0)
        .prints("Waiting for a person")
        .stderr_has("--reject [REASON]");
    let run = only_run(project);
    assert_eq!(text(&run, "status"), "paused");
    (text(&run, "run_id"), text(&run, "chat_id"))
}

#[test]
fn a_run_pauses_in_one_process_and_resumes_in_another() {
    let project = clerk();
    let (run, chat) = paying(&project);
    project.run("runs").ends(0).prints("paused").prints("whether `pay` may run with").prints(&run);
    let shown = project.run(&format!("runs show {run}")).ends(0);
    shown.prints(&chat).prints("calls pay {\"amount\":10}").stderr_has(&format!("resume {run} --approve"));
    project.run(&format!("resume {run} --approve")).ends(0).prints("paid 10");
    assert_eq!(text(&only_run(&project), "status"), "done");
    // A finished run takes no decision.
    project
        .run(&format!("resume {run} --approve"))
        .ends(2)
        .stderr_has("cannot resume run")
        .stderr_has("it is done");
    project.run(&format!("resume {run}")).ends(2).stderr_has("it is done");
    project.run("resume none").ends(2).stderr_has("unknown run `none`");
}

#[test]
fn a_person_changes_arguments_or_rejects_with_a_reason() {
    let project = clerk();
    let (run, _) = paying(&project);
    project
        .run(&format!("resume {run} --approve --arguments []"))
        .ends(2)
        .stderr_has("must be a JSON object");
    let words = ["resume", &run, "--approve", "--arguments", r#"{"amount": 3}"#];
    project.run_with(&words, "").ends(0).prints("paid 3");

    let project = clerk();
    let (run, _) = paying(&project);
    let ran = project.run_with(&["resume", &run, "--reject", "too dear"], "").ends(0);
    assert!(!ran.out.contains("paid"), "{}", ran.out);
    ran.prints("too dear");
}

#[test]
fn without_a_terminal_a_run_stays_paused_and_shows_how_to_resume() {
    let project = clerk();
    let (run, _) = paying(&project);
    let ran = project.run(&format!("resume {run}")).ends(0);
    ran.prints("Waiting for a person")
        .stderr_has(&format!("valvehouse resume {run} --approve --arguments JSON"));
    let json = project.run(&format!("--format json resume {run}")).ends(0).json();
    assert_eq!((text(&json, "run_id"), text(&json, "pending_action.type")), (run, "approval".into()));
}

#[cfg(target_os = "linux")]
#[test]
fn at_a_terminal_the_person_is_asked_directly() {
    let project = clerk();
    let (run, _) = paying(&project);
    let command = format!("{} resume {run}", env!("CARGO_BIN_EXE_valvehouse"));
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).current_dir(project.path(""));
    let Some(ran) = answering(script, "y\n") else {
        println!("skipped: there is no `script` here, which makes a terminal");
        return;
    };
    let screen = ran.out.replace('\r', "");
    assert!(screen.contains("may `pay` run with {\n    \"amount\": 10\n  }?"), "{screen}");
    assert!(screen.contains("paid 10"), "{screen}");
}

#[test]
fn a_question_is_answered_with_text() {
    let project = clerk();
    project
        .run_with(&["chat", r#"/human_input {"question": "Which city?"}"#], "")
        .ends(0)
        .prints("Which city?");
    let run = text(&only_run(&project), "run_id");
    project.run(&format!("resume {run} --approve")).ends(2).stderr_has("asks a question");
    project.run(&format!("resume {run} --answer Oslo")).ends(0).prints("Oslo");
}

#[test]
fn a_conversation_continues_in_another_process() {
    let project = clerk();
    let first = project.run("chat hello").ends(0).stderr_has("valvehouse chat --continue=");
    let chat = first.talk.split("--continue=").nth(1).unwrap().trim().to_owned();
    let second = project.run_with(&["chat", "--continue", "and then"], "").ends(0);
    second.stderr_has(&format!("continuing {chat} with 2 messages so far")).stderr_has("user: hello");
    project
        .run_with(&["chat", &format!("--continue={chat}"), "at last"], "")
        .ends(0)
        .stderr_has("user: and then");
    let exported = project.run(&format!("runs export {chat}")).ends(0).json();
    let messages = exported.get("messages").unwrap().items();
    let messages: Vec<_> =
        messages.iter().filter(|one| one.text("role").as_deref() == Some("user")).collect();
    assert_eq!(
        messages.iter().map(|one| text(one, "content")).collect::<Vec<_>>(),
        ["hello", "and then", "at last"]
    );
    let json = project.run_with(&["--format", "json", "chat", "--continue", "more"], "").ends(0).json();
    assert_eq!(text(&json, "chat_id"), chat);

    project.run("chat --continue=none hi").ends(2).stderr_has("unknown conversation `none`");
    project.run("chat --model plain --continue hi").ends(2).stderr_has("no conversation with plain");
    let plain = project.run(&format!("chat --model plain --continue={chat} hi")).ends(2);
    plain.stderr_has("set `memory = true`");
    let forgets = project.run("chat --model plain hi").ends(0);
    assert!(!forgets.talk.contains("--continue"), "{}", forgets.talk);
}

#[test]
fn a_new_message_cancels_the_pending_action() {
    let project = clerk();
    let (run, chat) = paying(&project);
    let ran = project.run_with(&["chat", "--continue", "never mind"], "").ends(0);
    ran.stderr_has("a new message cancels the run");
    let shown = project.run(&format!("runs show {run}")).ends(0).prints("cancelled");
    assert!(!shown.talk.contains("resume"), "{}", shown.talk);
    project.run(&format!("resume {run} --approve")).ends(2).stderr_has("cancelled");
    project.run(&format!("runs --chat {chat} --status done")).ends(0).prints("done");
    project.run("runs --status odd").ends(2).stderr_has("unknown status `odd`");
}

#[test]
fn a_conversation_is_branched_exported_imported_and_deleted() {
    let project = clerk();
    let (run, chat) = paying(&project);
    let exported = project.run(&format!("runs export {chat}")).ends(0);
    let steps = project.run(&format!("--format json runs checkpoints {chat}")).ends(0).json();
    let first = text(&steps, "checkpoints.0.checkpoint_id");
    project.run(&format!("runs checkpoints {chat}")).ends(0).prints(&first).prints("paused");
    project.run(&format!("runs fork {first} b")).ends(0).stderr_has("chat --continue=b");
    project
        .run(&format!("runs fork {first} b"))
        .ends(2)
        .stderr_has("cannot create the conversation `b`: it already exists");
    project.run_with(&["chat", "--continue=b", "hello"], "").ends(0);

    // In another project, the run continues where it was.
    let other = clerk();
    other.write("chat.json", &exported.out);
    other.run("runs import chat.json --chat c").ends(0).stderr_has("chat --continue=c");
    other
        .run("runs import chat.json --chat c")
        .ends(2)
        .stderr_has("cannot create the conversation `c`: it already exists");
    other.run("runs import none.json").ends(65).stderr_has("none.json");
    other.write("odd.json", "{}");
    other.run("runs import odd.json").ends(65).stderr_has("format");
    other.run(&format!("resume {run} --approve")).ends(0).prints("paid 10");

    project.run(&format!("runs prune --keep 0 --chat {chat}")).ends(0).stderr_has("dropped");
    project.run(&format!("runs forget {chat}")).ends(0).stderr_has("is deleted");
    project.run(&format!("runs forget {chat}")).ends(2).stderr_has("unknown conversation");
    project.run(&format!("resume {run} --approve")).ends(2).stderr_has("unknown run");
}

#[test]
fn a_host_sees_decisions_made_by_another_process() {
    let project = clerk();
    let (run, chat) = paying(&project);
    let server = project.serve("");
    assert!(server.get(&format!("/api/v1/agents/runs/{run}")).contains("\"status\":\"paused\""));
    project.run(&format!("resume {run} --approve")).ends(0).prints("paid 10");
    let shown = server.get(&format!("/api/v1/agents/conversations/{chat}"));
    assert!(shown.contains("paid 10"), "{shown}");
    assert!(server.get(&format!("/api/v1/agents/runs/{run}")).contains("\"status\":\"done\""));
}

/// Answers the question of a command and returns its result; `None` if the command does not exist.
#[cfg(target_os = "linux")]
fn answering(mut command: Command, answer: &str) -> Option<CommandOutput> {
    use std::io::Write;
    use std::process::Stdio;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    // The input stays open until the command ends: the end of input would close the terminal.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(answer.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Some(CommandOutput {
        code: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        talk: text(output.stderr),
    })
}
