//! A store whose database is away, as its host shows it.

use crate::error::StoreError;

/// A store whose database does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    /// The reason.
    pub error: StoreError,
    /// The start of the outage, in milliseconds since 1970.
    pub since: i64,
    /// The snapshot on the disk of this host, if there is one.
    pub snapshot: Option<SnapshotInfo>,
}

/// A snapshot of a store on the disk of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The generation of the store that it holds.
    pub generation: u64,
    /// The time when it was written, in milliseconds since 1970.
    pub at: i64,
}
