//! Filters, which inspect, change and reject the traffic of a turn.
//!
//! A [`Filter`] has a name, a priority (ascending; ties keep their order) and a method for each hook, which receives
//! the subject of that hook and returns a [`Verdict`]. A closure is a filter with one hook. Scripts and filters in
//! Rust stand in the same chain as [`FilterEntry`]; the kernel does not distinguish them.
//!
//! ```
//! use valvehouse_core::filter::{self, Verdict};
//! let auth = filter::pre_invocation("auth", |call| match call.context().get("permissions") {
//!     Some(_) => Ok(Verdict::Continue),
//!     None => Ok(Verdict::reject("unauthorized")),
//! })
//! .priority(10.0);
//! ```

mod chain;
mod definition;
mod hook;
mod native;
mod subject;

pub use chain::{Chain, ChainOutcome, TraceOutcome, run_for_trace, step, wrong_events};
pub(crate) use definition::broken_stream;
pub use definition::{FailurePolicy, FilterEntry, HookClosure, HookRunner, Verdict, is_broken_stream};
pub use hook::{FilterContext, FilterType, Hook, Hooks};
pub use native::{
    Filter, HookResult, from_fn, from_sync_fn, inlet, outlet, post_chat, post_invocation, pre_chat,
    pre_invocation, stream, stream_end,
};
pub use subject::{
    Inlet, Outlet, PostChat, PostInvocation, PreChat, PreInvocation, StreamEnd, StreamEvent, Subject,
};
