//! `valvehouse release`: releases quarantined versions of a plugin, which ended the process of a host.

use super::args;
use valvehouse_config::Config;
use valvehouse_core::text::count;
use valvehouse_dialect::crash::Quarantine;
use valvehouse_json::Json;
use valvehouse_terminal::{CommandError, Console, Exit};

pub(super) fn run(args: &args::Release, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let id = args.id.as_str();
    let released = Quarantine::release(&config.project, id)
        .map_err(|error| CommandError::new(Exit::Internal, format!("cannot release `{id}`: {error}")))?;
    if released == 0 {
        return Err(CommandError::data(format!(
            "cannot release `{id}`: none of its versions is quarantined"
        )));
    }
    if out.is_json() {
        out.json(&Json::from([("id", id.into()), ("released", released.into())]))?;
    } else {
        out.line(&format!(
            "{id}: {} released; running hosts follow within seconds",
            count(released, "version")
        ))?;
    }
    Ok(Exit::Done)
}
