//! `valvehouse rollback`: puts a version of a plugin back.

use super::history::refused;
use super::{args, project};
use valvehouse_config::Config;
use valvehouse_host::{admin, app};
use valvehouse_json::Json;
use valvehouse_terminal::{CommandError, Console, Exit};

pub(super) async fn run(
    asked: &args::Rollback,
    config: &Config,
    out: &Console,
) -> Result<Exit, CommandError> {
    let (snapshot, writer) = app::writer(config).await?;
    let (id, version) = (&asked.id, asked.version);
    let generation = admin::rollback(&writer, &snapshot, id, version, &project::author()).await;
    let generation = generation.map_err(refused)?;
    let reach = project::reach(writer.store(), generation).await?;
    if out.is_json() {
        let told = [("id", id.as_str().into()), ("version", version.into()), ("reach", reach.as_json())];
        out.json(&Json::from(told))?;
    } else {
        out.line(&format!("{id} is as it was in version {version} — {}", reach.in_words()))?;
    }
    writer.store().close().await;
    Ok(reach.exit())
}
