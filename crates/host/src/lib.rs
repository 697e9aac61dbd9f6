//! The host: the one snapshot that turns take, and the one writer that puts the next in its place.

pub mod access;
pub mod admin;
pub mod app;
pub mod builtin;
mod host;
mod kept;
mod leftovers;
mod models;
#[cfg(feature = "otlp")]
pub mod otlp;
mod part;
mod plan;
mod plugin;
mod rehearsed;
mod reload;
mod report;
mod served;
mod shelf;
mod snapshot;
mod standing;
mod writer;

pub use host::Host;
pub use part::{HostPart, Part};
pub use plan::{ModelPlan, Passes, Plan, PluginPlan, ProviderPlan};
pub use plugin::{Plugin, State};
pub use reload::aside::{Owner, adoptable, owner};
pub use report::{Change, Looks, Report};
pub use snapshot::{Decision, Ready, Snapshot};
pub use standing::{PluginStanding, Standing};
pub use writer::Writer;

/// Unit tests are held to the limits of the binary.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: valvehouse_memory::Counting = valvehouse_memory::Counting::new();
