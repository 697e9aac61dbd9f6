//! Grants of plugins, secrets, and the settings of the packages between this one and `valvehouse-config`, which
//! therefore need no TOML.

mod calls;
mod file;
mod grants;
mod secret;
mod store;

pub use calls::{Millis, ROUTES, RetrySettings, Timeouts, usual};
pub use file::{FileError, MAX_SETTINGS, read_regular, read_text};
pub use grants::{Capability, Grant, GrantError, GrantWord, Grants, misnamed};
pub use secret::{HASHED, Secret, SecretSource, SecretSourceError, SecretUnread};
pub use store::{SchemaMigration, StoreAddress, StoreAddressError, StoreSettings, is_postgres};
