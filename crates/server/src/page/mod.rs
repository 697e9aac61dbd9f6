//! `/`: the operators' page, compiled in, and the overview that it draws.

mod assets;
mod chain;
mod overview;
mod routes;

pub(crate) use routes::routes;
