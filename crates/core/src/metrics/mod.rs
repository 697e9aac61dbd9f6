//! In-memory metrics of plugins, tools, providers and endpoints. They can be updated from any thread at low
//! cost.

mod endpoints;
mod key_rests;
mod prompt_cache;
mod providers;
mod histogram;
mod calls;
mod tools;

pub use calls::{CallCost, CallMetrics, CallOutcome, CallTimer, PluginMetrics, Sum};
pub use endpoints::{CLASSES, EndpointMetrics, EndpointMetricsMap, RequestGuard};
pub use histogram::{BUCKETS, Histogram, HistogramSnapshot};
pub use key_rests::KeyRests;
pub use prompt_cache::{PromptCacheCount, PromptCacheCounter};
pub use providers::{ProviderCallGuard, ProviderOutcome, Service};
pub use tools::{ToolCallGuard, ToolOutcome, Tools, Uses};
