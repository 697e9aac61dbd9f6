//! The doors. Each reads its own wire, runs the one turn, and writes its own wire back.

mod address;
mod agents;
mod auth;
mod body;
mod extract;
mod facts;
mod fallback;
mod follower;
mod functions;
mod gate;
mod headers;
mod listen;
#[cfg(feature = "mcp")]
mod mcp;
mod messages;
mod metrics;
mod openai;
mod openapi;
mod operations;
mod page;
mod pipelines;
mod problem;
mod ready;
mod recording;
mod reply;
mod responses;
mod router;
mod session;
mod traces;

pub use reply::status as status_of;
pub use router::{router, serve};
