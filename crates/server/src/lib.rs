//! The HTTP endpoints. Each reads requests and writes responses in its own protocol; all of them run the same
//! turn.

mod access_log;
mod actions;
mod address;
mod agents;
mod api;
mod arrival;
mod auth;
mod body;
mod credentials;
mod exchange;
mod extract;
mod facts;
mod first_choice;
mod functions;
mod middleware;
mod handler;
mod headers;
mod keys;
mod listen;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "mcp")]
mod mcp_servers;
mod messages;
mod metrics;
mod ollama;
mod openai;
mod openapi;
mod operations;
mod page;
mod passthrough;
mod pipelines;
mod problem;
mod proxy_sign_in;
mod ready;
mod recording;
mod reply;
mod responses;
mod router;
mod scope;
mod session;
mod settings;
mod traces;
mod turn;
mod usage;
mod users;

pub use listen::NewConnections;
pub use router::{router, serve};
