//! `valvehouse store`: maintenance of the store.

use super::args;
use valvehouse_config::{Config, SecretSource, StoreAddress, StoreSettings};
use valvehouse_core::text::count;
use valvehouse_json::{Json, Object};
use valvehouse_store as store;
use valvehouse_terminal::{CommandError, Console, Exit};

pub(super) async fn run(args: &args::Store, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    match args {
        args::Store::ForgetValves => forget_valves(config, out).await,
        args::Store::Copy { from, to, from_key, to_key } => {
            let from = settings("FROM", from, from_key.as_deref(), config)?;
            let to = settings("TO", to, to_key.as_deref(), config)?;
            copy(&from, &to, out).await
        }
    }
}

/// Returns the settings of a store with this URL and key.
fn settings(
    name: &str,
    url: &str,
    key: Option<&str>,
    config: &Config,
) -> Result<StoreSettings, CommandError> {
    let source = |text: &str| {
        SecretSource::parse(text, &config.project).map_err(|misspelled| {
            CommandError::usage(format!("{name}: invalid source of a secret; write {}", misspelled.right))
        })
    };
    let url = source(url)?.read().map_err(|unread| CommandError::usage(format!("{name}: {unread}")))?;
    let address = StoreAddress::parse(url.expose(), &config.project)
        .map_err(|problem| CommandError::usage(format!("{name} {problem}")))?;
    let has_key_beside =
        matches!(&address, StoreAddress::Sqlite(file) if file.with_extension("key").exists());
    let key = match key {
        Some(key) => Some(source(key)?),
        None if has_key_beside => None,
        None => config.store.key.clone(),
    };
    Ok(StoreSettings::at(address, key))
}

async fn copy(from: &StoreSettings, to: &StoreSettings, out: &Console) -> Result<Exit, CommandError> {
    let store::StoreCopy { rows, unopened } = store::copy(from, to).await?;
    if out.is_json() {
        let tables: Object = rows.iter().map(|(table, count)| ((*table).into(), (*count).into())).collect();
        out.json(&Json::from([("rows", tables.into()), ("unopened", unopened.into())]))?;
        return Ok(Exit::Done);
    }
    for (table, count) in rows.iter().filter(|(_, count)| *count > 0) {
        out.line(&format!("{table:<28} {count:>10}"))?;
    }
    if unopened > 0 {
        let values = count(usize::try_from(unopened).unwrap_or(usize::MAX), "sealed value");
        out.line(&format!("{values} could not be decrypted, not even in FROM, and were copied unchanged"))?;
    }
    out.line("copied; set store.url and the key of the new store, and start the hosts")?;
    Ok(Exit::Done)
}

async fn forget_valves(config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let plugins = store::forget_valves(&config.store).await?;
    if out.is_json() {
        out.json(&Json::from([("plugins", plugins.into())]))?;
    } else {
        let of = count(usize::try_from(plugins).unwrap_or(usize::MAX), "plugin");
        out.line(&format!("deleted the stored valves of {of}; new values are sealed with the current key"))?;
    }
    Ok(Exit::Done)
}
