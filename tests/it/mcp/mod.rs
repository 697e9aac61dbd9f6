//! The Model Context Protocol, both ways, with the official suite and the official clients and servers.

mod clients;
mod conformance;
mod fixtures;
mod mounted;
mod login;
mod same;
mod tokens;
