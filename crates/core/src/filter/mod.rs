//! Filters, which inspect, change and reject the traffic of a turn.
//!
//! A filter has a name, a priority (ascending; ties keep their order) and hooks. A hook receives a
//! [`FilterContext`] and returns a [`Verdict`]. Rust closures and scripts are the same type of filter; the
//! kernel does not distinguish them.
//!
//! ```
//! use valvehouse_core::filter::{Filter, Verdict::{Continue, Reject}};
//! let auth = Filter::pre_invocation("auth", |ctx| match ctx.context().get("permissions") {
//!     Some(_) => Ok(Continue(ctx)),
//!     None => Ok(Reject("unauthorized".into())),
//! })
//! .priority(10.0);
//! ```

mod chain;
mod definition;
mod hook;

pub use chain::{Chain, ChainOutcome, TraceOutcome, step, told, wrong_events};
pub(crate) use definition::broken_stream;
pub use definition::{FailurePolicy, Filter, HookClosure, HookRunner, Verdict, is_broken_stream};
pub use hook::{FilterContext, FilterType, Hook, Hooks};
