//! `valvehouse repl`: scripts line by line.

use crate::cli::{CommandOutput, Project};
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use valvehouse::json::Json;

const TIMEOUT: Duration = Duration::from_secs(60);

const GREETS: &str = r#"/*
requirements: kv
*/
const Valves = #{ word: "hello", token: #{ value: "hidden-token", secret: true } };
const LOUD = "!";
fn inlet(body, valves, state) {
    state.greeted = greeting("you");
    body.messages[-1].text = state.greeted;
    body
}
fn greeting(name) { `${Valves.word} ${name}${LOUD}` }
fn breaks(list) {
    list[9]
}
"#;

fn typed(project: &Project, words: &str, lines: &[&str]) -> CommandOutput {
    let words: Vec<&str> = ["repl"].into_iter().chain(words.split_whitespace()).collect();
    project.run_with(&words, &lines.join("\n"))
}

#[test]
fn declarations_persist_between_lines() {
    let project = Project::new();
    typed(
        &project,
        "",
        &[
            "let a = 20;",
            "fn twice(n) {",
            "    n * 2",
            "}",
            "let add = |n| n + a;",
            "add.call(twice(a))",
            "text::words(\"a b c\")",
            "let a = \"now a text\";",
            "a",
            "()",
        ],
    )
    .ends(0)
    .prints("60\n[\"a\",\"b\",\"c\"]\n\"now a text\"\n");
}

#[test]
fn body_is_a_conversation_for_the_lines() {
    let project = Project::new().with("other.json", "{\"messages\": [], \"seed\": 7}");
    typed(
        &project,
        "",
        &[
            "body.messages.len()",
            "body.messages.keep_last(1);",
            "body.messages.last(\"user\").text",
            ":body other.json",
            "body.seed + 1",
            ":body what now?",
            "body.messages[0].text",
            "let mine = kv::incr(\"n\"); mine",
        ],
    )
    .ends(0)
    .prints("3\n\"What is a valve?\"\n8\n\"what now?\"\n1\n");
}

#[test]
fn an_error_is_shown_at_its_position_and_the_session_continues() {
    let project = Project::new();
    typed(
        &project,
        "",
        &["let a = [1];", "a[5]", "unknwon + 1", "1 +", "throw \"no\"", "deny(\"go\", 403)", "a"],
    )
    .ends(1)
    .prints("[1]\n")
    .stderr_has("line:1:")
    .stderr_has("unknwon")
    .stderr_has("^")
    .stderr_has("refused (400): no")
    .stderr_has("refused (403): go");
    let session = typed(&project, "--format json", &["1.nothing()", "[1]"]).ends(1);
    let lines: Vec<Json> = session.out.lines().map(|line| Json::parse(line.as_bytes()).unwrap()).collect();
    assert_eq!(lines[0].at_path("error.line"), Json::from(1_i64));
    assert_eq!(lines[1].at_path("value.0"), Json::from(1_i64));
}

#[test]
fn an_endless_line_is_stopped() {
    let project = Project::new();
    typed(&project, "", &["let kept = 7;", "let n = 0; loop { n += 1; }", "kept"])
        .ends(1)
        .stderr_has("exceeded its")
        .prints("7\n");
}

#[test]
fn lines_run_in_the_context_of_a_script() {
    let project = Project::new().filter("greets", GREETS);
    typed(
        &project,
        "--plugin greets",
        &[
            "greeting(\"Ann\")",
            "[valves.word, Valves.word, LOUD]",
            ":hook inlet",
            "body.messages[-1].text",
            "state.greeted",
            ":valves",
            "breaks([1])",
        ],
    )
    .ends(1)
    .prints("\"hello Ann!\"\n[\"hello\",\"hello\",\"!\"]")
    .prints("+ \"hello you!\"")
    .prints("\"hello you!\"\n\"hello you!\"\n")
    .prints("\"word\": \"hello\"")
    .stderr_has("filters/greets.rhai:13:")
    .stderr_has("line:1:1");
    let shown = typed(&project, "", &[":load greets", ":valves", "greeting(1)", ":load nothing"]).ends(1);
    assert!(!shown.out.contains("hidden-token"), "{}", shown.out);
    shown.prints("\"hello 1!\"").stderr_has("unknown file or plugin `nothing`");
}

