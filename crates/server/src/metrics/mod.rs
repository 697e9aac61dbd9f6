//! `/metrics`: the host in metrics, as Prometheus reads them.
//!
//! Nothing is counted here but requests at the endpoints; the rest is read where it is counted anyway. Labels
//! come from closed sets: plugins, hooks, tools, providers, endpoints, and words of ours. Never a user, a chat, or
//! a name that a client may make up.

pub(crate) mod endpoints;
mod families;
mod host;
mod plugins;
mod process;
mod routes;
mod services;

pub(crate) use routes::routes;
