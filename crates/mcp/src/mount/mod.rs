//! Other MCP servers: connected, looked after, and their tools offered as far as they are approved.

mod child;
mod connection;
mod link;
mod look;
mod mounts;
mod names;
mod tool;

pub use look::{Look, Tool, look};
pub use mounts::{Mounts, Status};
