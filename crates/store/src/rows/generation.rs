//! The generation of the store.

use crate::sql::{Session, query, values};

/// The channel on which Postgres notifies of a new generation.
pub(crate) const CHANNEL: &str = "valvehouse_generation";

pub(crate) async fn read(session: &mut Session) -> sqlx::Result<u64> {
    query("SELECT generation FROM store").fetch_one(session).await?.count("generation")
}

/// Raises the generation in a transaction whose changes running hosts must notice, and commits it. Returns the
/// new generation.
pub(crate) async fn commit_raised(mut transaction: Session) -> sqlx::Result<u64> {
    let generation = raise(&mut transaction).await?;
    transaction.commit_with(generation).await
}

/// Raises the generation in a transaction whose changes running hosts must notice.
pub(crate) async fn raise(session: &mut Session) -> sqlx::Result<u64> {
    let raise = query("UPDATE store SET generation = generation + 1 RETURNING generation");
    let generation = raise.fetch_scalar::<i64>(session).await?;
    if session.is_shared() {
        // The notification is sent with the commit. It only wakes hosts, which read the row.
        notify(session, generation).await?;
    }
    Ok(generation.unsigned_abs())
}

/// Wakes the hosts for a change that does not raise the generation.
pub(crate) async fn wake(session: &mut Session) -> sqlx::Result<()> {
    if session.is_shared() { notify(session, 0).await } else { Ok(()) }
}

async fn notify(session: &mut Session, generation: i64) -> sqlx::Result<()> {
    let notify = query("SELECT pg_notify(?, ?)").bind_all(values![CHANNEL, generation.to_string()]);
    notify.fetch_optional(session).await?;
    Ok(())
}
