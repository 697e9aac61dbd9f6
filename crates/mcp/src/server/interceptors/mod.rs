//! Filters as interceptors that other hosts call: an experimental extension of MCP, as its draft SEP-2624 and the fixtures
//! of `modelcontextprotocol/experimental-ext-interceptors` have it.

mod breakers;
mod invocation;
mod listing;
mod payload;

pub(super) use breakers::InterceptorBreakers;
pub(super) use invocation::invoke;
pub(super) use listing::{EXTENSION, capability, list};
