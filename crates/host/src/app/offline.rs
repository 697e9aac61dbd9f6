//! Hosts without a running process, for commands that only read, run dry, or change the store.

use super::configuration::{folder_of, plan, plugin, settings_of_kind};
use super::error::OpenError;
use super::providers::ProviderKeys;
use crate::builtin::is_guarded;
use crate::host::Host;
use crate::plan::Plan;
use crate::snapshot::Snapshot;
use crate::status::SharedStatus;
use crate::writer::ReloadLock;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use valvehouse_config::{Config, Grants};
use valvehouse_dialect::crash::QuarantineEntry;
use valvehouse_script::{Kind, Sandbox, Settings, beginning};
use valvehouse_store::{self as store, Kv, Store};

/// Checks that the settings describe a valid host. Scripts and the keys of providers are not read.
///
/// # Errors
/// Returns an error if the settings cannot be used.
pub fn check(config: &Config) -> Result<(), OpenError> {
    plan(config, ProviderKeys::Left, &Arc::default()).map(drop)
}

/// Returns the snapshot that a host with these settings would run now, and its store, for commands that only
/// read. Running hosts are not affected, no key of a provider is needed, and a missing store is not created.
///
/// # Errors
/// Returns an error if the settings cannot be used or the store cannot be opened.
pub async fn look(config: &Config) -> Result<(Snapshot, Arc<Store>), OpenError> {
    look_without(config, Vec::new()).await
}

async fn look_without(
    config: &Config,
    quarantined: Vec<QuarantineEntry>,
) -> Result<(Snapshot, Arc<Store>), OpenError> {
    let plan = Plan { quarantined, ..plan(config, ProviderKeys::Left, &Arc::default())? };
    let store = store::open_to_read(&config.store).await?;
    let snapshot = Host::peek(plan, store.clone()).await?;
    Ok((snapshot, store))
}

/// Returns the same as [`look`] for commands that change the store; a missing one is created.
///
/// # Errors
/// Returns an error if the settings cannot be used or the store cannot be opened.
pub async fn look_to_change(config: &Config) -> Result<(Snapshot, Arc<Store>), OpenError> {
    let plan = plan(config, ProviderKeys::Left, &Arc::default())?;
    let store = store::open(&config.store).await?;
    let snapshot = Host::peek(plan, store.clone()).await?;
    Ok((snapshot, store))
}

/// Returns the snapshot that a host with these settings would run now. A missing store is not created. Versions
/// that crashed a process before are treated as quarantined.
///
/// # Errors
/// Returns the errors of [`look`].
pub async fn glance(config: &Config, quarantined: Vec<QuarantineEntry>) -> Result<Snapshot, OpenError> {
    let (snapshot, store) = look_without(config, quarantined).await?;
    store.close().await;
    Ok(snapshot)
}

/// Returns the snapshot that a host with these settings would run now, in a closed sandbox with a copy of the
/// stored values.
///
/// # Errors
/// Returns the errors of [`look`].
pub async fn dry_run(config: &Config, keys: ProviderKeys) -> Result<Snapshot, OpenError> {
    let plan = plan(config, keys, &Arc::default())?;
    let store = store::open_to_read(&config.store).await?;
    let snapshot = async {
        let kv = Arc::new(Kv::load(store.kv_all().await?));
        Ok(Host::peek(plan, store.clone()).await?.within(&Sandbox::closed().with_kv(kv)))
    };
    let snapshot = snapshot.await;
    store.close().await;
    snapshot
}

/// Returns the snapshot that a host with these settings would run now, and a writer that may change it.
/// Running hosts follow such changes.
///
/// # Errors
/// Returns an error if the settings cannot be used or the store cannot be opened.
pub async fn writer(config: &Config) -> Result<(Snapshot, ReloadLock<'static>), OpenError> {
    let (snapshot, store) = look_to_change(config).await?;
    let writer =
        ReloadLock::alone(Arc::new(plan(config, ProviderKeys::Left, &Arc::default())?), store).await?;
    Ok((snapshot, writer))
}

/// Returns the settings of a script, for callers that compile it themselves.
pub fn settings_of(config: &Config, stored: &HashMap<String, Grants>, kind: Kind, id: &str) -> Settings {
    let all = settings_of_kind(config, kind);
    let configured = all.get(id).cloned().unwrap_or_default();
    let settings = plugin(kind, &configured, config.limits.time_scale).settings;
    // The grants of a native tool are not those of a script.
    let granted = [config.grants.get(id), stored.get(id)].map(|own| own.filter(|_| !is_guarded(id)));
    let grants = granted.into_iter().flatten().fold(Grants::default(), |all, more| all.merge(more));
    Settings { grants, ..settings }
}

/// Returns the grants that were made by command; empty if the store does not exist or cannot be read. The
/// store is not created.
pub async fn stored_grants(config: &Config) -> HashMap<String, Grants> {
    if config.store.address.is_new() {
        return HashMap::new();
    }
    let rows = match store::open(&config.store).await {
        Ok(store) => {
            let rows = store.grants().await;
            store.close().await;
            rows
        }
        Err(error) => Err(error),
    };
    let rows = rows.unwrap_or_else(|error| {
        tracing::warn!("cannot read the stored grants: {error}");
        Vec::new()
    });
    rows.into_iter()
        .filter_map(|(id, row)| Some((id, Grants::from_json(&row, &config.project).ok()?)))
        .collect()
}

/// Returns the state of the plugins on all running hosts; empty if the store cannot be read.
pub async fn stored_standing(config: &Config) -> SharedStatus {
    if config.store.address.is_new() {
        return SharedStatus::default();
    }
    let hosts = match store::open(&config.store).await {
        Ok(store) => {
            let hosts = store.hosts().await;
            store.close().await;
            hosts
        }
        Err(error) => Err(error),
    };
    let hosts = hosts.unwrap_or_else(|error| {
        tracing::warn!("cannot read the state of running hosts: {error}");
        Vec::new()
    });
    SharedStatus::from_hosts(&hosts)
}

/// Returns the kind of a script: by its folder or, in other folders, by its content.
pub fn kind_of(config: &Config, path: &Path) -> Kind {
    let lies_in = |kind: &Kind| {
        let folder = folder_of(config, *kind).canonicalize().ok()?;
        Some(path.canonicalize().ok()?.starts_with(folder))
    };
    let found = [Kind::Tool, Kind::Action, Kind::Filter].into_iter().find(|kind| lies_in(kind) == Some(true));
    found.unwrap_or_else(|| Kind::guess(&beginning(path)))
}
