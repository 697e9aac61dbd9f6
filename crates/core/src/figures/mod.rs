//! The results of calls: of plugins, of tools, of models' services, and at the endpoints. Kept while the host
//! runs, from any thread, cheap to add to.

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
