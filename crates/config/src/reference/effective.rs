//! The effective settings: every key with its value as TOML, with masked secrets, and its source.

use super::redaction::shown;
use crate::origin::Origin;
use crate::schema::{properties, tables, visit};
use crate::settings::{Config, root};
use crate::tree::Setting;
use indexmap::IndexMap;
use serde_json::Value;
use valvehouse_json::Json;

/// An effective setting.
#[derive(Debug, Clone)]
pub struct Effective {
    /// The dotted key.
    pub key: String,
    /// The value as TOML; empty if there is none.
    pub value: String,
    /// The origin of the value.
    pub origin: Origin,
    /// `true` if a change takes effect at the next start.
    pub restart: bool,
    /// The description.
    pub about: &'static str,
}

/// Returns the loaded settings in the order of the reference. The keys of clients are shown as a whole.
pub fn effective(config: &Config) -> Vec<Effective> {
    let mut effective = Vec::new();
    each(config, &mut |schema, setting, key| {
        let value = setting.map_or_else(String::new, |setting| shown(schema, &setting.to_json()));
        let origin = Setting::origin(setting);
        let (restart, about) = (schema["x-restart"] == true, schema["description"].as_str().unwrap_or(""));
        effective.push(Effective { key: key.to_owned(), value, origin, restart, about });
    });
    effective
}

/// Calls a function with each setting that has a value of its own.
fn each<'c>(config: &'c Config, of: &mut dyn FnMut(&'static Value, Option<&'c Setting>, &str)) {
    visit(root(), Some(&config.tree), "", &mut |schema, setting, key| {
        let is_table =
            properties(schema).or(tables(schema).and_then(|(_, table)| properties(table))).is_some();
        if !is_table {
            of(schema, setting, key);
        }
        is_table
    });
}

impl Config {
    /// Returns the keys of other settings that a host that was opened with these applies only after a restart.
    pub fn waiting(&self, other: &Self) -> Vec<String> {
        let (now, next) = (self.at_start(), other.at_start());
        let keys = now.keys().chain(next.keys().filter(|key| !now.contains_key(*key)));
        keys.filter(|key| now.get(*key) != next.get(*key)).cloned().collect()
    }

    /// Returns the values of the settings that take effect at the start.
    fn at_start(&self) -> IndexMap<String, Json> {
        let mut values = IndexMap::new();
        each(self, &mut |schema, setting, key| {
            if let Some(setting) = setting.filter(|_| schema["x-restart"] == true) {
                values.insert(key.to_owned(), setting.to_json());
            }
        });
        values
    }
}
