//! Outages of the store, as hosts report them.

use crate::error::StoreError;

/// An outage of the store: its database does not respond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    /// The reason.
    pub error: StoreError,
    /// The start of the outage, in milliseconds since 1970.
    pub since: i64,
    /// The local snapshot of this host, if there is one.
    pub snapshot: Option<SnapshotInfo>,
}

/// A snapshot of a store on a host's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The generation of the snapshot.
    pub generation: u64,
    /// The time at which it was written, in milliseconds since 1970.
    pub at: i64,
}
