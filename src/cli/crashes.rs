//! The crash record of this process, and the log entries for versions that are quarantined after a crash.

use valvehouse_config::Config;
use valvehouse_script::crash::Record;

/// Begins the record of this process, and logs which versions are quarantined for how earlier ones ended.
pub(super) fn record(config: &Config) -> Option<Record> {
    let (record, caught) = Record::open(&config.project);
    for version in caught {
        let id = version.id.as_str();
        tracing::error!(
            plugin = id,
            "this version is quarantined: {}; save another text, or release it: valvehouse release {id}",
            version.why
        );
    }
    record
}
