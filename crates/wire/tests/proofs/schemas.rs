//! Every body that leaves has the form that the types of the official clients describe.

use crate::answers::{answer, events, written};
use crate::cases;
use crate::fields::{fill, kept_by};
use crate::protocol::{ALL, read_request, write_request};
use crate::requests;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use valvehouse_json::Json;
use valvehouse_wire::service::Protocol;

/// Returns the Python that `tests/run` installs; `None` if it is missing.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("VALVEHOUSE_PYTHON").map(PathBuf::from);
    let python = named.unwrap_or_else(|| root().join("target/python/bin/python"));
    if !python.is_file() {
        let is_required =
            ["CI", "VALVEHOUSE_REQUIRE_PYTHON"].iter().any(|name| std::env::var_os(name).is_some());
        assert!(!is_required, "{} is not there: run tests/run, which makes it", python.display());
        eprintln!("skipped: {} is not there; tests/run makes it", python.display());
        return None;
    }
    Some(python)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn bodies_have_the_form_of_the_official_clients() {
    let Some(python) = python() else { return };
    let mut lines = String::new();
    let mut add = |protocol: Protocol, kind: &str, body: &Json| {
        // Ollama's client has no types of its own.
        if protocol != Protocol::Ollama {
            let name = format!("{} {kind}", protocol.as_str());
            lines.push_str(&format!("{}\n", Json::from(vec![Json::from(name), body.clone()])));
        }
    };
    let mut runner = TestRunner::deterministic();
    let numbers = || prop::collection::vec(any::<usize>(), 0..6);
    for _ in 0..cases() {
        let chosen = (fill(), numbers(), numbers(), answer()).new_tree(&mut runner).unwrap();
        let (fill, settings, turns, answer) = chosen.current();
        for protocol in ALL {
            let chat = kept_by(&fill, &settings, &turns, protocol);
            add(protocol, "request", &write_request(protocol, &chat).unwrap());
            add(protocol, "answer", &written(protocol, &answer));
            events(protocol, &answer).iter().for_each(|event| add(protocol, "event", event));
        }
        for (client, sent) in requests::all(&fill, &settings, &turns) {
            add(client, "request", &sent);
            let chat = read_request(client, &sent).unwrap();
            add(client, "request", &write_request(client, &chat).unwrap());
        }
    }
    let script = root().join("tests/python/wire_bodies.py");
    let mut command = Command::new(python);
    command.arg(script).env("PYTHONDONTWRITEBYTECODE", "1");
    let mut checker = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = checker.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = checker.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", &text[..text.floor_char_boundary(20_000)]);
}
