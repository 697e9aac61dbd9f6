//! `valvehouse lsp` with the client library of VS Code.

use crate::cli::Project;
use crate::javascript::node_with;
use crate::python::passes;
use std::path::Path;

const WORDS: &str = "// Says it loudly.\nfn shout(text) { text.to_upper() + \"!\" }\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_editor_gets_completions_hovers_definitions_and_diagnostics() {
    let Some(mut node) = node_with("vscode-languageserver-protocol") else { return };
    let project = Project::new().with("filters/lib/words.rhai", WORDS).with("tools/README", "");
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/javascript/language_client.cjs");
    node.arg(client).arg(env!("CARGO_BIN_EXE_valvehouse")).arg(project.path(""));
    passes(node).await;
}

#[test]
fn an_editor_that_disconnects_at_once_is_not_a_failure() {
    Project::new().run("lsp").ends(0);
}

#[test]
fn definitions_are_written_into_the_project_and_reported() {
    let project = Project::new();
    project.run("definitions").ends(0).prints("files to");
    let text = std::fs::read_to_string(project.path(".valvehouse/definitions/kv.d.rhai")).unwrap();
    assert!(text.contains("fn window(key: String"), "{text}");
    let report = project.run("definitions elsewhere --format json").ends(0).json();
    assert!(report.get("files").unwrap().items().len() > 10);
    assert!(project.path("elsewhere/global.d.rhai").is_file());
    project.write("taken", "");
    project.run("definitions taken").ends(69).stderr_has("cannot write");
    project.run("definitions --reference").ends(0).prints("# Functions and fields of scripts");
}
