//! The Model Context Protocol in both directions: the host's tools for MCP clients, and the tools of MCP
//! servers for the host.
//!
//! This is the only package that depends on `rmcp`.

#![allow(
    deprecated,
    reason = "MCP 2026-07-28 deprecates logging, sampling and roots, which clients of the eras before it use"
)]

mod error;
mod mount;
mod pins;
mod server;
mod template;

pub use error::McpError;
pub use mount::{Approvals, Mounts, ServerOffer, ServerScan, Status, address, login, logout, look};
pub use pins::{Difference, LOCK, PartKind, PinStatus, Pins, ToolParts, path};
pub use server::{Bearer, Caller, Endpoint, HeldToken, Lapse, TokenChecker, TokenRejection};
