//! Opening of a Postgres database, with migrations.

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
use valvehouse_grants::{SchemaMigration, Secret, StoreSettings};

const DOING: &str = "open the store";

/// The delay between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(100);

/// A Postgres database, which may be unreachable.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) place: Place,
    options: PgConnectOptions,
    /// The options of the connection that listens, if they differ.
    listen: Option<PgConnectOptions>,
    settings: StoreSettings,
    /// The time limit for a response.
    pub(crate) connect_timeout: Duration,
}

impl Server {
    /// Reads the URLs without connecting.
    pub(crate) fn new(url: &Secret, settings: &StoreSettings) -> Result<Self, StoreError> {
        let place = place(url.expose());
        let listen = settings.listen_url.as_ref().map(|url| self::options(url, &place)).transpose()?;
        let connect_timeout = Duration::from_millis(settings.connect_ms);
        Ok(Self {
            options: options(url, &place)?,
            place,
            listen,
            settings: settings.clone(),
            connect_timeout,
        })
    }

    /// Returns a pool that opens connections on demand.
    pub(crate) fn pool(&self) -> Pool {
        Pool::Postgres(Arc::new(ServerPool::lazy(self.options.clone())))
    }

    /// Returns a listener for changes; `None` if a pooler does not forward notifications.
    pub(crate) fn listener(&self, pool: &Pool) -> Option<Listener> {
        match (&self.listen, pool) {
            (Some(past), _) => Some(Listener::new(past.clone())),
            (None, Pool::Postgres(pool)) if pool.is_pooled() => None,
            _ => Some(Listener::new(self.options.clone())),
        }
    }

    /// Checks on a separate connection that the database responds.
    pub(crate) async fn probe(&self) -> Result<(), StoreError> {
        let probe = async {
            let mut connection = PgConnection::connect_with(&self.options).await?;
            sqlx::raw_sql("SELECT 1").execute(&mut connection).await?;
            connection.close().await
        };
        let answered = timeout(self.connect_timeout, probe).await.unwrap_or(Err(sqlx::Error::PoolTimedOut));
        answered.map_err(|error| match error {
            sqlx::Error::PoolTimedOut => {
                let cause = format!("it does not answer within {:?}", self.connect_timeout);
                StoreError::new(DOING, &self.place, StoreErrorKind::Unreachable, cause)
            }
            error => StoreError::from_sqlx(DOING, &self.place, &error),
        })
    }

    /// Waits until the database responds, within its time limit. A server that is starting or has no free
    /// connection is tried again.
    pub(crate) async fn reach(&self) -> Result<(), StoreError> {
        let since = Instant::now();
        loop {
            match self.probe().await {
                Err(error)
                    if matches!(error.kind, StoreErrorKind::Unreachable | StoreErrorKind::Busy)
                        && since.elapsed() + PAUSE < self.connect_timeout =>
                {
                    tokio::time::sleep(PAUSE).await;
                }
                reached => return reached,
            }
        }
    }

    /// Detects a pooler, and applies missing migrations if the settings leave that to hosts; hosts that start
    /// at the same time wait for each other.
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

/// Applies missing migrations. Returns their titles.
pub(crate) async fn migrate(url: &Secret, settings: &StoreSettings) -> Result<Vec<&'static str>, StoreError> {
    let url = settings.migrate_url.as_ref().unwrap_or(url);
    let place = place(url.expose());
    schema::migrate(&options(url, &place)?, &place).await
}

/// Returns the titles of the missing migrations.
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
    // No table has floating-point columns, and poolers reject this parameter.
    Ok(options.application_name("valvehouse").extra_float_digits(None))
}

/// Returns the location of the database for messages, without user and password.
fn place(url: &str) -> Place {
    let named = url::Url::parse(url).ok().map(|url| {
        let host = url.host_str().unwrap_or("");
        let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
        format!("postgres://{host}{port}{}", url.path())
    });
    Place::Server(named.unwrap_or_else(|| "postgres".to_owned()))
}

/// Returns the error for a shared store without a key: each host would create its own.
pub(crate) fn without_key(place: &Place) -> StoreError {
    let cause = "hosts that share it need the same key, but [store] key is not set";
    let help =
        "set it on each host, such as key = \"env:VALVEHOUSE_STORE_KEY\"; create one with `valvehouse key`";
    StoreError { help: Some(help.to_owned()), ..StoreError::new(DOING, place, StoreErrorKind::Sealed, cause) }
}
