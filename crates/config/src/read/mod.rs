//! From the tree to typed settings, section by section.

mod models;
mod plugins;
mod server;

use super::SecretSource;
use super::reader::{Log, Reader};
use super::settings::{Admin, Config, StoreAddress, StoreSettings};
use super::tree::Setting;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) fn config(project: PathBuf, root: Setting, log: &mut Log) -> Config {
    let mut root = Reader::new(String::new(), root, log);
    let server = server::server(&mut root, &project);
    let admin = Admin { key: section(&mut root, "admin", |it| key(it, &project)).flatten() };
    let folders = server::folders(&mut root, &project);
    let store = section(&mut root, "store", |it| (server::store(it, &project), secret(it, "key", &project)));
    let (address, key) = store.unwrap_or_default();
    let usual = || StoreAddress::Sqlite(project.join(".valvehouse/state.db"));
    let store = StoreSettings { address: address.unwrap_or_else(usual), key };
    let breaker = section(&mut root, "breaker", plugins::breaker).unwrap_or_default();
    let trace = section(&mut root, "trace", server::trace).unwrap_or_default();
    let otlp = section(&mut root, "otlp", |it| server::otlp(it, &project)).flatten();
    let mut providers = models::providers(&mut root, &project);
    let is_demo = providers.is_empty() && !root.log.origins.contains_key("providers");
    if is_demo {
        providers.push(models::demo_provider());
    }
    let mut models = models::models(&mut root, &providers);
    if is_demo && !root.log.origins.contains_key("models") {
        models.push(models::demo_model());
    }
    let filters = plugins::named(&mut root, "filters", plugins::plugin);
    let tools = plugins::named(&mut root, "tools", plugins::plugin);
    let grants = plugins::named(&mut root, "grants", |it| plugins::grants(it, &project));
    root.finish();
    Config {
        project,
        server,
        admin,
        folders,
        store,
        breaker,
        trace,
        otlp,
        providers,
        models,
        filters,
        tools,
        grants,
        origins: BTreeMap::new(),
    }
}

/// Reads a section to its end, when there is one.
fn section<T>(
    root: &mut Reader<'_>,
    key: &'static str,
    read: impl FnOnce(&mut Reader<'_>) -> T,
) -> Option<T> {
    let mut inner = root.inner(key)?;
    let value = read(&mut inner);
    inner.finish();
    Some(value)
}

const NO_DIGEST: &str =
    "begins with `sha256:`, after which come 64 hexadecimal digits: `valvehouse key` makes them";

/// A key that opens doors: itself, or its digest.
fn key(it: &mut Reader<'_>, project: &Path) -> Option<SecretSource> {
    let key = secret(it, "key", project)?;
    if key.is_no_digest() {
        it.wrong("key", NO_DIGEST);
        return None;
    }
    Some(key)
}

fn secret(it: &mut Reader<'_>, key: &'static str, project: &Path) -> Option<SecretSource> {
    let source = SecretSource::parse(&it.text(key)?, project);
    if source.is_blank() {
        it.wrong(key, "is empty: write \"env:NAME\", \"file:PATH\" or the key itself, or take it out");
        return None;
    }
    Some(source)
}
