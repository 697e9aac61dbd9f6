//! Recovery after the loss of the key: sealed values are deleted, everything else stays.

use super::open;
use crate::error::{Place, StoreError, StoreErrorKind};
use crate::record::alive;
use crate::rows::generation::commit_raised;
use crate::sealing::{self, KeyFrom};
use crate::sql::{Lock, Pool, query, query_text};
use crate::tables::SEALED;
use std::path::Path;
use valvehouse_grants::SecretSource;

const DOING: &str = "forget the stored valves";

/// Deletes all stored valves of a store whose key is lost, including those in the history. Returns the number
/// of plugins that had any.
pub(crate) async fn forget_valves(file: &Path, key: Option<&SecretSource>) -> Result<u64, StoreError> {
    let place = &Place::File(file.to_owned());
    let refused = |cause: &str, help: &str| {
        let error = StoreError::new(DOING, place, StoreErrorKind::Refused, cause);
        Err(StoreError { help: Some(help.to_owned()), ..error })
    };
    if !file.exists() {
        return refused("the store does not exist", "check store.url");
    }
    let (durable, swift) = open::open(file).await?;
    swift.close().await;
    if sealing::key(place, KeyFrom::of_file(file, key), &durable).await.is_ok() {
        return refused(
            "the store's key decrypts them",
            "`valvehouse valves reset ID` deletes those of one plugin",
        );
    }
    let failed = |error| StoreError::from_sqlx(DOING, place, &error);
    let hosts: i64 = query("SELECT count(*) FROM hosts WHERE seen_at >= ?")
        .bind(alive())
        .fetch_scalar(&mut durable.session().await.map_err(failed)?)
        .await
        .map_err(failed)?;
    if hosts > 0 {
        return refused("a host with the right key is running on this store", "stop it first");
    }
    let forgotten = forget(&durable).await.map_err(failed)?;
    durable.close().await;
    Ok(forgotten)
}

async fn forget(pool: &Pool) -> Result<u64, sqlx::Error> {
    let mut transaction = pool.begin(Lock::Settings).await?;
    let plugins: i64 =
        query("SELECT count(DISTINCT plugin) FROM valves").fetch_scalar(&mut transaction).await?;
    let sealed = SEALED.iter().map(|(table, ..)| match *table {
        // The texts and switches of a version remain.
        "versions" => "UPDATE versions SET valves = '{}'".to_owned(),
        table => format!("DELETE FROM {table}"),
    });
    for change in sealed.chain(["vector_spaces", "sealing"].map(|table| format!("DELETE FROM {table}"))) {
        query_text(change).execute(&mut transaction).await?;
    }
    commit_raised(transaction).await.map(|_| plugins.unsigned_abs())
}
