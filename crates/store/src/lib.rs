//! The store: state that outlives the process, such as valves, switches, grants, last good scripts, their
//! history, the kv maps of scripts, and conversations.
//!
//! All of it is one struct, [`Store`], whose methods are grouped by theme. Every change that running hosts must notice raises the *generation* of the
//! store in the same transaction. Hosts poll the generation, and announce the one that they have applied.

mod backup;
mod check;
mod clock;
mod conversation;
mod copy;
mod error;
mod export;
mod history;
mod kv;
mod open;
#[cfg(feature = "postgres")]
mod postgres;
mod questions;
mod record;
mod responses;
mod rows;
mod scripts;
pub mod seal;
mod sealing;
mod settings;
mod snapshot;
mod sql;
mod sqlite;
mod store;
mod tables;
mod temporary;
mod traces;
mod usage;
mod vectors;

pub use backup::{Backup, Restoration, backup, restore};
pub use check::{StoreCheck, check};
pub use clock::now;
pub use conversation::{
    Checkpoint, Conversation, First, NewRun, OWNER, Prune, RUN_SILENCE, Run, RunStart, RunStatus, RunStep,
};
pub use copy::{StoreCopy, copy};
pub use error::{Outage, SnapshotInfo, StoreError, StoreErrorKind, StoreFuture, StoreResult};
pub use history::{
    Action, BY_FILE, Edit, FileEdit, MAX_VERSIONS, SeenFile, SettingsEdit, Source, Span, Version, hash,
};
pub use kv::{Kv, KvError, KvMap, LARGEST_VALUE, MAX_KEY_BYTES, MAX_KEYS, MAX_TRIES, SeenValue, Window};
pub use open::{forget_valves, migrate, missing_steps, open, open_file, open_or_start_without, open_to_read};
pub use questions::{AnswerState, SentAnswer, StoredQuestion};
pub use record::{
    Aside, Fate, GuardChange, HOST_SILENCE, HostSeen, KvChange, KvNews, KvRow, LastGood, StoredKey,
    StoredValves, Switch, UserRecords, scope_of_chat,
};
pub use responses::{
    MAX_CONVERSATION_SIZE, RECENT_RESPONSES, RUNNER_SILENCE, ResponseConversation, ResponseItem,
    StoredResponse,
};
pub use scripts::{
    MAX_SCRIPT_SET_SIZE, MAX_SCRIPT_SETS, ManifestError, NewScriptSet, ScriptFile, ScriptSet, SetManifest,
};
pub use settings::StoredSettings;
pub use store::Store;
pub use traces::{StoredTrace, TraceCursor, TraceCursorError, TraceFilter, stored_name};
pub use usage::{COST_UNITS, COUNT_NAMES, Counts, Dimension, LATENCIES_MS, UsageCount, UsageQuery, UsageRow};
pub use vectors::{
    FoundVector, MAX_SPACE_VECTORS, MAX_VECTOR_DATA, MAX_VECTOR_DIMENSIONS, MAX_VECTOR_ID, MemoryVectors,
    NewVector, StoredVector, VectorChange, VectorIndex, VectorOwner, VectorSelection, VectorSpace, Vectors,
};
