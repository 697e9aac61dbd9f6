//! The command line as a user meets it: the real binaries in folders of their own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the `valvehouse` binary that these tests use.
pub(crate) fn valvehouse() -> PathBuf {
    let port = Path::new(env!("CARGO_BIN_EXE_valvehouse-port"));
    let beside = port.with_file_name(format!("valvehouse{}", std::env::consts::EXE_SUFFIX));
    let program = std::env::var_os("VALVEHOUSE").map_or(beside, PathBuf::from);
    assert!(
        program.is_file(),
        "{} is missing: build it with `cargo build` in the repository's folder",
        program.display()
    );
    program
}

/// A project folder that goes away with the test.
pub(crate) struct Project(tempfile::TempDir);

impl Project {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn with(self, file: &str, text: &str) -> Self {
        self.write(file, text);
        self
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        let path = self.path(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn run(&self, words: &str) -> CommandOutput {
        let mut command = Command::new(valvehouse());
        command.args(words.split_whitespace()).current_dir(self.0.path());
        self.runs(command)
    }

    /// A line as one would type it, with both binaries on the path; stdout shows stderr as well.
    #[cfg(unix)]
    pub(crate) fn types(&self, line: &str) -> CommandOutput {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec 2>&1\n{line}")]).current_dir(self.0.path());
        self.runs(command)
    }

    fn runs(&self, mut command: Command) -> CommandOutput {
        // Nothing in the environment of the tests decides what comes of them.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("VALVEHOUSE")) {
            command.env_remove(name);
        }
        let folders = [valvehouse(), env!("CARGO_BIN_EXE_valvehouse-port").into()];
        let folders = folders.iter().filter_map(|program| program.parent().map(Path::to_owned));
        let known = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(folders.chain(std::env::split_paths(&known))).unwrap();
        command.env("PATH", path).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        CommandOutput {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            talk: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The end of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) talk: String,
}

impl CommandOutput {
    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.talk);
        self
    }

    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Self {
        assert!(self.out.contains(text), "{text:?} is missing in:\n{}", self.out);
        self
    }

    #[track_caller]
    pub(crate) fn stderr_has(self, text: &str) -> Self {
        assert!(self.talk.contains(text), "{text:?} is missing in:\n{}", self.talk);
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {:?}", self.out))
    }
}
