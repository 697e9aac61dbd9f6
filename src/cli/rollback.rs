//! `valvehouse rollback`: restores a version of a plugin, or all scripts of a generation.

use super::history::refused;
use super::script_folder::unknown;
use super::{apply, args, project};
use valvehouse_config::Config;
use valvehouse_host::{admin, app};
use valvehouse_json::Json;
use valvehouse_store as store;
use valvehouse_terminal::{CommandError, Console, Exit};

pub(super) async fn run(args: &args::Rollback, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let Some(version) = args.version else { return scripts(args, config, out).await };
    let (snapshot, writer) = app::writer(config).await?;
    let id = &args.id;
    let generation = admin::rollback(&writer, &snapshot, id, version, &project::author()).await;
    let generation = generation.map_err(refused)?;
    let reach = project::reach(writer.store(), generation).await?;
    if out.is_json() {
        let output = [("id", id.as_str().into()), ("version", version.into()), ("reach", reach.as_json())];
        out.json(&Json::from(output))?;
    } else {
        out.line(&format!("{id} is restored to version {version} — {}", reach.in_words()))?;
    }
    writer.store().close().await;
    Ok(reach.exit())
}

/// Restores the scripts of an earlier generation as a new one.
async fn scripts(args: &args::Rollback, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let Ok(from) = args.id.parse::<u64>() else {
        return Err(CommandError::usage(format!(
            "missing version of `{}` to restore, or generation of all scripts; list them: valvehouse history {}",
            args.id, args.id
        )));
    };
    let store = store::open(&config.store).await?;
    let Some(generation) = store.restore_script_set(from, &project::author()).await? else {
        return Err(unknown(&store.script_sets().await?, Some(from)));
    };
    if !out.is_json() {
        out.line(&format!("the scripts of generation {from} are restored as generation {generation}"))?;
    }
    let output = Json::from([("generation", generation.into()), ("restored_from", from.into())]);
    let exit = apply::report_reach(&store, generation, args.wait, output, out).await?;
    store.close().await;
    Ok(exit)
}
