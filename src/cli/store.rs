//! `valvehouse store`: maintenance of the store.

use super::{args, running};
use std::path::Path;
use valvehouse_config::{Config, SecretSource, StoreAddress, StoreSettings};
use valvehouse_core::text::count;
use valvehouse_json::{Json, Object};
use valvehouse_store as store;
use valvehouse_terminal::{CommandError, Console, Exit};

pub(super) async fn run(args: &args::Store, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    match args {
        args::Store::Backup { file } => backup(file, config, out).await,
        args::Store::Restore { file } => restore(file, config, out).await,
        args::Store::Check => check(config, out).await,
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

async fn backup(file: &Path, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let store::Backup { bytes, key } = store::backup(&config.store, file).await?;
    let key = key.map(|key| key.display().to_string());
    if out.is_json() {
        out.json(&Json::from([("bytes", bytes.into()), ("key", key.into())]))?;
        return Ok(Exit::Done);
    }
    out.line(&format!("backed up to {} ({} KB)", file.display(), bytes.div_ceil(1024)))?;
    out.line(&match key {
        Some(key) => format!("its key is in {key}; keep both"),
        None => "its key is that of [store] key, which is not in the backup; keep it as well".to_owned(),
    })?;
    Ok(Exit::Done)
}

async fn restore(file: &Path, config: &Config, out: &Console) -> Result<Exit, CommandError> {
    // A host that has just started may not be in its store yet.
    if let Some(address) = running::addresses(&config.project).first() {
        let message = format!("cannot restore the store: a host is running at {address}; stop it first");
        return Err(CommandError::new(Exit::Unavailable, message));
    }
    let store::Restoration { former } = store::restore(&config.store, file).await?;
    let former = former.map(|former| former.display().to_string());
    if out.is_json() {
        out.json(&Json::from([("former", former.into())]))?;
        return Ok(Exit::Done);
    }
    out.line(&format!("restored from {}", file.display()))?;
    if let Some(former) = former {
        out.line(&format!("the former store is kept as {former}, with its key"))?;
    }
    Ok(Exit::Done)
}

async fn check(config: &Config, out: &Console) -> Result<Exit, CommandError> {
    let store::StoreCheck { problems, rows, opened } = store::check(&config.store).await?;
    let exit = if problems.is_empty() { Exit::Done } else { Exit::Findings };
    if out.is_json() {
        let tables: Object = rows.iter().map(|(table, count)| ((&**table).into(), (*count).into())).collect();
        let report =
            [("problems", problems.into()), ("rows", tables.into()), ("opened_values", opened.into())];
        out.json(&Json::from(report))?;
        return Ok(exit);
    }
    list_rows(&rows, out)?;
    let values = count(usize::try_from(opened).unwrap_or(usize::MAX), "encrypted value");
    out.line(&format!("the key opens {values}"))?;
    for problem in &problems {
        out.line(&format!("{} {problem}", out.results().red("error:")))?;
    }
    if problems.is_empty() {
        out.line("the store is sound")?;
    }
    Ok(exit)
}

/// Lists the tables that have rows.
fn list_rows(rows: &[(String, u64)], out: &Console) -> Result<(), CommandError> {
    for (table, count) in rows.iter().filter(|(_, count)| *count > 0) {
        out.line(&format!("{table:<28} {count:>10}"))?;
    }
    Ok(())
}

async fn copy(from: &StoreSettings, to: &StoreSettings, out: &Console) -> Result<Exit, CommandError> {
    let store::StoreCopy { rows, unopened } = store::copy(from, to).await?;
    if out.is_json() {
        let tables: Object = rows.iter().map(|(table, count)| ((&**table).into(), (*count).into())).collect();
        out.json(&Json::from([("rows", tables.into()), ("unopened", unopened.into())]))?;
        return Ok(Exit::Done);
    }
    list_rows(&rows, out)?;
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
