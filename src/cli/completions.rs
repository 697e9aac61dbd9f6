//! `valvehouse completions` and `valvehouse manual`: files that packages install next to the binary.

use super::args::{self, Line};
use clap::CommandFactory as _;
use valvehouse_terminal::{CommandError, Console, Exit};

const NAME: &str = "valvehouse";

/// Prints the completion script of a shell.
pub(super) fn run(args: &args::Completions, out: &Console) -> Result<Exit, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Line::command(), NAME, &mut script);
    out.line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Exit::Done)
}

/// Prints the manual page.
pub(super) fn manual(out: &Console) -> Result<Exit, CommandError> {
    let mut page = Vec::new();
    let written = clap_mangen::Man::new(Line::command()).render(&mut page);
    written
        .map_err(|error| CommandError::new(Exit::Internal, format!("cannot write the manual: {error}")))?;
    out.line(String::from_utf8_lossy(&page).trim_end())?;
    Ok(Exit::Done)
}
