//! The generation of the store.

use crate::sql::{Session, query, query_scalar};

/// The channel on which Postgres notifies of a new generation.
pub(crate) const CHANNEL: &str = "valvehouse_generation";

pub(crate) async fn read(session: &mut Session) -> Result<u64, sqlx::Error> {
    let generation: i64 = query_scalar("SELECT generation FROM store").fetch_one(session).await?;
    Ok(generation.unsigned_abs())
}

/// Raises the generation, at the end of every transaction whose changes running hosts must notice.
pub(crate) async fn raise(session: &mut Session) -> Result<u64, sqlx::Error> {
    let raise = query_scalar::<i64>("UPDATE store SET generation = generation + 1 RETURNING generation");
    let generation = raise.fetch_one(session).await?;
    if session.is_shared() {
        // The notification is sent with the commit. It only wakes hosts, which read the row.
        notify(session, generation).await?;
    }
    Ok(generation.unsigned_abs())
}

/// Wakes the hosts for a change that does not raise the generation.
pub(crate) async fn wake(session: &mut Session) -> Result<(), sqlx::Error> {
    if session.is_shared() { notify(session, 0).await } else { Ok(()) }
}

async fn notify(session: &mut Session, generation: i64) -> Result<(), sqlx::Error> {
    let notify = query("SELECT pg_notify(?, ?)").bind(CHANNEL).bind(generation.to_string());
    notify.fetch_optional(session).await?;
    Ok(())
}
