//! The settings in force: every key with its value as it is written, secrets masked, and where it came from.

use crate::origin::Origin;
use crate::settings::Config;

/// One setting in force.
#[derive(Debug, Clone)]
pub struct Effective {
    /// Its dotted key.
    pub key: String,
    /// Its value, as it is written; empty where there is none.
    pub value: String,
    /// The origin of the value.
    pub origin: Origin,
}

/// Returns the settings as they were loaded, in the order in which they are read.
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
