//! The store that the settings name, opened; and the way out when its key is lost.

use crate::error::StoreError;
#[cfg(not(feature = "postgres"))]
use crate::error::StoreErrorKind;
use crate::sql_store::SqlStore;
use crate::sqlite::forget;
use crate::store::Store;
use std::sync::Arc;
use valvehouse_config::{StoreAddress, StoreSettings};

/// Opens the configured store.
pub async fn open(settings: &StoreSettings) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(open_sql(settings).await?))
}

/// Opens the configured store for a host: one whose database cannot be reached goes on from the snapshot that the host
/// has on its disk, until the database is back.
///
/// # Errors
/// Returns an error if the database refuses this host, or if it is away and there is no snapshot of it that can be read.
pub async fn open_or_start_without(settings: &StoreSettings) -> Result<Arc<dyn Store>, StoreError> {
    match &settings.address {
        #[cfg(feature = "postgres")]
        StoreAddress::Postgres(_) => {
            Ok(Arc::new(SqlStore::shared(settings, settings.snapshot.as_deref()).await?))
        }
        _ => open(settings).await,
    }
}

pub(crate) async fn open_sql(settings: &StoreSettings) -> Result<SqlStore, StoreError> {
    match &settings.address {
        StoreAddress::Sqlite(file) => SqlStore::sqlite_with(file, settings.key.as_ref()).await,
        #[cfg(feature = "postgres")]
        StoreAddress::Postgres(_) => SqlStore::shared(settings, None).await,
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
    }
}

/// Makes the tables that are missing and changes those of earlier versions, whoever else waits for it. Returns the titles of
/// the steps that were taken; a file takes its steps whenever it is opened.
///
/// # Errors
/// Returns an error if the database does not answer, its role may not make tables, or a later version was there.
pub async fn migrate(settings: &StoreSettings) -> Result<Vec<&'static str>, StoreError> {
    match &settings.address {
        #[cfg(feature = "postgres")]
        StoreAddress::Postgres(url) => crate::postgres::migrate(url, settings).await,
        _ => open(settings).await.map(|_| Vec::new()),
    }
}

/// Returns the titles of the steps that [`migrate`] would take.
///
/// # Errors
/// Returns an error if the database does not answer, or a later version was there.
pub async fn missing_steps(settings: &StoreSettings) -> Result<Vec<&'static str>, StoreError> {
    match &settings.address {
        #[cfg(feature = "postgres")]
        StoreAddress::Postgres(url) => crate::postgres::missing_steps(url, settings).await,
        _ => Ok(Vec::new()),
    }
}

/// Drops the stored valves of a store whose key is lost, which nobody can read any more. Answers of how many
/// plugins.
pub async fn forget_valves(settings: &StoreSettings) -> Result<u64, StoreError> {
    match &settings.address {
        StoreAddress::Sqlite(file) => forget::forget_valves(file, settings.key.as_ref()).await,
        StoreAddress::Postgres(_) => open(settings).await.map(|_| 0),
    }
}
