//! The layers, gathered: the file, over it the environment, over that the command line.
//!
//! Errors that only show when the settings are looked at together.

use super::reader::Log;
use super::tree::{Node, Setting, Table, lay_over, parse};
use super::{fallbacks, read};
use crate::error::{ConfigError, ConfigProblem};
use crate::file::{FileError, MAX_SETTINGS, read_text};
use crate::origin::Origin;
use crate::secret::SecretSource;
use crate::settings::Config;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use valvehouse_core::provider::PIPES;
use valvehouse_core::text::did_you_mean;

/// The settings' file, in the project folder.
pub const FILE: &str = "valvehouse.toml";
const PREFIX: &str = "VALVEHOUSE__";

impl Config {
    /// Returns the default settings, without a file and an environment. Relative folders are in `project`.
    pub fn defaults(project: &Path) -> Self {
        read::config(
            project.to_owned(),
            Setting::new(Node::Table(Table::new()), &Origin::Default),
            &mut Log::default(),
        )
    }

    /// Reads the settings of a project.
    ///
    /// `overrides` are those of the command line: dotted keys with their texts, such as `("server.listen", "…")`.
    ///
    /// # Errors
    /// Returns everything that is wrong with the settings, with file and line.
    pub fn load(project: &Path, overrides: &[(String, String)]) -> Result<Self, ConfigError> {
        Self::load_with(project, std::env::vars_os(), overrides)
    }

    /// Reads the settings of a project with the variables of `env` instead of those of the process.
    ///
    /// # Errors
    /// Returns everything that is wrong with the settings, with file and line.
    pub fn load_with(
        project: &Path,
        env: impl IntoIterator<Item = (OsString, OsString)>,
        overrides: &[(String, String)],
    ) -> Result<Self, ConfigError> {
        let (config, log) = read_all(project, env, overrides)?;
        if log.problems.is_empty() { Ok(config) } else { Err(ConfigError { problems: log.problems }) }
    }
}

/// The settings, and what reading them found out.
fn read_all(
    project: &Path,
    env: impl IntoIterator<Item = (OsString, OsString)>,
    overrides: &[(String, String)],
) -> Result<(Config, Log), ConfigError> {
    let mut log = Log::default();
    let project = std::path::absolute(project).unwrap_or_else(|_| project.to_owned());
    let mut table = match file(&project) {
        Ok(table) => table,
        Err(problems) => return Err(ConfigError { problems }),
    };
    lay_env_over(&mut table, env, &mut log);
    for (key, text) in overrides {
        let path: Vec<&str> = key.split('.').collect();
        let origin = Origin::Flag(key.clone());
        if let Err(why) = lay_over(&mut table, &path, text, &origin) {
            log.problem(&origin, format!("this {why}"));
        }
    }
    let mut config = read::config(project, Setting::new(Node::Table(table), &Origin::Default), &mut log);
    check(&config, &mut log);
    config.origins = std::mem::take(&mut log.origins);
    Ok((config, log))
}

/// The settings of a file alone, valid or invalid, and the keys that were read.
#[cfg(test)]
pub(super) fn read_with_log(project: &Path) -> (Config, Log) {
    read_all(project, [], &[]).expect("a file that can be parsed")
}

fn file(project: &Path) -> Result<Table, Vec<ConfigProblem>> {
    let problem = |origin, message| vec![ConfigProblem { origin, message }];
    let start = Origin::File { file: FILE.to_owned(), line: 1, column: 1 };
    match read_text(&project.join(FILE), MAX_SETTINGS) {
        Ok(text) => {
            let text = text.trim_start_matches('\u{feff}');
            parse(text, FILE).map_err(|errors| {
                errors.into_iter().map(|(origin, message)| ConfigProblem { origin, message }).collect()
            })
        }
        Err(FileError::Unread(error)) if error.kind() == ErrorKind::NotFound && project.is_dir() => {
            Ok(Table::new())
        }
        Err(_) if !project.is_dir() => Err(problem(
            Origin::Flag("project".to_owned()),
            format!(
                "cannot find the project folder {}; create it, or name another one with --project",
                project.display()
            ),
        )),
        Err(error) => Err(problem(start, format!("cannot read {}: {error}", project.join(FILE).display()))),
    }
}

fn lay_env_over(table: &mut Table, env: impl IntoIterator<Item = (OsString, OsString)>, log: &mut Log) {
    let mut ours = Vec::new();
    for (name, value) in env {
        // A name that is not text is shown with `\u{fffd}` in place of the other bytes.
        let shown = name.to_string_lossy().into_owned();
        if !shown.starts_with(PREFIX) {
            continue;
        }
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => ours.push((name, value)),
            (name, _) => {
                let part = if name.is_err() { "name" } else { "value" };
                log.problem(
                    &Origin::Env(shown),
                    format!("this {part} is not valid UTF-8: write it in UTF-8, or unset the variable"),
                );
            }
        }
    }
    // Wholes before their parts: …__PROVIDERS is laid before …__PROVIDERS__OPENAI__API_KEY.
    ours.sort_by_key(|(name, _)| (name.matches("__").count(), name.clone()));
    for (name, text) in ours {
        let lower = name[PREFIX.len()..].to_lowercase();
        let path: Vec<&str> = lower.split("__").collect();
        let origin = Origin::Env(name.clone());
        if let Err(why) = lay_over(table, &path, &text, &origin) {
            log.problem(&origin, format!("this {why}"));
        }
    }
}

pub(super) fn check(config: &Config, log: &mut Log) {
    check_reach(config, log);
    check_keys(config, log);
    let providers: Vec<&str> = config.providers.iter().map(|provider| provider.name.as_str()).collect();
    let models: Vec<&str> = config.models.iter().map(|model| model.name.as_str()).collect();
    if providers.contains(&PIPES) {
        let key = format!("providers.{PIPES}.name");
        let origin = log.origin(&key);
        log.problem(&origin, format!("{key} is reserved for scripts with `fn pipe`: choose another name"));
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
                format!("{key} names the unknown provider {:?}{hint}; known names: {known}", model.provider),
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
                "server.listen {listen} accepts other machines, but server.keys is empty, so anyone could send requests: set server.keys = [\"…\"], or listen on 127.0.0.1:{}",
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
        log.problem(&origin, "server.keys contains the same key twice: set a different key for each user");
    }
}

fn refuse_twins(section: &str, names: &[&str], log: &mut Log) {
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            let origin = log.origin(&format!("{section}.{name}.name"));
            log.problem(
                &origin,
                format!("{section} contains the name {name:?} twice: rename one of the two"),
            );
        }
    }
}
