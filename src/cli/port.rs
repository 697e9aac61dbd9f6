//! `valvehouse port`: runs `valvehouse-port`, a program of its own, as `git` and `cargo` run theirs.

use super::args::{Format, Global, Port};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use valvehouse_terminal::{CommandError, Exit};

const NAME: &str = "valvehouse-port";

/// Names this binary to the program, which asks it for folders and checks drafts with it.
const VARIABLE: &str = "VALVEHOUSE";

/// Runs the program beside this binary, else that of the path, with these arguments. Its exit code becomes ours.
pub(super) fn run(args: &Port, global: &Global) -> Result<Exit, CommandError> {
    let own = std::env::current_exe().ok();
    let beside =
        own.as_ref().map(|own| own.with_file_name(format!("{NAME}{}", std::env::consts::EXE_SUFFIX)));
    let program = beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(NAME));
    let mut command = Command::new(&program);
    command.args(options(global)).args(&args.words);
    if let Some(own) = &own {
        command.env(VARIABLE, own);
    }
    let error = match become_it(&mut command) {
        Ok(exit) => return Ok(exit),
        Err(error) => error,
    };
    let message = match error.kind() {
        io::ErrorKind::NotFound => format!(
            "cannot run {NAME}, which drafts scripts from Python: it is neither beside this program nor on the path\n\
             install it from a clone of {} with `cargo install --path port`, or copy it from the release archive",
            env!("CARGO_PKG_REPOSITORY")
        ),
        _ => format!("cannot run {}: {error}", program.display()),
    };
    Err(CommandError::new(Exit::Unavailable, message))
}

/// The options that were given before the word `port`.
fn options(global: &Global) -> Vec<OsString> {
    let Global { project, set, format, quiet, verbose: _ } = global;
    let mut words: Vec<OsString> = Vec::new();
    if project.as_os_str() != "." {
        words.extend(["--project".into(), project.into()]);
    }
    for (key, value) in set {
        words.extend(["--set".into(), format!("{key}={value}").into()]);
    }
    if *format == Format::Json {
        words.extend(["--format".into(), "json".into()]);
    }
    if *quiet {
        words.push("--quiet".into());
    }
    words
}

/// Replaces this process, so that signals and the terminal are the program's.
#[cfg(unix)]
fn become_it(command: &mut Command) -> io::Result<Exit> {
    use std::os::unix::process::CommandExt as _;
    Err(command.exec())
}

#[cfg(not(unix))]
fn become_it(command: &mut Command) -> io::Result<Exit> {
    std::process::exit(command.status()?.code().unwrap_or(Exit::Internal.code().into()))
}
