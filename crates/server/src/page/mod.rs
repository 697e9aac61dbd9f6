//! `/`: the operators' page, which is compiled in, and the data that it displays.

mod assets;
mod chain;
mod overview;
mod routes;

pub(crate) use overview::PluginStats;
pub(crate) use routes::routes;
