//! Opening a database, with the tables of today.

use super::listener::Listener;
use super::{pooler, schema};
use crate::error::{Place, StoreError, StoreErrorKind};
use crate::sql::{Pool, ServerPool};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection as _};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use valvehouse_config::{SchemaMigration, Secret, StoreSettings};

const DOING: &str = "open the store";

/// The pause between two attempts to connect when a store is opened.
const PAUSE: Duration = Duration::from_millis(100);

/// A database, there or not.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) place: Place,
    options: PgConnectOptions,
    /// The way of the connection that listens, where it is another one.
    listen: Option<PgConnectOptions>,
    settings: StoreSettings,
    /// The time that it has to answer in.
    pub(crate) patience: Duration,
}

impl Server {
    /// Reads the URLs; does not connect.
    pub(crate) fn new(url: &Secret, settings: &StoreSettings) -> Result<Self, StoreError> {
        let place = place(url.expose());
        let listen = settings.listen_url.as_ref().map(|url| self::options(url, &place)).transpose()?;
        let patience = Duration::from_millis(settings.connect_ms);
        Ok(Self { options: options(url, &place)?, place, listen, settings: settings.clone(), patience })
    }

    /// Connections that are opened when they are needed.
    pub(crate) fn pool(&self) -> Pool {
        Pool::Postgres(Arc::new(ServerPool::lazy(self.options.clone())))
    }

    /// A connection that is notified of changes; `None` if notifications do not arrive.
    pub(crate) fn listener(&self, pool: &Pool) -> Option<Listener> {
        match (&self.listen, pool) {
            (Some(past), _) => Some(Listener::new(past.clone())),
            (None, Pool::Postgres(pool)) if pool.is_pooled() => None,
            _ => Some(Listener::new(self.options.clone())),
        }
    }

    /// Checks on a connection of its own that the database answers.
    pub(crate) async fn probe(&self) -> Result<(), StoreError> {
        let asked = async {
            let mut connection = PgConnection::connect_with(&self.options).await?;
            sqlx::raw_sql("SELECT 1").execute(&mut connection).await?;
            connection.close().await
        };
        let answered = timeout(self.patience, asked).await.unwrap_or(Err(sqlx::Error::PoolTimedOut));
        answered.map_err(|error| match error {
            sqlx::Error::PoolTimedOut => {
                let cause = format!("it does not answer within {:?}", self.patience);
                StoreError::new(DOING, &self.place, StoreErrorKind::Unreachable, cause)
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
                    if matches!(error.kind, StoreErrorKind::Unreachable | StoreErrorKind::Busy)
                        && since.elapsed() + PAUSE < self.patience =>
                {
                    tokio::time::sleep(PAUSE).await;
                }
                reached => return reached,
            }
        }
    }

    /// Recognizes a pooler, and makes the tables that are missing, where settings leave that to hosts; hosts that start
    /// together wait for each other.
    pub(crate) async fn prepare(&self, pool: &Pool) -> Result<(), StoreError> {
        let Pool::Postgres(pool) = pool else { return Ok(()) };
        let error = |error: sqlx::Error| StoreError::from_sqlx(DOING, &self.place, &error);
        pool.set_pooled(pooler::is_between(&self.options).await.map_err(error)?);
        let mut connection = self.options.connect().await.map_err(error)?;
        let missing = schema::missing(&mut connection, &self.place).await?;
        drop(connection);
        if missing.is_empty() {
            return Ok(());
        }
        if self.settings.migrate == SchemaMigration::Wait {
            return Err(schema::waits(&self.place, &missing));
        }
        match &self.settings.migrate_url {
            Some(url) => schema::migrate(&options(url, &self.place)?, &place(url.expose())).await?,
            None => schema::migrate(&self.options, &self.place).await?,
        };
        Ok(())
    }
}

/// Makes the tables that are missing. Returns the titles of the steps that were taken.
pub(crate) async fn migrate(url: &Secret, settings: &StoreSettings) -> Result<Vec<&'static str>, StoreError> {
    let url = settings.migrate_url.as_ref().unwrap_or(url);
    let place = place(url.expose());
    schema::migrate(&options(url, &place)?, &place).await
}

/// Returns the titles of the steps that are missing.
pub(crate) async fn missing_steps(
    url: &Secret,
    settings: &StoreSettings,
) -> Result<Vec<&'static str>, StoreError> {
    let url = settings.migrate_url.as_ref().unwrap_or(url);
    let place = place(url.expose());
    let error = |error: sqlx::Error| StoreError::from_sqlx(DOING, &place, &error);
    let mut connection = options(url, &place)?.connect().await.map_err(error)?;
    let missing = schema::missing(&mut connection, &place).await?;
    Ok(missing.into_iter().map(|(_, title)| title).collect())
}

fn options(url: &Secret, place: &Place) -> Result<PgConnectOptions, StoreError> {
    let options = PgConnectOptions::from_str(url.expose())
        .map_err(|error| StoreError::from_sqlx(DOING, place, &error))?;
    // No table holds a floating-point number, and poolers refuse this parameter.
    Ok(options.application_name("valvehouse").extra_float_digits(None))
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
    let cause = "hosts that share it need the same key, but [store] key is not set";
    let help =
        "set it on each host, such as key = \"env:VALVEHOUSE_STORE_KEY\"; create one with `valvehouse key`";
    StoreError { help: Some(help.to_owned()), ..StoreError::new(DOING, place, StoreErrorKind::Sealed, cause) }
}
