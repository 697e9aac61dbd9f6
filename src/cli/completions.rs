//! `valvehouse completions`, `valvehouse manual`: what a package puts beside the binary.

use super::args::{self, Line};
use clap::CommandFactory as _;
use valvehouse_terminal::{CommandError, Console, Exit};

const NAME: &str = "valvehouse";

/// The script of a shell that completes commands and options.
pub(super) fn run(asked: &args::Completions, out: &Console) -> Result<Exit, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(asked.shell, &mut Line::command(), NAME, &mut script);
    out.line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(Exit::Done)
}

/// The manual's page, as `man` reads it.
pub(super) fn manual(out: &Console) -> Result<Exit, CommandError> {
    let mut page = Vec::new();
    let written = clap_mangen::Man::new(Line::command()).render(&mut page);
    written
        .map_err(|error| CommandError::new(Exit::Internal, format!("cannot write the manual: {error}")))?;
    out.line(String::from_utf8_lossy(&page).trim_end())?;
    Ok(Exit::Done)
}
