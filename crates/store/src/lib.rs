//! The store: state that outlives the process, such as valves, switches, grants, last good scripts, their
//! history, the kv maps of scripts, and conversations.
//!
//! The interface is [`Store`]. Every change that running hosts must notice raises the *generation* of the
//! store in the same transaction. Hosts poll the generation, and announce the one that they have applied.

mod clock;
mod conversation;
mod copy;
mod error;
mod export;
mod history;
mod kv;
mod open;
mod outage;
#[cfg(feature = "postgres")]
mod postgres;
mod questions;
mod record;
mod responses;
mod rows;
mod scripts;
pub mod seal;
mod sealing;
mod sessions;
mod settings;
mod snapshot;
mod sql;
mod sql_store;
mod sqlite;
mod store;
mod temporary;
mod user;
mod vectors;

pub use clock::now;
pub use conversation::{
    Checkpoint, Conversation, Conversations, First, NewRun, OWNER, Prune, RUN_SILENCE, Run, RunStart,
    RunStatus, RunStep,
};
pub use copy::{StoreCopy, copy};
pub use error::{StoreError, StoreErrorKind, StoreFuture};
pub use history::{
    Action, BY_FILE, Edit, FileEdit, History, MAX_VERSIONS, SeenFile, SettingsEdit, Source, Span, Version,
    hash,
};
pub use kv::{Kv, KvError, KvMap, LARGEST_VALUE, MAX_KEY_BYTES, MAX_KEYS, MAX_TRIES, SeenValue, Window};
pub use open::{forget_valves, migrate, missing_steps, open, open_file, open_or_start_without, open_to_read};
pub use outage::{Outage, SnapshotInfo};
pub use questions::{AnswerState, QuestionExchange, SentAnswer, StoredQuestion};
pub use record::{
    Aside, Fate, GuardChange, HOST_SILENCE, HostSeen, KvChange, KvNews, KvRow, LastGood, StoredValves,
    Switch, UserChat, UserRecords, scope_of_chat,
};
pub use responses::{
    MAX_CONVERSATION_SIZE, RECENT_RESPONSES, RUNNER_SILENCE, ResponseConversation, ResponseItem, Responses,
    StoredResponse,
};
pub use scripts::{
    MAX_SCRIPT_SET_SIZE, MAX_SCRIPT_SETS, ManifestError, NewScriptSet, ScriptFile, ScriptSet, ScriptSets,
    SetManifest,
};
pub use sessions::ClientSessions;
pub use settings::StoredSettings;
pub use sql_store::SqlStore;
pub use store::Store;
pub use user::forget_user;
pub use vectors::{
    FoundVector, MAX_SPACE_VECTORS, MAX_VECTOR_DATA, MAX_VECTOR_DIMENSIONS, MAX_VECTOR_ID, MemoryVectors,
    NewVector, StoredVector, VectorChange, VectorIndex, VectorOwner, VectorSelection, VectorSpace, Vectors,
};
