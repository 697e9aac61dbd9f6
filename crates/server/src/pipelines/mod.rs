//! The endpoints of a pipelines server, which allow an Open WebUI to use this host as one. Each route exists
//! with and without `/v1`, and errors have the form `{"detail": text}`.

mod files;
mod hooks;
pub(crate) mod list;
mod names;
mod routes;
pub(crate) mod split_turn;
mod valves;

pub(crate) use routes::routes;
