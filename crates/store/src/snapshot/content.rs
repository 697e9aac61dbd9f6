//! The data that a host reads from a store when it starts, and its form in a snapshot.

use crate::history::Span;
#[cfg(feature = "postgres")]
use crate::record::KvRow;
use crate::scripts::ScriptFile;
use crate::settings::StoredSettings;
use serde::{Deserialize, Serialize};

/// The data that a host reads when it starts, from one transaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Content {
    #[serde(flatten)]
    pub(crate) settings: StoredSettings,
    /// The files of the latest set of scripts.
    pub(crate) files: Vec<ScriptFile>,
    /// The guards whose last good versions are missing or not part of their histories.
    pub(crate) doubted: Vec<(String, String, String)>,
    pub(crate) spans: Vec<Span>,
    #[cfg(feature = "postgres")]
    pub(crate) kv: Vec<KvRow>,
}
