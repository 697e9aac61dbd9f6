//! The Model Context Protocol, both ways, with the official suite and the official clients and servers.

mod approvals;
mod clients;
mod conformance;
mod subscriptions;
mod fixtures;
mod guards;
pub(crate) mod mounts;
mod interceptors;
mod limits;
mod login;
mod same;
mod search;
mod bridge;
mod tokens;
