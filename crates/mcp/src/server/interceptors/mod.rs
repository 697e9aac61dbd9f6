//! Filters as interceptors for other hosts: an experimental extension of MCP by its draft SEP-2624 and the
//! fixtures of `modelcontextprotocol/experimental-ext-interceptors`.

mod breakers;
mod invocation;
mod listing;
mod payload;

pub(super) use breakers::InterceptorBreakers;
pub(super) use invocation::invoke;
pub(super) use listing::{EXTENSION, capability, list};
