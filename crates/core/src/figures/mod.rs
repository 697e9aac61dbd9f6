//! In-memory metrics of plugins, tools, providers and endpoints. They can be updated from any thread at low
//! cost.

mod doors;
mod prompt_cache;
mod services;
mod spread;
mod tally;
mod tools;

pub use doors::{Answering, CLASSES, Door, Doors};
pub use prompt_cache::{PromptCacheCount, PromptCacheTally};
pub use services::{Asking, Service, ServiceOutcome};
pub use spread::{BUCKETS, Spread, Spreading};
pub use tally::{Ending, Figures, Spent, Sum, Tally, Timing};
pub use tools::{ToolOutcome, Tools, Uses, Using};
