//! A host with all its parts: built from settings, opened and closed in order.

mod builder;
mod configuration;
mod detached_task;
mod error;
mod lifecycle;
mod offline;
mod providers;
mod split_turn;
mod turn;

pub use builder::HostBuilder;
pub use configuration::{folder_of, folders_of, settings_of_kind};
pub use detached_task::{DetachedTasks, QueueSlot, StopReason, Ticket};
pub use error::OpenError;
pub use lifecycle::App;
pub use offline::{
    check, dry_run, glance, kind_of, look, look_to_change, settings_of, stored_grants, stored_standing,
    writer,
};
pub use providers::ProviderKeys;
pub use split_turn::{AnswerEdit, PartedTurns, SplitTurn, TurnPart};
pub use turn::setup_of;
