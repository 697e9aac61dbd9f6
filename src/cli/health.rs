//! `valvehouse health`: checks whether a host responds, for containers without other programs.

use super::args;
use super::remote::Remote;
use valvehouse_config::Config;
use valvehouse_terminal::{CommandError, Console, Exit};

pub(super) async fn run(args: &args::Health, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let way = if args.ready { "readyz" } else { "livez" };
    Remote::of(config, args.at.as_deref())?.open(&[way], &[]).await?;
    out.line("ok")?;
    Ok(Exit::Done)
}
