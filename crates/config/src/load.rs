//! The layers, gathered: the file, over it the environment, over that the command line.
//!
//! Errors that only show when the settings are looked at together.

use crate::check::Log;
use crate::error::{ConfigError, ConfigProblem};
use crate::origin::Origin;
use crate::schema::{branch, properties, tables};
use crate::settings::{Config, root};
use crate::tree::{Node, Overlay, Setting, Table, parse};
use crate::{fallbacks, rules};
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use valvehouse_core::provider::PIPES;
use valvehouse_core::text::did_you_mean;
use valvehouse_grants::{FileError, MAX_SETTINGS, SecretSource, StoreAddress, read_text};
use valvehouse_json::Json;

/// The settings' file, in the project folder.
pub const FILE: &str = "valvehouse.toml";
const PREFIX: &str = "VALVEHOUSE__";

impl Config {
    /// Returns the default settings, without a file and an environment. Relative folders are in `project`.
    pub fn defaults(project: &Path) -> Self {
        from_tree(project, Table::new(), &mut Log::default()).expect("the defaults are valid settings")
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
        let mut log = Log::default();
        let project = std::path::absolute(project).unwrap_or_else(|_| project.to_owned());
        let mut table = file(&project).map_err(|problems| ConfigError { problems })?;
        if project.to_str().is_none() {
            let what = format!("the path {} is not valid UTF-8: rename the folder", project.display());
            log.problem(&Origin::Flag("project".to_owned()), what);
        }
        lay_env_over(&mut table, env, &mut log);
        for (key, text) in overrides {
            let path: Vec<&str> = key.split('.').collect();
            let origin = Origin::Flag(key.clone());
            if let Err(why) = overlay(text, &origin).lay_over(&mut table, &path) {
                log.problem(&origin, format!("this {why}"));
            }
        }
        match from_tree(&project, table, &mut log) {
            Some(config) if log.problems.is_empty() => Ok(config),
            _ => Err(ConfigError { problems: log.problems }),
        }
    }
}

/// The provider and the model of a project that has none. They have all tools, so that one sees them work: whoever
/// configures a model says which tools it gets.
const DEMO: &str = r#"{
    "providers": [{"name": "demo"}],
    "models": [{
        "name": "demo",
        "tools": ["*"],
        "description": "Answers without a network, always the same way.",
        "abilities": ["tools"]
    }]
}"#;

/// Checks the settings, and makes them typed ones. What is invalid is left out, so that all problems are found.
fn from_tree(project: &Path, mut table: Table, log: &mut Log) -> Option<Config> {
    if !table.contains_key("providers") {
        let demo = Json::parse(DEMO.as_bytes()).expect("the demo is valid JSON");
        for (key, value) in demo.entries() {
            table.entry(key.to_string()).or_insert_with(|| Setting::from_json(&value, &Origin::Default));
        }
    }
    let mut tree = Setting::new(Node::Table(table), &Origin::Default);
    log.check(root(), &mut tree, "");
    if let Node::Table(table) = &mut tree.node {
        rules::apply(table, log);
    }
    let mut config: Config = match serde_json::from_value(resolved(root(), &tree, project)) {
        Ok(config) => config,
        Err(error) => {
            log.problem(&Origin::Default, format!("cannot read the settings: {error}"));
            return None;
        }
    };
    config.project = project.to_owned();
    config.tree = tree;
    config.complete();
    check(&config, log);
    Some(config)
}

