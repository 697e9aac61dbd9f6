//! Opening a database, with the tables of today.

use super::listener::Listener;
use crate::error::{Place, StoreError, Trouble};
use crate::sql::Pool;
use sqlx::SqlStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use std::str::FromStr as _;
use std::time::Duration;

const DOING: &str = "open the store";
/// The most connections of a host, the one that listens apart.
const CONNECTIONS: u32 = 8;
/// The time that a piece of work waits for a connection: requests behind it are answered within seconds.
const PATIENCE: Duration = Duration::from_secs(3);

/// Number, title and text of each step.
const STEPS: [(i64, &str, &str); 6] = [
    (1, "state", include_str!("../migrations/postgres/0001_state.sql")),
    (2, "background responses", include_str!("../migrations/postgres/0002_background_responses.sql")),
    (3, "response conversations", include_str!("../migrations/postgres/0003_response_conversations.sql")),
    (10, "secrets", include_str!("../migrations/postgres/0010_secrets.sql")),
    (11, "script sets", include_str!("../migrations/postgres/0011_script_sets.sql")),
    (20, "kv changes", include_str!("../migrations/postgres/0020_kv_changes.sql")),
];

/// An open database.
pub(crate) struct Opened {
    pub(crate) place: Place,
    pub(crate) pool: Pool,
    pub(crate) listener: Listener,
}

/// Connects, and makes the tables that are missing; hosts that start together wait for each other.
pub(crate) async fn open(url: &str) -> Result<Opened, StoreError> {
    let place = place(url);
    let options = PgConnectOptions::from_str(url)
        .map_err(|error| StoreError::from_sqlx(DOING, &place, &error))?
        .application_name("valvehouse");
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(PATIENCE)
        .connect_with(options.clone())
        .await
        .map_err(|error| StoreError::from_sqlx(DOING, &place, &error))?;
    let steps = STEPS.into_iter().map(|(number, title, text)| {
        Migration::new(number, title.into(), MigrationType::Simple, SqlStr::from_static(text), false)
    });
    let migrated = Migrator::with_migrations(steps.collect()).run(&pool).await;
    migrated.map_err(|error| StoreError::from_migration(DOING, &place, &error))?;
    Ok(Opened { place, pool: Pool::Postgres(pool), listener: Listener::new(options) })
}

/// Names the database as errors may: without user and password.
fn place(url: &str) -> Place {
    let named = url::Url::parse(url).ok().map(|url| {
        let host = url.host_str().unwrap_or("");
        let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
        format!("postgres://{host}{port}{}", url.path())
    });
    Place::Server(named.unwrap_or_else(|| "postgres".to_owned()))
}

/// The error of a shared store without a key: each host would make one of its own.
pub(crate) fn without_key(place: &Place) -> StoreError {
    let cause = "hosts that share it need the same key, and [store] key is not set";
    let mend = "set it on each host, such as key = \"env:VALVEHOUSE_STORE_KEY\"; `valvehouse key` makes one";
    StoreError { mend: Some(mend.to_owned()), ..StoreError::new(DOING, place, Trouble::Sealed, cause) }
}
