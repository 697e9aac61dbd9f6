//! MCP servers of the settings: connected, supervised, and offered as far as their tools are approved.

mod approvals;
mod ask;
mod child;
mod connection;
mod guarded_call;
mod link;
mod lists;
mod login;
mod server_scan;
mod mounts;
mod names;
mod oauth;
mod repair;
mod request;
mod prompt_call;
mod subscriptions;
mod tool;

pub use approvals::Approvals;
pub use link::address;
pub use login::{login, logout};
pub use mounts::{Mounts, Status};
pub use server_scan::{ServerOffer, ServerScan, look};
