//! Opening a database, with the tables of today.

use super::listener::Listener;
use crate::error::{Place, StoreError, Trouble};
use crate::sql::Pool;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection, SqlStr};
use std::str::FromStr as _;
use std::time::{Duration, Instant};
use tokio::time::timeout;

const DOING: &str = "open the store";
/// The most connections of a host, the one that listens apart.
const CONNECTIONS: u32 = 8;
/// The time that a piece of work waits for a connection: requests behind it are answered within seconds.
const PATIENCE: Duration = Duration::from_secs(3);

/// Number, title and text of each step.
const STEPS: [(i64, &str, &str); 5] = [
    (1, "state", include_str!("../migrations/postgres/0001_state.sql")),
    (2, "background responses", include_str!("../migrations/postgres/0002_background_responses.sql")),
    (3, "response conversations", include_str!("../migrations/postgres/0003_response_conversations.sql")),
    (10, "secrets", include_str!("../migrations/postgres/0010_secrets.sql")),
    (11, "script sets", include_str!("../migrations/postgres/0011_script_sets.sql")),
];

/// The pause between two attempts to connect when a store is opened.
const PAUSE: Duration = Duration::from_millis(100);

/// A database, there or not.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) place: Place,
    options: PgConnectOptions,
    /// The time that it has to answer in.
    pub(crate) patience: Duration,
}

impl Server {
    /// Reads a URL; does not connect.
    pub(crate) fn new(url: &str, patience: Duration) -> Result<Self, StoreError> {
        let place = place(url);
        let options = PgConnectOptions::from_str(url)
            .map_err(|error| StoreError::from_sqlx(DOING, &place, &error))?
            .application_name("valvehouse");
        Ok(Self { place, options, patience })
    }

    /// Connections that are opened when they are needed.
    pub(crate) fn pool(&self) -> Pool {
        let options = PgPoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(PATIENCE);
        Pool::Postgres(options.connect_lazy_with(self.options.clone()))
    }

    /// A connection that hears of changes.
    pub(crate) fn listener(&self) -> Listener {
        Listener::new(self.options.clone())
    }

    /// Asks on a connection of its own whether the database answers.
    pub(crate) async fn probe(&self) -> Result<(), StoreError> {
        let asked = async {
            let mut connection = PgConnection::connect_with(&self.options).await?;
            sqlx::query("SELECT 1").execute(&mut connection).await?;
            connection.close().await
        };
        let answered = timeout(self.patience, asked).await.unwrap_or(Err(sqlx::Error::PoolTimedOut));
        answered.map_err(|error| match error {
            sqlx::Error::PoolTimedOut => {
                let cause = format!("it does not answer within {:?}", self.patience);
                StoreError::new(DOING, &self.place, Trouble::Unreachable, cause)
            }
            error => StoreError::from_sqlx(DOING, &self.place, &error),
        })
    }

    /// Waits until it answers, for as long as it has. A server that starts, or has no connection left, is asked again.
    pub(crate) async fn reach(&self) -> Result<(), StoreError> {
        let since = Instant::now();
        loop {
            match self.probe().await {
                Err(error)
                    if matches!(error.trouble, Trouble::Unreachable | Trouble::Busy)
                        && since.elapsed() + PAUSE < self.patience =>
                {
                    tokio::time::sleep(PAUSE).await;
                }
                reached => return reached,
            }
        }
    }

    /// Makes the tables that are missing; hosts that start together wait for each other.
    pub(crate) async fn migrate(&self, pool: &Pool) -> Result<(), StoreError> {
        let Pool::Postgres(pool) = pool else { return Ok(()) };
        let steps = STEPS.into_iter().map(|(number, title, text)| {
            Migration::new(number, title.into(), MigrationType::Simple, SqlStr::from_static(text), false)
        });
        let migrated = Migrator::with_migrations(steps.collect()).run(pool).await;
        migrated.map_err(|error| StoreError::from_migration(DOING, &self.place, &error))
    }
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
