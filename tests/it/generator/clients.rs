//! Official clients, which read the answers of a host to many requests.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the path of a script of this project.
pub(crate) fn script(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Returns a script in Python with its clients; `None` if they are missing.
pub(crate) fn python(path: &str) -> Option<Command> {
    let mut client = Command::new(crate::python::python()?);
    client.env("PYTHONDONTWRITEBYTECODE", "1").arg(script(path));
    Some(client)
}

/// Returns a script in JavaScript with OpenAI's client; `None` if it is missing.
pub(crate) fn javascript(path: &str) -> Option<Command> {
    let mut client = crate::javascript::node()?;
    client.arg(script(path));
    Some(client)
}

/// Runs a client with the URL of a host and a file of requests, one on each line. Returns the lines that it writes.
pub(crate) async fn read(mut client: Command, url: String, requests: &[Value]) -> Vec<Value> {
    let list = tempfile::NamedTempFile::new().unwrap();
    let lines: String = requests.iter().map(|request| format!("{request}\n")).collect();
    std::fs::write(list.path(), lines).unwrap();
    client.env("NO_PROXY", "127.0.0.1").arg(url).arg(list.path());
    let output = tokio::task::spawn_blocking(move || client.output()).await.unwrap().expect("a client runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    eprint!("{err}");
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    out.lines().map(parse).collect()
}
