//! The `human_approval` middleware: tools run only if a person has approved exactly this call.
//!
//! The filter has priority 9998, after all filters that may change the arguments and before `on_tool_call`. It
//! fails closed: a missing or unclear answer is a rejection, which the model receives as the result of the
//! tool. The call is checked again after all other filters, so that the tool runs with the approved arguments
//! or not at all.

mod decision;
mod filter;
mod seal;

pub(super) use filter::{NAME, middleware};
