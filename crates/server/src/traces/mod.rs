//! `/api/v1/traces`, `/api/v1/try` and `/api/v1/events`: traces of requests, dry runs and live events, for
//! operators.

mod dry_run;
mod feed;
mod list;
mod replay;
mod routes;

pub(crate) use routes::routes;
