//! `valvehouse health`: checks whether a host responds, for containers without other programs.

use super::args;
use super::remote::Remote;
use valvehouse_config::Config;
use valvehouse_terminal::{CommandError, Console, Exit};

pub(super) async fn run(asked: &args::Health, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let way = if asked.ready { "readyz" } else { "livez" };
    Remote::of(config, asked.at.as_deref())?.open(&[way], &[]).await?;
    out.line("ok")?;
    Ok(Exit::Done)
}
