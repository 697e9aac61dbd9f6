//! The number of the latest change.

use crate::sql::{Session, query_scalar};

pub(crate) async fn read(session: &mut Session) -> Result<u64, sqlx::Error> {
    let generation: i64 = query_scalar("SELECT generation FROM store").fetch_one(session).await?;
    Ok(generation.unsigned_abs())
}

/// Raises it; every transaction that changes what a running host must notice ends with this.
pub(crate) async fn raise(session: &mut Session) -> Result<u64, sqlx::Error> {
    let raise = query_scalar::<i64>("UPDATE store SET generation = generation + 1 RETURNING generation");
    raise.fetch_one(session).await.map(i64::unsigned_abs)
}
