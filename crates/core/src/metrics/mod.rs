//! In-memory metrics of plugins, tools, providers and endpoints. They can be updated from any thread at low
//! cost.

mod balancer;
mod endpoints;
mod prompt_cache;
mod providers;
mod histogram;
mod calls;
mod tools;

pub use balancer::{Balancer, BalancerTarget, TargetReport};
pub use calls::{CallCost, CallMetrics, CallOutcome, CallTimer, PluginMetrics, Sum};
pub use endpoints::{CLASSES, EndpointMetrics, EndpointMetricsMap, RequestGuard};
pub use histogram::{BUCKETS, Histogram, HistogramSnapshot};
pub use prompt_cache::{PromptCacheCount, PromptCacheCounter};
pub use providers::{ProviderCallGuard, ProviderOutcome, Service};
pub use tools::{ToolCallGuard, ToolOutcome, Tools, Uses};
