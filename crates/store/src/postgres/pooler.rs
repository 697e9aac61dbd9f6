//! Poolers that assign each transaction to another session of the server, such as pgbouncer in transaction
//! mode.
//!
//! State of a session is lost behind them: notifications do not arrive, and statements prepared for one
//! client collide with those of another.

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection as _, Error, Row as _};
use std::time::Duration;
use tokio::time::timeout;

/// The time limit of the detection.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of times that sessions are compared.
const ROUNDS: usize = 5;

/// Returns `true` if a pooler in transaction mode is between this client and the server, so that two
/// connections do not have a session each.
pub(super) async fn is_between(options: &PgConnectOptions) -> Result<bool, Error> {
    // Simple queries are used, because they prepare no statement.
    let compared = async {
        let (mut one, mut other) = (options.connect().await?, options.connect().await?);
        let first = session(&mut one).await?;
        for _ in 0..ROUNDS {
            // An open transaction occupies the session that was free last, most likely the one that `one`
            // had.
            sqlx::raw_sql("BEGIN").execute(&mut other).await?;
            let is_shared = session(&mut other).await? == first
                // The pooler may have no session for a second transaction.
                || timeout(TIMEOUT / 2, session(&mut one)).await.unwrap_or(Ok(0))? != first;
            if is_shared {
                return Ok(true);
            }
            sqlx::raw_sql("ROLLBACK").execute(&mut other).await?;
        }
        // The result does not depend on how the connections close.
        let _ = timeout(TIMEOUT / 5, async { (one.close().await, other.close().await) }).await;
        Ok(false)
    };
    let late = || std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer within 5 s");
    timeout(TIMEOUT, compared).await.unwrap_or_else(|_late| Err(Error::Io(late())))
}

/// Returns the id of the server's process behind a connection.
async fn session(connection: &mut PgConnection) -> Result<i32, Error> {
    use sqlx::Executor as _;
    // Simple queries return values as text only.
    let row = connection.fetch_one(sqlx::raw_sql("SELECT pg_backend_pid()")).await?;
    row.try_get_unchecked(0)
}
