//! The endpoints of a pipelines server, so that an Open WebUI can use this host as its own: each route with and
//! without `/v1`, errors as `{"detail": text}`.

mod files;
mod hooks;
pub(crate) mod list;
mod names;
mod routes;
pub(crate) mod split_turn;
mod valves;

pub(crate) use routes::routes;
