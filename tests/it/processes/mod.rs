//! Hosts as separate processes on one store: they are killed, and they run in parallel.

mod access_log;
mod backup;
mod charges;
mod convergence;
mod deployment;
mod operators_day;
mod outage;
mod durable;
mod hot_path;
mod sudden_end;
mod mcp_sessions;
mod nodes;
mod page_sessions;
mod questions;
mod schema;
mod scripts_in_store;
mod serve;
mod settings;
mod signals;
mod takeover;
mod together;
#[cfg(unix)]
mod upgrade;
