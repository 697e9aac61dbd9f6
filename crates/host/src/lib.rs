//! The host: the current snapshot that turns use, and the one writer that replaces it.

#![warn(clippy::missing_errors_doc)]

pub mod access;
pub mod admin;
pub mod app;
pub mod builtin;
mod actions;
mod background;
mod catalog;
mod chats;
mod coverage;
mod decision;
mod guard_coverage;
mod embeddings;
mod explanation;
mod host;
mod temporary_files;
pub mod traces;
pub mod usage;
mod model_list;
mod models;
mod named_models;
#[cfg(feature = "otlp")]
pub mod otlp;
mod plan;
mod plugin;
mod questions;
mod refused_models;
mod rejection;
mod reload;
mod report;
mod routes;
mod sandbox;
mod schedule;
mod snapshot;
mod spelled_json;
mod status;
mod subscriptions;
mod writer;

pub use actions::ActionPart;
pub use background::{AfterAnswers, WorkCounts};
pub use decision::FilterDecision;
pub use explanation::{HostPart, ListedTool, Part};
pub use guard_coverage::{GuardCoverageCell, GuardCoverageTable, GuardRuns};
pub use host::Host;
pub use model_list::ModelList;
pub use plan::{ModelPlan, MountedOffers, Offers, Passes, Plan, PluginPlan, ProviderPlan};
pub use plugin::{Plugin, State, chats_only, chats_only_in_words};
pub use questions::{HostQuestion, SharedQuestions};
pub use refused_models::RefusedModels;
pub use reload::removed_plugin::{Owner, adoptable, owner};
pub use reload::scripts::{RefusedGeneration, SignatureError, check_signature};
pub use report::{Change, Looks, Report};
pub use sandbox::{StepReplay, replay_steps, replay_turn};
pub use schedule::{Schedule, ScheduleCounts};
pub use snapshot::{Ready, Snapshot};
pub use spelled_json::SpelledJson;
pub use status::{NodeStatus, PluginStanding, SharedStatus};
pub use subscriptions::{ResourceSubscription, ResourceSubscriptions, ResourceUpdate};
pub use writer::ReloadLock;

/// Applies the memory limits of the binary to the unit tests.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: valvehouse_memory::CountingAllocator = valvehouse_memory::CountingAllocator::new();
