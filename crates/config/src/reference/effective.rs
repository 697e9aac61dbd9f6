//! The effective settings: every key with its value as TOML, with masked secrets, and its source.

use crate::origin::Origin;
use crate::settings::Config;

/// An effective setting.
#[derive(Debug, Clone)]
pub struct Effective {
    /// The dotted key.
    pub key: String,
    /// The value as TOML; empty if there is none.
    pub value: String,
    /// The origin of the value.
    pub origin: Origin,
}

/// Returns the loaded settings in the order of the reference.
pub fn effective(config: &Config) -> Vec<Effective> {
    // The keys of clients are shown as a whole.
    let values = config.values.iter().filter(|(_, (row, _))| !row.key.contains("[0]"));
    let effective = values.map(|(key, (row, value))| Effective {
        key: key.clone(),
        value: row.form.shown(value),
        origin: config.origin(key),
    });
    effective.collect()
}
