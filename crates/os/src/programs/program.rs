//! The resolution of a command to a granted program.

use crate::failure::Failure;
use std::path::{Path, PathBuf};
use valvehouse_grants::Grant;

/// The folders in which programs without a path are searched, instead of the host's own search path.
pub(super) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The command to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A program and its arguments, passed unchanged.
    Argv(Vec<String>),
    /// A text for `sh -c`, if `sh` is granted.
    Shell(String),
}

/// A granted program with its arguments.
#[derive(Debug)]
pub(super) struct Program {
    /// The name in the command.
    name: String,
    /// The path of the program.
    pub(super) path: PathBuf,
    pub(super) args: Vec<String>,
}

impl Program {
    /// Returns the program of a command if it is granted and exists.
    pub(super) fn granted(granted: &Grant, what: Command) -> Result<Self, Failure> {
        let (name, args) = match what {
            Command::Shell(text) => ("sh".to_owned(), vec!["-c".to_owned(), text]),
            Command::Argv(argv) => {
                let mut argv = argv.into_iter();
                let name = argv.next().filter(|name| !name.is_empty());
                let name = name.ok_or_else(|| Failure::new("cannot run a program without a name"))?;
                (name, argv.collect())
            }
        };
        if !is_granted(granted, &name) {
            let message = format!("the program `{name}` is not granted{}", others(granted));
            return Err(Failure::ungranted(message, format!("shell={name}")));
        }
        let path = find(&name)?;
        Ok(Self { name, path, args })
    }

    pub(super) fn failed(&self, doing: &str, error: &std::io::Error) -> Failure {
        Failure::new(format!("cannot {doing} the program `{}`: {error}", self.name))
    }
}

/// Returns `true` if a program is granted. A name grants the program in the search path, a path grants that
/// file.
fn is_granted(granted: &Grant, name: &str) -> bool {
    match granted {
        Grant::Nothing => false,
        Grant::Only(names) => names.iter().any(|own| own == name),
        Grant::Everything => true,
    }
}

fn others(granted: &Grant) -> String {
    match granted {
        Grant::Only(names) => format!("; granted are: {}", names.join(", ")),
        Grant::Nothing | Grant::Everything => "; no program is granted".to_owned(),
    }
}

fn find(name: &str) -> Result<PathBuf, Failure> {
    if name.starts_with('/') {
        let path = PathBuf::from(name);
        let there = is_program(&path).then_some(path);
        return there.ok_or_else(|| Failure::new(format!("cannot run `{name}`: the program does not exist")));
    }
    if name.contains('/') {
        let message = format!("cannot run `{name}`: expected a bare name or an absolute path");
        return Err(Failure::new(message));
    }
    let places = PATH.split(':').map(|folder| Path::new(folder).join(name));
    places
        .into_iter()
        .find(|path| is_program(path))
        .ok_or_else(|| Failure::new(format!("cannot run `{name}`: the program does not exist in {PATH}")))
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}
