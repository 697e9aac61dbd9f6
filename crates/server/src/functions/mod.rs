//! `/api/v1/functions`: plugins as in Open WebUI's Functions API, for operators; user valves also for users.
//!
//! Paths and JSON match Open WebUI. Statuses differ where they can be more precise: 404 for an unknown id,
//! 400 for invalid values, 409 for a conflict with another change, 422 for a script that does not load.

mod drafts;
mod function;
mod grants;
mod history;
mod routes;
mod scripts;
mod test_runs;
mod valves;

pub(crate) use routes::routes;