#[test]
fn help_explains_the_functions_of_the_host() {
    let project = Project::new().filter("greets", GREETS);
    typed(&project, "", &[":help", ":functions regex::find", ":doc regex::find", ":plugins", ":variables"])
        .ends(0)
        .prints(":load FILE|ID")
        .prints("regex::find_all(")
        .prints("regex::find(")
        .prints("greets  filter  live")
        .prints("body");
    typed(&project, "", &[":doc regex::fnd", ":functons"])
        .ends(1)
        .stderr_has("regex::find")
        .stderr_has(":functions");
}

#[test]
fn writes_are_kept_only_with_live() {
    let project = Project::new().filter("greets", GREETS);
    let count = |words: &str| typed(&project, words, &["kv::incr(\"seen\")"]).ends(0).out;
    assert_eq!(count("--plugin greets"), "1\n");
    assert_eq!(count("--plugin greets --live"), "1\n");
    assert_eq!(count("--plugin greets"), "2\n");
}

/// A session into which the test types lines.
struct Session {
    child: std::process::Child,
    stdin: ChildStdin,
    out: Receiver<String>,
}

impl Session {
    fn begin(project: &Project, words: &[&str]) -> Self {
        let mut command = project.command(&[&["repl"], words].concat());
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, out) = mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, stdin, out }
    }

    /// Types a line and returns the line that the session prints.
    fn answers(&mut self, line: &str) -> String {
        writeln!(self.stdin, "{line}").unwrap();
        self.out.recv_timeout(TIMEOUT).unwrap()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_saved_script_is_loaded_before_the_next_line() {
    let project = Project::new().filter("greets", GREETS);
    let mut session = Session::begin(&project, &["--plugin", "greets"]);
    assert_eq!(session.answers("let mine = 1; greeting(\"Ann\")"), "\"hello Ann!\"");
    project.write("filters/greets.rhai", &GREETS.replace("LOUD = \"!\"", "LOUD = \"!!\""));
    assert_eq!(session.answers("greeting(`Ann ${mine}`)"), "\"hello Ann 1!!\"");
    // A script that does not load keeps the previous version.
    project.write("filters/greets.rhai", "fn inlet(body) {");
    assert_eq!(session.answers("greeting(\"Bob\")"), "\"hello Bob!!\"");
}

/// Types into a terminal: a function over two lines, an abandoned line, the end of input.
const TYPES: &str = r#"
import os, pty, select, signal, sys, time

signal.alarm(300)
pid, terminal = pty.fork()
if pid == 0:
    os.environ.update(TERM="xterm", NO_COLOR="1")
    os.execv(sys.argv[1], sys.argv[1:])
seen = b""

def until(text, seconds):
    """Whether it is shown in time."""
    global seen
    end = time.time() + seconds
    while text not in seen and time.time() < end:
        if select.select([terminal], [], [], 1)[0]:
            try:
                seen += os.read(terminal, 4096)
            except OSError:
                break
    found = text in seen
    seen = seen.split(text, 1)[1] if found else seen
    return found

def answers(line, text):
    # What is typed before the prompt is there may get lost.
    global seen
    for _ in range(24):
        until(b"> ", 5)
        os.write(terminal, line)
        if until(text, 5):
            return
    raise AssertionError(seen)

assert until(b"> ", 100)
os.write(terminal, b"fn twice(n) {\r")
os.write(terminal, b"n * 2 }\r")
os.write(terminal, b"nonsense \x03")
answers(b"twice(2100) + 1\r", b"4201")
answers(b"let n = 0; loop { n += 1; }\r\x03", b"line:1:")
answers(b"1 + 2100\r", b"2101")
for _ in range(100):
    os.write(terminal, b"\x04")
    until(b"never", 1)
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended:
        break
sys.exit(os.waitstatus_to_exitcode(status))
"#;

#[cfg(unix)]
#[test]
fn at_a_terminal_lines_are_edited_canceled_and_kept_in_history() {
    let Some(python) = crate::python::python() else { return };
    let project = Project::new();
    let mut command = std::process::Command::new(python);
    command.args(["-c", TYPES, env!("CARGO_BIN_EXE_valvehouse"), "repl"]).current_dir(project.path(""));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let history = std::fs::read_to_string(project.path(".valvehouse/repl_history")).unwrap();
    assert!(history.contains("twice(2100)"), "{history}");
}
