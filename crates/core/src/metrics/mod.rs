//! In-memory metrics of plugins, tools, providers and endpoints. They can be updated from any thread at low
//! cost.

mod endpoints;
mod prompt_cache;
mod providers;
mod histogram;
mod calls;
mod tools;

pub use endpoints::{CLASSES, EndpointMetrics, EndpointMetricsMap, RequestGuard};
pub use prompt_cache::{PromptCacheCount, PromptCacheCounter};
pub use providers::{ProviderCallGuard, Service, ProviderOutcome};
pub use histogram::{BUCKETS, Histogram, HistogramSnapshot};
pub use calls::{CallCost, CallOutcome, CallTimer, PluginMetrics, Sum, CallMetrics};
pub use tools::{ToolCallGuard, ToolOutcome, Tools, Uses};
