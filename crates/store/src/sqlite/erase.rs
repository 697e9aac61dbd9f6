//! Overwriting of deleted rows, which SQLite leaves in free pages of the file and in the write-ahead log.

use super::open::SECURE_DELETE;
use crate::sql::{Pool, Session, query, query_text};
use std::time::{Duration, Instant};

/// The number of pages that are overwritten in one transaction, during which other writers wait.
const CHUNK: i64 = 256;
/// The time for which other processes may read an older state of the file.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The time between two attempts to empty the log.
const PAUSE: Duration = Duration::from_millis(100);

/// Overwrites the free pages of a file with zeros, and empties its write-ahead log. A server removes deleted rows
/// with its own `VACUUM`.
///
/// # Errors
/// Returns an error if the file cannot be written, or if another process keeps reading an old state of it. Calling
/// it again erases the rest.
pub(crate) async fn erase(pool: &Pool) -> Result<(), sqlx::Error> {
    match pool {
        Pool::Sqlite(_) => {}
        #[cfg(feature = "postgres")]
        Pool::Postgres(_) => return Ok(()),
    }
    let mut session = pool.session().await?;
    query("PRAGMA secure_delete = ON").execute(&mut session).await?;
    let overwritten = overwrite(&mut session).await;
    query_text(format!("PRAGMA secure_delete = {SECURE_DELETE}")).execute(&mut session).await?;
    overwritten?;
    empty_log(&mut session).await
}

/// Fills all free pages with rows and deletes the rows. A page is overwritten when it becomes free.
async fn overwrite(session: &mut Session) -> Result<(), sqlx::Error> {
    let page: i64 = query("PRAGMA page_size").fetch_scalar(session).await?;
    let mut free: i64 = query("PRAGMA freelist_count").fetch_scalar(session).await?;
    query("CREATE TABLE IF NOT EXISTS erased (content BLOB NOT NULL)").execute(session).await?;
    while free > 0 {
        let pages = free.min(CHUNK);
        query("INSERT INTO erased (content) VALUES (zeroblob(?))")
            .bind(pages.saturating_mul(page))
            .execute(session)
            .await?;
        free -= pages;
    }
    while query("DELETE FROM erased WHERE rowid = (SELECT min(rowid) FROM erased)").execute(session).await?
        > 0
    {}
    query("DROP TABLE erased").execute(session).await?;
    Ok(())
}

/// Writes the log to the file and empties it as soon as no reader uses an older state.
async fn empty_log(session: &mut Session) -> Result<(), sqlx::Error> {
    let deadline = Instant::now() + TIMEOUT;
    while query("PRAGMA wal_checkpoint(TRUNCATE)").fetch_scalar::<i64>(session).await? != 0 {
        if Instant::now() > deadline {
            let why = "the records are deleted, but their copies remain in the write-ahead log of the file, because \
                       another process reads an older state of it";
            return Err(sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::ResourceBusy, why)));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