/// Returns a setting as JSON, with whole paths.
fn resolved(schema: &Value, setting: &Setting, project: &Path) -> Value {
    let fitting = branch(schema, setting);
    let whole = |path: &str| -> PathBuf { project.join(path).components().collect() };
    match (&setting.node, fitting["format"].as_str()) {
        (Node::Text(path), Some("path" | "folder")) => whole(path).to_string_lossy().into(),
        (Node::Text(text), Some("secret" | "key")) => {
            let text = match text.trim_start().strip_prefix("file:") {
                Some(path) => format!("file:{}", whole(path.trim()).display()),
                None => text.clone(),
            };
            match schema["x-short"].as_str() {
                Some(key) => Map::from_iter([(key.to_owned(), text.into())]).into(),
                None => text.into(),
            }
        }
        (Node::Text(text), Some("uri-or-empty")) if text.trim().is_empty() => Value::Null,
        (Node::Truth(false), _) if fitting.get("const").is_some() => Value::Null,
        (Node::List(items), _) => {
            items.iter().map(|item| resolved(&fitting["items"], item, project)).collect()
        }
        (Node::Table(table), _) => {
            let of = |name: &str| {
                properties(fitting).map_or(&fitting["additionalProperties"], |known| &known[name])
            };
            table.iter().map(|(name, inner)| (name.clone(), resolved(of(name), inner, project))).collect()
        }
        _ => Value::from(&setting.to_json()),
    }
}

impl Config {
    /// Completes what a value does not say by itself.
    fn complete(&mut self) {
        if let StoreAddress::Sqlite(file) = &mut self.store.address {
            *file = self.project.join(&file);
        }
        self.folders.public_key = self.folders.public_key.take().map(|key| key.trim().to_owned());
        for provider in &mut self.providers {
            // `client` is a word, and not a key.
            provider.is_paid_by_callers =
                matches!(&provider.api_key, Some(SecretSource::Literal(word)) if word.expose() == "client");
            provider.api_key = provider.api_key.take().filter(|_| !provider.is_paid_by_callers);
        }
        for (kind, plugins) in
            [("filters", &mut self.filters), ("tools", &mut self.tools), ("actions", &mut self.actions)]
        {
            for (id, plugin) in plugins {
                let valves = self.tree.find(&format!("{kind}.{id}.valves"));
                if let Some(Setting { node: Node::Table(valves), .. }) = valves {
                    let untyped = valves.iter().filter(|(_, value)| value.origin.is_untyped());
                    plugin.untyped_valves = untyped.map(|(name, _)| name.clone()).collect();
                }
            }
        }
    }
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

fn overlay<'a>(text: &'a str, origin: &'a Origin) -> Overlay<'a> {
    let is_list = |key: &str| matches!(tables(&root()["properties"][key]), Some(("NAME", _)));
    Overlay { text, origin, is_list }
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
        if let Err(why) = overlay(&text, &origin).lay_over(table, &path) {
            log.problem(&origin, format!("this {why}"));
        }
    }
}

fn check(config: &Config, log: &mut Log) {
    check_reach(config, log);
    check_keys(config, log);
    let providers: Vec<&str> = config.providers.iter().map(|provider| provider.name.as_str()).collect();
    if providers.contains(&PIPES) {
        let key = format!("providers.{PIPES}.name");
        let what = format!("{key} is reserved for scripts with `fn pipe`: choose another name");
        log.problem(&config.origin(&key), what);
    }
    fallbacks::check(config, log);
    for model in &config.models {
        let key = format!("models.{}.provider", model.name);
        // A provider that did not come through its own checks is a problem of its own, not of this model.
        let was_dropped =
            log.wrong.iter().any(|known| known.starts_with(&format!("providers.{}.", model.provider)));
        if !providers.contains(&model.provider.as_str()) && model.provider != PIPES && !was_dropped {
            let hint = did_you_mean(&model.provider, providers.iter().copied());
            let known = providers.join(", ");
            log.problem(
                &config.origin(&key),
                format!("{key} names the unknown provider {:?}{hint}; known names: {known}", model.provider),
            );
        }
    }
}

/// Without keys anybody who can connect may ask; then only this machine may connect.
fn check_reach(config: &Config, log: &mut Log) {
    let listen = &config.server.listen;
    if config.server.keys.is_empty() && !config.server.require_key && !listen.is_loopback() {
        log.problem(
            &config.origin("server.listen"),
            format!(
                "server.listen {listen} accepts other machines, but server.keys is empty, so anyone could send requests: set server.keys = [\"…\"] or server.require_key = true, or listen on 127.0.0.1:{}",
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
        let what = "server.keys contains the same key twice: set a different key for each user";
        log.problem(&config.origin("server.keys"), what);
    }
}
