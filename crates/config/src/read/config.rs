//! The whole of the settings.

use super::section::{key, secret, section};
use super::{mcp, models, plugins, server};
use crate::reader::{Log, Reader};
use crate::settings::{AdminSettings, Config, StoreAddress, StoreSettings};
use crate::tree::Setting;
use std::collections::BTreeMap;
use std::path::PathBuf;

pub(crate) fn config(project: PathBuf, root: Setting, log: &mut Log) -> Config {
    let mut root = Reader::new(String::new(), root, log);
    let server = server::server(&mut root, &project);
    let admin = AdminSettings { key: section(&mut root, "admin", |it| key(it, &project)).flatten() };
    let folders = server::folders(&mut root, &project);
    let usual = || {
        let store = StoreSettings::at(StoreAddress::Sqlite(project.join(".valvehouse/state.db")), None);
        StoreSettings { snapshot: Some(project.join(".valvehouse/snapshot")), ..store }
    };
    let mut store = usual();
    section(&mut root, "store", |it| {
        store.key = secret(it, "key", &project);
        server::store(it, &project, &mut store);
    });
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
    let embedding_model = section(&mut root, "embeddings", |it| it.text("model")).flatten();
    let mcp = mcp::servers(&mut root, &project);
    let oauth = section(&mut root, "oauth", |it| mcp::resource_server(it, &project)).flatten();
    let filters = plugins::named(&mut root, "filters", plugins::plugin);
    let tools = plugins::named(&mut root, "tools", plugins::plugin);
    let actions = plugins::named(&mut root, "actions", plugins::plugin);
    let interceptors = plugins::named(&mut root, "interceptors", mcp::interceptor);
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
        embedding_model,
        mcp,
        oauth,
        filters,
        tools,
        actions,
        interceptors,
        grants,
        origins: BTreeMap::new(),
    }
}
