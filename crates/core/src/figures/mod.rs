//! In-memory metrics of plugins, tools, providers and endpoints. They can be updated from any thread at low
//! cost.

mod endpoints;
mod prompt_cache;
mod services;
mod spread;
mod tally;
mod tools;

pub use endpoints::{CLASSES, EndpointMetrics, EndpointMetricsMap, RequestGuard};
pub use prompt_cache::{PromptCacheCount, PromptCacheTally};
pub use services::{ProviderCallGuard, Service, ServiceOutcome};
pub use spread::{BUCKETS, Spread, SpreadSnapshot};
pub use tally::{CallCost, CallOutcome, CallTimer, Figures, Sum, Tally};
pub use tools::{ToolCallGuard, ToolOutcome, Tools, Uses};
