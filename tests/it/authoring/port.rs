//! `valvehouse port` runs the program `valvehouse-port`, whose own tests are in port/tests.

use crate::cli::Project;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns a folder with the binary alone in it: beside the one of the tests, `valvehouse-port` may lie as well.
fn alone() -> (tempfile::TempDir, PathBuf) {
    let own = Path::new(env!("CARGO_BIN_EXE_valvehouse"));
    let folder = tempfile::tempdir_in(own.parent().unwrap()).unwrap();
    let binary = folder.path().join("valvehouse");
    std::fs::hard_link(own, &binary).unwrap();
    (folder, binary)
}

fn run(binary: &Path, words: &[&str], path: &Path) -> Output {
    let project = Project::new().with("word_limit.py", "");
    let mut command = Command::new(binary);
    command.args(words).current_dir(project.path("")).env("PATH", path).output().unwrap()
}

#[test]
fn port_without_its_program_says_how_to_install_it() {
    let (folder, binary) = alone();
    for words in [&["port", "word_limit.py"][..], &["port", "--help"], &["--project", "nowhere", "port"]] {
        let ended = run(&binary, words, folder.path());
        let message = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(69), "{message}");
        for part in ["cannot run valvehouse-port", "beside this program", "cargo install --path port"] {
            assert!(message.contains(part), "no {part:?} in {message}");
        }
    }
}

#[cfg(unix)]
#[test]
fn port_passes_arguments_and_the_exit_code_of_the_program_beside_it_or_on_the_path() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, binary) = alone();
    let elsewhere = tempfile::tempdir().unwrap();
    let program = |folder: &Path, name: &str| {
        let path = folder.join("valvehouse-port");
        let text = format!("#!/bin/sh\necho {name} \"$@\"\necho \"$VALVEHOUSE\" >&2\nexit 3\n");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let ends = |words: &[&str], out: &str| {
        let ended = run(&binary, words, elsewhere.path());
        assert_eq!(String::from_utf8(ended.stdout).unwrap(), out);
        assert_eq!(String::from_utf8(ended.stderr).unwrap().trim(), binary.display().to_string());
        assert_eq!(ended.status.code(), Some(3));
    };
    program(elsewhere.path(), "path");
    ends(&["port", "a.py", "--id", "x", "--help"], "path a.py --id x --help\n");
    program(folder.path(), "beside");
    ends(&["port", "--help"], "beside --help\n");
    ends(
        &["--project", "p", "--set", "a.b=1", "--format", "json", "-q", "port", "a.py", "--", "-b"],
        "beside --project p --set a.b=1 --format json --quiet a.py -- -b\n",
    );
    // An option of every command may also follow the word, before or after the file.
    ends(&["port", "--dry-run", "a.py", "--format", "json"], "beside --dry-run a.py --format json\n");
}
