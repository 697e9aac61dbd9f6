//! `/api/v1/functions`: plugins as Open WebUI's Functions API has them, for operators; user valves for users.
//!
//! Paths and shapes are Open WebUI's, statuses are not where its own say something else than what happened:
//! 404 for an unknown id, 400 for values that do not fit, 409 for what somebody else did first, 422 for a
//! script that does not load.

mod function;
mod history;
mod routes;
mod scripts;
mod valves;

pub(crate) use routes::routes;
