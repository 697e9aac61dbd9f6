//! Opening a database, with the tables of today.

use super::listener::Listener;
use super::{pooler, schema};
use crate::error::{Place, StoreError, Trouble};
use crate::sql::{Pool, ServerPool};
use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;
use std::str::FromStr as _;
use std::sync::Arc;
use valvehouse_config::{SchemaMigration, Secret, StoreSettings};

const DOING: &str = "open the store";

/// An open database.
pub(crate) struct Opened {
    pub(crate) place: Place,
    pub(crate) pool: Pool,
    /// `None` where notifications do not arrive.
    pub(crate) listener: Option<Listener>,
}

/// Connects, and makes the tables that are missing, where settings leave that to hosts; hosts that start together wait for
/// each other.
pub(crate) async fn open(url: &Secret, settings: &StoreSettings) -> Result<Opened, StoreError> {
    let place = place(url.expose());
    let error = |error: sqlx::Error| StoreError::from_sqlx(DOING, &place, &error);
    let options = options(url, &place)?;
    let is_pooled = pooler::is_between(&options).await.map_err(error)?;
    let options = if is_pooled { options.statement_cache_capacity(0) } else { options };
    let mut connection = options.connect().await.map_err(error)?;
    let missing = schema::missing(&mut connection, &place).await?;
    drop(connection);
    if !missing.is_empty() {
        if settings.migrate == SchemaMigration::Wait {
            return Err(schema::waits(&place, &missing));
        }
        migrate(url, settings).await?;
    }
    let pool = ServerPool::connect(options.clone(), is_pooled).await.map_err(error)?;
    let listener = match &settings.listen_url {
        Some(url) => Some(Listener::new(self::options(url, &place)?)),
        None if is_pooled => None,
        None => Some(Listener::new(options)),
    };
    Ok(Opened { place, pool: Pool::Postgres(Arc::new(pool)), listener })
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
    let cause = "hosts that share it need the same key, and [store] key is not set";
    let mend = "set it on each host, such as key = \"env:VALVEHOUSE_STORE_KEY\"; `valvehouse key` makes one";
    StoreError { mend: Some(mend.to_owned()), ..StoreError::new(DOING, place, Trouble::Sealed, cause) }
}
