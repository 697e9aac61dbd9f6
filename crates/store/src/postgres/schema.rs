//! The schema, created and migrated by the first host that needs it or by `valvehouse migrate`.

use crate::error::{Place, StoreError, StoreErrorKind};
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, Row as _, SqlStr};
use std::collections::BTreeMap;

const DOING: &str = "migrate the store";

/// The number, title and SQL of each file in `crates/store/src/migrations/postgres`. An older version of the host can work
/// with a newer schema, unless the title of a migration begins with [`BREAKING`]: migrations add tables and columns, and
/// replaced ones are dropped two versions later.
const STEPS: &[(i64, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/postgres_migrations.rs"));
/// The prefix of the titles of migrations that older versions cannot work with.
const BREAKING: &str = "breaking";

/// Returns the migrations that a database lacks.
///
/// # Errors
/// Returns an error if it cannot be read, or if a newer version applied a migration that this version cannot
/// work with.
pub(super) async fn missing(
    connection: &mut PgConnection,
    place: &Place,
) -> Result<Vec<(i64, &'static str)>, StoreError> {
    let error = |error: sqlx::Error| StoreError::from_sqlx(DOING, place, &error);
    let is_new: Option<String> = {
        let exists = sqlx::raw_sql("SELECT to_regclass('_sqlx_migrations')::text");
        connection.fetch_one(exists).await.map_err(error)?.try_get_unchecked(0).map_err(error)?
    };
    let mut taken = BTreeMap::new();
    if is_new.is_some() {
        let read = sqlx::raw_sql("SELECT version, description FROM _sqlx_migrations WHERE success");
        for row in connection.fetch_all(read).await.map_err(error)? {
            let version: String = row.try_get_unchecked::<&str, _>(0).map_err(error)?.to_owned();
            let title: String = row.try_get_unchecked(1).map_err(error)?;
            taken.insert(
                version.parse::<i64>().map_err(|wrong| error(sqlx::Error::Decode(wrong.into())))?,
                title,
            );
        }
    }
    let is_ours = |version: &i64| STEPS.iter().any(|(number, ..)| number == version);
    if let Some((version, _)) =
        taken.iter().find(|(version, title)| !is_ours(version) && title.starts_with(BREAKING))
    {
        return Err(StoreError::from_migration(DOING, place, &MigrateError::VersionMissing(*version)));
    }
    let missing = STEPS.iter().filter(|(number, ..)| !taken.contains_key(number));
    Ok(missing.map(|(number, title, _)| (*number, *title)).collect())
}

/// Applies the migrations that a database lacks, all of them or none. Returns their titles.
///
/// # Errors
/// Returns an error if the role may not change the schema, or if a newer version applied a migration that
/// this version cannot work with.
pub(super) async fn migrate(
    options: &PgConnectOptions,
    place: &Place,
) -> Result<Vec<&'static str>, StoreError> {
    let error = |error: sqlx::Error| StoreError::from_sqlx(DOING, place, &error);
    let mut connection = options.connect().await.map_err(error)?;
    let mut transaction = connection.begin().await.map_err(error)?;
    // A lock of the transaction, because one of the session would remain at a pooler.
    transaction
        .execute(sqlx::raw_sql("SELECT pg_advisory_xact_lock(hashtextextended('valvehouse schema', 0))"))
        .await
        .map_err(error)?;
    let missing = missing(&mut transaction, place).await?;
    if !missing.is_empty() {
        let steps = STEPS.iter().map(|(number, title, text)| {
            Migration::new(*number, (*title).into(), MigrationType::Simple, SqlStr::from_static(text), false)
        });
        let mut migrator = Migrator::with_migrations(steps.collect());
        migrator.set_locking(false).set_ignore_missing(true);
        let done = migrator.run_direct(None, &mut *transaction, false).await;
        done.map_err(|error| StoreError::from_migration(DOING, place, &error))?;
        transaction.commit().await.map_err(error)?;
    }
    Ok(missing.into_iter().map(|(_, title)| title).collect())
}

/// Returns the error of a database that lacks migrations if hosts may not apply them.
pub(super) fn waits(place: &Place, missing: &[(i64, &str)]) -> StoreError {
    let titles: Vec<&str> = missing.iter().map(|(_, title)| *title).collect();
    let cause = format!("its tables are of an earlier version: {} missing", titles.join(", "));
    StoreError::new("open the store", place, StoreErrorKind::OlderSchema, cause)
}
