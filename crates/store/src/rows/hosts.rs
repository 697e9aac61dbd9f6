//! The rows of hosts.

use super::json::encode;
use crate::clock::now;
use crate::record::{HOST_SILENCE, HostSeen};
use crate::sql::{Session, query};
use valvehouse_json::Json;

pub(crate) async fn announce(
    session: &mut Session,
    host_id: &str,
    pid: u32,
    applied_generation: u64,
    tells: Option<&Json>,
) -> Result<(), sqlx::Error> {
    let tells = tells.map(encode).transpose()?;
    let applied = i64::try_from(applied_generation).unwrap_or(i64::MAX);
    // Killed hosts do not deregister; their rows are deleted after this time.
    query("DELETE FROM hosts WHERE seen_at < ?").bind(now() - 12 * silence()).execute(session).await?;
    query(
        "INSERT INTO hosts (host_id, pid, applied_generation, seen_at, tells)
         VALUES (?1, ?2, ?3, ?4, COALESCE(?5, '{}'))
         ON CONFLICT (host_id) DO UPDATE SET
         pid = ?2, applied_generation = ?3, seen_at = ?4, tells = COALESCE(?5, hosts.tells)",
    )
    .bind(host_id)
    .bind(pid)
    .bind(applied)
    .bind(now())
    .bind(tells)
    .execute(session)
    .await?;
    Ok(())
}

pub(crate) async fn all(session: &mut Session) -> Result<Vec<HostSeen>, sqlx::Error> {
    let rows = query(
        "SELECT host_id, pid, applied_generation, tells, seen_at FROM hosts WHERE seen_at >= ? ORDER BY host_id",
    )
    .bind(now() - silence())
    .fetch_all(session)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(HostSeen {
                host_id: row.try_get("host_id")?,
                pid: u32::try_from(row.try_get::<i64>("pid")?).unwrap_or_default(),
                applied_generation: row.try_get::<i64>("applied_generation")?.unsigned_abs(),
                // A host of another version may report a different format, which is ignored.
                tells: Json::parse(row.try_get::<&str>("tells")?.as_bytes()).ok().into(),
                seen_at: row.try_get("seen_at")?,
            })
        })
        .collect()
}

pub(crate) async fn leave(session: &mut Session, host_id: &str) -> Result<(), sqlx::Error> {
    query("DELETE FROM hosts WHERE host_id = ?").bind(host_id).execute(session).await?;
    Ok(())
}

fn silence() -> i64 {
    HOST_SILENCE.as_millis() as i64
}
