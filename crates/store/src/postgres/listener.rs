//! A separate connection on which the database notifies of new generations.
//!
//! A lost connection cannot be told from a quiet one, so it is probed when it is quiet. Hosts also poll the
//! generation.

use crate::rows::generation::CHANNEL;
use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{PgPool, postgres::PgConnectOptions};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// The time without notifications after which the connection is probed.
const QUIET: Duration = Duration::from_secs(2);
/// The time limit of a probe.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Returns a row while the session listens.
const LISTENS: &str = "SELECT 1 FROM pg_listening_channels()";
/// The delay before a lost connection is opened again.
const PAUSE: Duration = Duration::from_millis(500);

/// Listens for notifications until it is dropped.
pub(crate) struct Listener {
    news: Arc<Notify>,
    task: AbortHandle,
}

impl Listener {
    pub(super) fn new(options: PgConnectOptions) -> Self {
        let news = Arc::new(Notify::new());
        let task = tokio::spawn(listen(options, news.clone())).abort_handle();
        Self { news, task }
    }

    /// Waits for a notification; one that arrived since the last call counts.
    pub(crate) async fn changed(&self) {
        self.news.notified().await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(options: PgConnectOptions, news: Arc<Notify>) {
    let mut was_connected = true;
    loop {
        // Each attempt uses a new pool, because a dead connection keeps its place in the old one.
        let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(TIMEOUT);
        match follow(&pool.connect_lazy_with(options.clone()), &mut was_connected, &news).await {
            Ok(()) => {}
            Err(error) if was_connected => {
                tracing::warn!("cannot listen for changes of the store, polling it instead: {error}");
            }
            Err(error) => tracing::debug!("still cannot listen for changes of the store: {error}"),
        }
        was_connected = false;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Forwards notifications until the connection is lost.
async fn follow(pool: &PgPool, was_connected: &mut bool, news: &Notify) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.eager_reconnect(false);
    listener.listen(CHANNEL).await?;
    if !std::mem::replace(was_connected, true) {
        tracing::info!("listening for changes of the store again");
    }
    // Notifications may have been lost before the connection was opened.
    news.notify_one();
    loop {
        match timeout(QUIET, listener.try_recv()).await {
            Ok(Ok(Some(_))) => news.notify_one(),
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => return Err(error),
            Err(_quiet) => {
                let answer = timeout(TIMEOUT, sqlx::raw_sql(LISTENS).fetch_optional(&mut listener)).await;
                let late = |_| sqlx::Error::Io(std::io::Error::new(ErrorKind::TimedOut, "no answer"));
                if answer.map_err(late)??.is_none() {
                    // A pooler between the two assigned another session to the connection.
                    return Err(sqlx::Error::Protocol("the session is closed".to_owned()));
                }
            }
        }
    }
}
