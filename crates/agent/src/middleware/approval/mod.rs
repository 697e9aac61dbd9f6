//! `human_approval`: tools that run only when a person has agreed to exactly this call.
//!
//! Asked at 9998, after all who may change the arguments and before `on_tool_call`. It fails closed: no
//! answer, an unclear one, or nobody to ask is a refusal, which the model reads as the tool's result. The call is
//! checked again after all other filters: a tool runs with the arguments that were approved, or not at all.

mod decision;
mod filter;
mod seal;

pub(super) use filter::{NAME, middleware};
