//! `valvehouse store`: looks after the store itself.

use super::args;
use valvehouse_config::Config;
use valvehouse_core::words::count;
use valvehouse_json::Json;
use valvehouse_store as store;
use valvehouse_terminal::{CommandError, Console, Exit};

pub(super) async fn run(asked: &args::Store, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    match asked {
        args::Store::ForgetValves => forget_valves(config, out).await,
    }
}

async fn forget_valves(config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let plugins = store::forget_valves(&config.store).await?;
    if out.is_json() {
        out.json(&Json::from([("plugins", plugins.into())]))?;
    } else {
        let of = count(usize::try_from(plugins).unwrap_or(usize::MAX), "plugin");
        out.line(&format!("forgot the stored valves of {of}; they are sealed anew from now on"))?;
    }
    Ok(Exit::Done)
}
