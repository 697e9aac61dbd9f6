//! The store: its address and the keys and addresses beside it.

use crate::secret::{Secret, SecretSource};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The place of the state, and the key that keeps it from others.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct StoreSettings {
    /// An SQLite file, relative to the project; or a Postgres database, `postgres://USER@HOST/NAME`, for
    /// [several hosts](several-hosts.md).
    #[serde(rename = "url")]
    #[schemars(extend("default" = "sqlite://.valvehouse/state.db", "examples" = ["sqlite:///var/lib/valvehouse/state.db"]))]
    pub address: StoreAddress,
    /// The key that encrypts values set by operators and users; by default a key file that is created next to the
    /// store.
    #[schemars(extend("examples" = ["env:VALVEHOUSE_STORE_KEY"]))]
    pub key: Option<SecretSource>,
    /// The address of the database without a pooler such as pgbouncer, for the connection that receives
    /// notifications of changes; default: `store.url`.
    #[schemars(extend("examples" = ["postgres://valvehouse@db.internal:5432/valvehouse"]))]
    pub listen_url: Option<Secret>,
    /// The URL of the database with the role that owns the tables, used to create and update them; default:
    /// `store.url`.
    #[schemars(extend("examples" = ["postgres://owner@db.internal:5432/valvehouse"]))]
    pub migrate_url: Option<Secret>,
    /// `auto`: a host creates and updates the tables. `wait`: it waits for `valvehouse migrate`.
    #[schemars(extend("default" = "auto", "examples" = ["wait"]))]
    pub migrate: SchemaMigration,
    /// The encrypted file from which a host starts
    /// [while its Postgres database is unavailable](several-hosts.md#when-the-database-is-unavailable). `false`: it
    /// does not start then. Not used with SQLite.
    #[schemars(schema_with = "path_or_false", extend("x-form" = "a path or `false`", "default" = ".valvehouse/snapshot", "examples" = ["/var/lib/valvehouse/snapshot"]))]
    pub snapshot: Option<PathBuf>,
    /// The timeout after which a Postgres database counts as unavailable.
    #[schemars(range(min = 100, max = 600_000), extend("default" = StoreSettings::CONNECT_MS, "examples" = [1000]))]
    pub connect_ms: u64,
}

fn path_or_false(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [{"const": false}, {"type": "string", "format": "path", "minLength": 1}]})
}

impl StoreSettings {
    /// The time that a database has to answer in, unless the settings say otherwise.
    pub const CONNECT_MS: u64 = 3_000;

    /// The settings of a store at an address, without a snapshot and with all else as it usually is.
    pub fn at(address: StoreAddress, key: Option<SecretSource>) -> Self {
        Self {
            address,
            key,
            listen_url: None,
            migrate_url: None,
            migrate: SchemaMigration::default(),
            snapshot: None,
            connect_ms: Self::CONNECT_MS,
        }
    }
}

/// The one that migrates the schema of a shared store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SchemaMigration {
    /// The first host that needs it.
    #[default]
    Auto,
    /// `valvehouse migrate`: hosts wait for it.
    Wait,
}

/// The error of a store's URL, which is not part of its text because it may contain a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreAddressError {
    /// The URL of an SQLite store names no file.
    #[error("must name a file, such as \"sqlite://.valvehouse/state.db\"")]
    File,
    /// The scheme is not supported.
    #[error("must begin with sqlite:// or postgres://")]
    Scheme,
}

/// The place of the state.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", extend("format" = "store", "x-form" = "URL", "pattern" = "^(sqlite:|postgres://|postgresql://)"))]
pub enum StoreAddress {
    /// In this file.
    Sqlite(PathBuf),
    /// At this URL, which may hold a password.
    Postgres(Secret),
}

impl TryFrom<String> for StoreAddress {
    type Error = StoreAddressError;

    fn try_from(url: String) -> Result<Self, Self::Error> {
        Self::parse(&url, Path::new(""))
    }
}

/// Returns `true` if a URL is that of a Postgres database.
pub fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

impl StoreAddress {
    /// Reads a URL: `sqlite://FILE`, relative to the project, or `postgres://…`.
    ///
    /// # Errors
    /// Returns the form that the URL must have, without the URL, which may contain a password.
    pub fn parse(url: &str, project: &Path) -> Result<Self, StoreAddressError> {
        match url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")) {
            Some(file) if !file.is_empty() && !file.contains(['?', ':']) => {
                Ok(Self::Sqlite(project.join(file)))
            }
            Some(_) => Err(StoreAddressError::File),
            None if is_postgres(url) => Ok(Self::Postgres(Secret::new(url))),
            None => Err(StoreAddressError::Scheme),
        }
    }

    /// Returns `true` if opening the store would create it: its file does not exist.
    pub fn is_new(&self) -> bool {
        let Self::Sqlite(file) = self else { return false };
        // An inaccessible path is not new: opening it returns the error.
        file.metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
    }
}
