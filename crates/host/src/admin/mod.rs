//! Changes of plugins by operators. Each change is checked, applied completely, and recorded with its author,
//! so that it can be undone.
//!
//! [`Admin`] changes the plugins of a running host and returns when the change is live there. Commands
//! without a host call [`rollback`] with a writer of their own; running hosts follow.

mod change;
mod files;
mod grants;
mod keys;
mod plugins;
mod rejection;
mod rollback;
mod scripts;
mod valves;
mod versions;

pub use grants::{CapabilityGrant, CurrentGrants, GrantSubject, PluginGrants, grant_words};
pub use keys::{
    KeyEntry, KeyState, NewKey, change_key, create_key, key_entries, key_entry, revoke_key, rotate_key,
};
pub use plugins::{Admin, known};
pub use rejection::AdminError;
pub use rollback::rollback;
pub use scripts::ExpectedVersion;
pub use valves::{EffectiveValve, audit_switch, schema, shown};
pub use versions::{Against, Detail, Entry, ValveChange, detail, diff, entries};
