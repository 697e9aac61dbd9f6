//! From the tree to typed settings, section by section.

mod config;
mod mcp;
mod models;
mod plugins;
mod section;
mod server;

pub(crate) use config::config;
