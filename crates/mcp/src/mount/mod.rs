//! MCP servers of the settings: connected, supervised, and offered as far as their tools are approved.

mod approvals;
mod ask;
mod child;
mod connection;
mod link;
mod login;
mod look;
mod mounts;
mod names;
mod oauth;
mod request;
mod served;
mod subscriptions;
mod tool;

pub use approvals::{ApprovalError, Approvals};
pub use login::{login, logout};
pub use look::{ServerOffer, ServerScan, look};
pub use mounts::{Mounts, Status};
