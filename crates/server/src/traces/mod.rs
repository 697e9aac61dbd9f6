//! `/api/v1/traces`, `/api/v1/try`, `/api/v1/events`: what happens, what happened, and what would happen;
//! for operators.

mod dry_run;
mod feed;
mod list;
mod replay;
mod routes;
mod shapes;

pub(crate) use routes::routes;
