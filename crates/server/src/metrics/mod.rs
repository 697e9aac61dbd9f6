//! `/metrics`: the metrics of this host in Prometheus' text format.
//!
//! This module only counts requests at the endpoints; all other values are counted elsewhere. The values of
//! labels come from closed sets: plugins, hooks, tools, providers, endpoints and fixed words. They never
//! contain a user, a conversation or a name that a client chooses.

pub(crate) mod endpoints;
mod families;
mod host;
mod plugins;
mod process;
mod routes;
mod services;

pub(crate) use routes::routes;
