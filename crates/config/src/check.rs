//! Errors that only show when the settings are looked at together.

use super::fallbacks;
use super::reader::Log;
use crate::secret::SecretSource;
use crate::settings::Config;
use valvehouse_core::provider::PIPES;
use valvehouse_core::words::did_you_mean;

pub(super) fn check(config: &Config, log: &mut Log) {
    check_reach(config, log);
    check_keys(config, log);
    let providers: Vec<&str> = config.providers.iter().map(|provider| provider.name.as_str()).collect();
    let models: Vec<&str> = config.models.iter().map(|model| model.name.as_str()).collect();
    if providers.contains(&PIPES) {
        let key = format!("providers.{PIPES}.name");
        let origin = log.origin(&key);
        log.problem(
            &origin,
            format!("{key} is what all scripts with `fn pipe` are called: choose another name"),
        );
    }
    refuse_twins("providers", &providers, log);
    refuse_twins("models", &models, log);
    let servers: Vec<&str> = config.mcp.iter().map(|server| server.name.as_str()).collect();
    refuse_twins("mcp", &servers, log);
    fallbacks::check(config, log);
    for model in &config.models {
        let key = format!("models.{}.provider", model.name);
        // A provider that did not come through its own checks is a problem of its own, not of this model.
        let was_dropped =
            log.origins.keys().any(|known| known.starts_with(&format!("providers.{}.", model.provider)));
        if !providers.contains(&model.provider.as_str()) && model.provider != PIPES && !was_dropped {
            let hint = did_you_mean(&model.provider, providers.iter().copied());
            let known = providers.join(", ");
            let origin = log.origin(&key);
            log.problem(
                &origin,
                format!("{key} is the unknown {:?}{hint}; there are: {known}", model.provider),
            );
        }
    }
}

/// Without keys anybody who can connect may ask; then only this machine may connect.
fn check_reach(config: &Config, log: &mut Log) {
    let listen = &config.server.listen;
    if config.server.keys.is_empty() && !listen.is_loopback() {
        let origin = log.origin("server.listen");
        log.problem(
            &origin,
            format!(
                "server.listen {listen} lets other machines in, but server.keys is empty, so that anybody \
                 could ask: set server.keys = [\"…\"], or listen on 127.0.0.1:{}",
                listen.port
            ),
        );
    }
}

/// One key for two users: nobody could tell them apart.
fn check_keys(config: &Config, log: &mut Log) {
    let literal: Vec<_> = config.server.keys.iter().map(|key| &key.key).collect();
    let is_twin = |(index, key): (usize, &&SecretSource)| literal[..index].contains(key);
    if literal.iter().enumerate().any(is_twin) {
        let origin = log.origin("server.keys");
        log.problem(&origin, "server.keys holds the same key twice: give each user one of their own");
    }
}

fn refuse_twins(section: &str, names: &[&str], log: &mut Log) {
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            let origin = log.origin(&format!("{section}.{name}.name"));
            log.problem(&origin, format!("{section} holds {name:?} twice: give each a name of its own"));
        }
    }
}
