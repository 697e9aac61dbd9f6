//! The whole of the settings.

use super::section::key;
use super::{mcp, models, plugins, server};
use crate::reader::{Log, Reader};
use crate::settings::{AdminSettings, Config};
use crate::tree::Setting;
use std::collections::BTreeMap;
use std::path::PathBuf;

pub(crate) fn config(project: PathBuf, root: Setting, log: &mut Log) -> Config {
    let mut root = Reader::root(root, log);
    let server = root.section("server", |it| server::server(it, &project));
    let admin = AdminSettings { key: root.section("admin", |it| key(it, &project)) };
    let folders = root.section("folders", |it| server::folders(it, &project));
    let store = root.section("store", |it| server::store(it, &project));
    let breaker = root.section("breaker", plugins::breaker);
    let time_scale = root.section("limits", |it| it.number("time_scale"));
    let trace = root.section("trace", server::trace);
    let otlp = root.section("otlp", |it| server::otlp(it, &project));
    models::supply_demo(&mut root);
    let providers = models::providers(&mut root, &project);
    let models = models::models(&mut root, &providers);
    let embedding_model = root.section("embeddings", |it| it.text("model"));
    let mcp = mcp::servers(&mut root, &project);
    let oauth = root.section_given("oauth", |it| mcp::resource_server(it, &project)).flatten();
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
        time_scale,
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
        values: std::mem::take(&mut log.values),
    }
}
