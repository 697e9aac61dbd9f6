//! Opening of the configured store, and recovery from a lost key.

#[cfg(not(feature = "postgres"))]
use crate::error::StoreErrorKind;
use crate::error::{Place, StoreError};
use crate::sqlite::forget;
use crate::store::Store;
use crate::temporary::TemporaryFolder;
use std::path::PathBuf;
use std::sync::Arc;
use valvehouse_grants::{StoreAddress, StoreSettings};

/// Opens the configured store.
///
/// # Errors
/// Returns an error if the database cannot be opened or migrated, or if the key of the store is missing or wrong.
pub async fn open(settings: &StoreSettings) -> Result<Arc<Store>, StoreError> {
    let store = match &settings.address {
        StoreAddress::Sqlite(file) => Store::sqlite_with(file, settings.key.as_ref()).await,
        #[cfg(feature = "postgres")]
        StoreAddress::Postgres(_) => Store::shared(settings, None).await,
        #[cfg(not(feature = "postgres"))]
        StoreAddress::Postgres(_) => Err(StoreError {
            doing: "open the store".into(),
            place: "postgres".into(),
            kind: StoreErrorKind::Other,
            cause: "valvehouse was built without the feature `postgres`".into(),
            help: Some(
                "build it with that feature, or set store.url to \"sqlite://.valvehouse/state.db\"".into(),
            ),
        }),
    };
    store.map(Arc::new)
}

/// Opens the SQLite store in a file, which is created if it does not exist.
///
/// # Errors
/// Returns the errors of [`open`].
pub async fn open_file(file: impl Into<PathBuf>) -> Result<Arc<Store>, StoreError> {
    open(&StoreSettings::at(StoreAddress::Sqlite(file.into()), None)).await
}

/// Opens the configured store for a caller that only reads: a missing file is not created. In its place, an empty store is
/// opened among the temporary files, and removed with the returned value.
///
/// # Errors
/// Returns the errors of [`open`].
pub async fn open_to_read(settings: &StoreSettings) -> Result<Arc<Store>, StoreError> {
    if !settings.address.is_new() {
        return open(settings).await;
    }
    let folder = TemporaryFolder::new().map_err(|error| {
        StoreError::from_io("create a temporary store", &Place::File(std::env::temp_dir()), &error)
    })?;
    let store = Store::sqlite(&folder.path().join("state.db")).await?;
    Ok(Arc::new(store.in_temporary(folder)))
}

/// Opens the configured store for a host. If the database is unreachable, the host starts from its local
/// snapshot until the database is back.
///
/// # Errors
/// Returns an error if the database rejects this host, or if it is unreachable and no readable snapshot
/// exists.
pub async fn open_or_start_without(settings: &StoreSettings) -> Result<Arc<Store>, StoreError> {
    match &settings.address {
        #[cfg(feature = "postgres")]
        StoreAddress::Postgres(_) => {
            Ok(Arc::new(Store::shared(settings, settings.snapshot.as_deref()).await?))
        }
        _ => open(settings).await,
    }
}

/// Migrates the schema of the database; concurrent migrations wait for each other. Returns the titles of the
/// applied migrations. A file is migrated whenever it is opened.
///
/// # Errors
/// Returns an error if the database does not respond, its role may not change the schema, or the schema
/// belongs to a newer version.
pub async fn migrate(settings: &StoreSettings) -> Result<Vec<&'static str>, StoreError> {
    match &settings.address {
        #[cfg(feature = "postgres")]
        StoreAddress::Postgres(url) => crate::postgres::migrate(url, settings).await,
        _ => open(settings).await.map(|_| Vec::new()),
    }
}

/// Returns the titles of the migrations that [`migrate`] would apply.
///
/// # Errors
/// Returns an error if the database does not respond, or the schema belongs to a newer version.
pub async fn missing_steps(settings: &StoreSettings) -> Result<Vec<&'static str>, StoreError> {
    match &settings.address {
        #[cfg(feature = "postgres")]
        StoreAddress::Postgres(url) => crate::postgres::missing_steps(url, settings).await,
        _ => Ok(Vec::new()),
    }
}

/// Deletes the stored valves of a store whose key is lost, which are unreadable without it. Returns the number of
/// plugins that had any.
///
/// # Errors
/// Returns an error if the database cannot be opened or changed.
pub async fn forget_valves(settings: &StoreSettings) -> Result<u64, StoreError> {
    match &settings.address {
        StoreAddress::Sqlite(file) => forget::forget_valves(file, settings.key.as_ref()).await,
        StoreAddress::Postgres(_) => open(settings).await.map(|_| 0),
    }
}
