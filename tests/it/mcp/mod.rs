//! The Model Context Protocol, both ways, with the official suite and the official clients and servers.

mod approvals;
mod clients;
mod conformance;
mod followed;
mod fixtures;
pub(crate) mod mounted;
mod interceptors;
mod limits;
mod login;
mod same;
mod search;
mod bridged;
mod tokens;
